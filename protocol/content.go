package protocol

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"hubbub/protocol/text"
)

// SpawnRequest is the content of spawn_request. Topic defaults to the sender.
type SpawnRequest struct {
	Topic     Topic  `json:"topic,omitempty"`
	RequestID string `json:"requestId,omitempty"`
	Agent     string `json:"agent,omitempty"`   // optional name of the agent to use
	Profile   string `json:"profile,omitempty"` // optional operator-defined profile
}

// SpawnResult is the content of spawn_result.
type SpawnResult struct {
	RequestID string `json:"requestId,omitempty"`
	Topic     Topic  `json:"topic"`
	Agent     PeerID `json:"agent,omitempty"`
	Status    string `json:"status"` // SpawnSpawned or SpawnFailed
	Error     string `json:"error,omitempty"`
}

// The statuses of a spawn.
const (
	SpawnSpawned = "spawned"
	SpawnFailed  = "failed"
)

// RouteAssigned is the content of route_assigned: topic now talks to agent.
type RouteAssigned struct {
	Topic     Topic  `json:"topic"`
	Agent     PeerID `json:"agent"`
	RequestID string `json:"requestId,omitempty"`
}

// RouteCopy returns the params for sending a copy of a route_assigned to the observers of
// TopicRoute.
func RouteCopy(assigned Message) SendParams {
	assigned.MessageID = NewMessageID()
	return SendParams{Topic: TopicRoute, Payload: assigned}
}

// Presence is the content of presence, which the bus sends to observers of [TopicPresence]. It
// first reports every peer that is online, the observer itself last, and then each peer that
// joins or leaves.
type Presence struct {
	Peer  PeerID `json:"peer"`
	State string `json:"state"` // PresenceJoined or PresenceLeft
	Bus   string `json:"bus"`   // the bus that the peer is or was connected to
}

// The states of a Presence.
const (
	PresenceJoined = "joined"
	PresenceLeft   = "left"
)

// Configure is the content of configure: the chat that an agent talks to.
type Configure struct {
	TalkTo Topic    `json:"talkto"`
	People []PeerID `json:"people,omitempty"` // members of the chat, in the order in which they were admitted
	// Halt is "on" (no turn runs in that chat until "off"; with the agent's own topic, in no chat) or,
	// with the agent's own topic only, "anew" (budgets start from zero).
	Halt string `json:"halt,omitempty"`
	By   string `json:"by,omitempty"` // who requested it, for people
}

// HaltBudgetReset is the state in an agent's record of a Configure with Halt "anew".
const HaltBudgetReset = "counted_anew"

// editMark separates a sourceId from the number of its edit in the id of the event for that edit.
const editMark = "#edit-"

// EditEventID returns the id of the event for the n-th edit of a message whose own event has ended.
func EditEventID(sourceID string, n int) string { return sourceID + editMark + strconv.Itoa(n) }

// EditsOf returns the bounds of the ids that EditEventID returns for a message: first <= id < end.
func EditsOf(sourceID string) (first, end string) {
	mark := sourceID + editMark[:len(editMark)-1]
	return mark + "-", mark + "."
}

// SourceOfEvent returns the sourceId of the message that an event is about, which for most events is the id
// of the event.
func SourceOfEvent(id string) string {
	if at := strings.LastIndex(id, editMark); at > 0 && isNumber(id[at+len(editMark):]) {
		return id[:at]
	}
	return id
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// ChatMessage is the content of tg_message and chat_message. Only Text is required. Defaults are
// named beside the fields.
type ChatMessage struct {
	Text        string       `json:"text"`
	Event       string       `json:"event,omitempty"`    // default "message"
	SourceID    string       `json:"sourceId,omitempty"` // default the messageId
	Chat        *Chat        `json:"chat,omitempty"`     // default kind "dm", id the sender's name
	Author      *Author      `json:"author,omitempty"`   // default kind "human"
	Mentions    []string     `json:"mentions,omitempty"` // "agent:lead", "role:backend-agents"
	ReplyTo     *ReplyTo     `json:"replyTo,omitempty"`
	Forwarded   string       `json:"forwardedFrom,omitempty"` // author of a forwarded text, which is quoted
	Sequence    int64        `json:"sequence,omitempty"`
	CreatedAt   string       `json:"createdAt,omitempty"`
	Priority    string       `json:"priority,omitempty"` // "normal" (default) or "urgent"
	Signal      string       `json:"signal,omitempty"`   // of a reaction; of a message that stops its chat: SignalStop
	Attachments []Attachment `json:"attachments,omitempty"`
	// Directedness of an agent's message: to_me, to_my_role, to_other or ambient. The mentions,
	// or the message that it answers, name the recipients.
	Directedness string          `json:"directedness,omitempty"`
	MCP          json.RawMessage `json:"mcp,omitempty"` // chorus: {"url"} of the gateway's own proxy

	// Recipients and the obligation to them, only in draft 2026-08-11.
	Recipients []Party     `json:"recipients,omitempty"`
	Obligation *Obligation `json:"obligation,omitempty"`
	// ReactionID, and the fields below, of a reaction in that draft. sourceId, replyTo and author
	// replace missing fields.
	ReactionID    string `json:"reactionId,omitempty"`
	TargetEventID string `json:"targetEventId,omitempty"`
	Actor         *Party `json:"actor,omitempty"`     // also of a delete
	Recipient     *Party `json:"recipient,omitempty"` // the recipient of the target that the signal refers to
}

// A Party is an identity: a recipient, the author of a reaction, or a discharge delegate.
type Party struct {
	ID          string `json:"id"`             // "agent:lead", "tg:77"; Kind gives the family of a bare id
	Kind        string `json:"kind,omitempty"` // human or agent
	DisplayName string `json:"displayName,omitempty"`
}

// An Obligation says that the author of an event waits for its recipient.
type Obligation struct {
	// how a missing answer affects the author: halted, degraded or none
	Blocks            string `json:"blocks"`
	DefaultAction     string `json:"defaultAction,omitempty"` // what the author does without an answer
	DischargeDelegate *Party `json:"dischargeDelegate,omitempty"`
}

// The kinds of chat events.
const (
	EventMessage    = "message"
	EventEdit       = "edit"
	EventDelete     = "delete"
	EventReaction   = "reaction"
	EventMembership = "membership"
	EventAssignment = "assignment"
	EventApproval   = "approval"
	EventBlocker    = "blocker"
	EventStatus     = "status"
	EventTyping     = "typing" // the author is typing; valid for ten seconds; not stored as an event
)

// A Chat says where a chat message was written.
type Chat struct {
	ID       string `json:"id"`
	Kind     string `json:"kind,omitempty"` // dm, channel, thread, system or tool
	Title    string `json:"title,omitempty"`
	ThreadID string `json:"threadId,omitempty"`
	StreamID string `json:"streamId,omitempty"`
	TimeZone string `json:"timeZone,omitempty"` // time zone of the chat's people, such as Europe/Berlin, if known
	Service  string `json:"service,omitempty"`  // chorus: name of the service, for people; untrusted
	Context  string `json:"context,omitempty"`  // chorus: purpose of the channel, in the service's words; untrusted
}

// An Author says who wrote a chat message.
type Author struct {
	ID          string `json:"id"`
	Kind        string `json:"kind,omitempty"` // human, agent or system
	DisplayName string `json:"displayName,omitempty"`
	Username    string `json:"username,omitempty"`
}

// ReplyTo names the message that a chat message answers.
type ReplyTo struct {
	SourceID string `json:"sourceId,omitempty"` // empty for a message of another chat
	Author   string `json:"author,omitempty"`   // identity of the agent that wrote it; empty for a person
	Name     string `json:"name,omitempty"`     // of its author, for people; untrusted
	Text     string `json:"text,omitempty"`     // its text, or the quoted part; long texts are shortened

	Attachments []Attachment `json:"attachments,omitempty"` // its files
}

// An Attachment is the metadata of a file, with a reference that contains no secret.
type Attachment struct {
	Kind     string `json:"kind"`
	Ref      string `json:"ref,omitempty"`
	Name     string `json:"name,omitempty"`
	MimeType string `json:"mimeType,omitempty"`
	Size     int64  `json:"size,omitempty"`
}

// ChatReply is the content of tg_reply and chat_reply: a text, a signal, or a typing indicator,
// possibly with a draft.
type ChatReply struct {
	Text   string `json:"text,omitempty"`
	Signal string `json:"signal,omitempty"`
	Typing bool   `json:"typing,omitempty"`
	// with typing: the unfinished answer; never the answer itself
	Draft          string      `json:"draft,omitempty"`
	InReplyTo      string      `json:"inReplyTo,omitempty"` // sourceId of the event answered
	IdempotencyKey string      `json:"idempotencyKey,omitempty"`
	ReplyTo        string      `json:"replyTo,omitempty"`
	ThreadID       string      `json:"threadId,omitempty"`
	Visibility     string      `json:"visibility,omitempty"`
	Directedness   string      `json:"directedness,omitempty"`
	Claim          *ReplyClaim `json:"claim,omitempty"`
	Buttons        []Button    `json:"buttons,omitempty"`  // shown under the text, if the chat supports them
	MayPress       []string    `json:"mayPress,omitempty"` // identities whose presses count, such as tg:77; empty: all
	// idempotencyKey of the sender's message that this text replaces
	Edits      string      `json:"edits,omitempty"`
	File       *File       `json:"file,omitempty"` // the text is its caption
	Recipients []Party     `json:"recipients,omitempty"`
	Obligation *Obligation `json:"obligation,omitempty"` // the agent waits for the recipients
}

// CheckIDs returns nil if the ids in a reply are clean names, so that no two ids look alike, or the
// reason why not.
func (r *ChatReply) CheckIDs() error {
	if !text.IsCleanName(r.IdempotencyKey + r.Edits + r.InReplyTo + r.ReplyTo + r.ThreadID) {
		return errors.New("idempotencyKey, edits, inReplyTo, replyTo and threadId must be " + text.NameRule)
	}
	return nil
}

// A File is a file that an agent sends.
type File struct {
	Name string `json:"name"`
	Data []byte `json:"data"` // base64 in JSON; at most MaxFileData bytes before encoding
}

// MaxFileData bounds the data of a file, in bytes, so that it fits into a frame of the default
// size.
const MaxFileData = 700 << 10

// MaxDraft bounds the shown part of an unfinished answer, in bytes.
const MaxDraft = 4000

// SignalStop is a person's signal to stop the work on their own message, as a reaction, or in a
// whole chat, as a message. Agents never use it.
const SignalStop = "stop"

// MaxCaption bounds the caption of a file, in UTF-16 units.
const MaxCaption = 1024

// A Button is shown under a message. Pressing it sends its value to the chat.
type Button struct {
	Text  string `json:"text"`
	Value string `json:"value"` // at most 64 bytes
}

// A ReplyClaim shows that the replying agent holds the claim on the event.
type ReplyClaim struct {
	EventID string `json:"eventId"`
	Token   int64  `json:"token"`
}

// DeliveryStatus is the content of delivery_status: whether a tg_reply or chat_reply was
// delivered. MessageID is the id of the reply.
type DeliveryStatus struct {
	MessageID         MessageID `json:"messageId"`
	Status            string    `json:"status"` // accepted, delivered, failed or unknown
	IdempotencyKey    string    `json:"idempotencyKey,omitempty"`
	TelegramMessageID int64     `json:"telegramMessageId,omitempty"`
	// id of the shown reply, or of its first part, in the chat, if the chat assigned one
	SourceID string `json:"sourceId,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// The statuses of a delivery_status.
const (
	StatusAccepted  = "accepted"
	StatusDelivered = "delivered"
	StatusFailed    = "failed"
	StatusUnknown   = "unknown"
)

// AgentOnline is the content of the agent_event that announces an agent on TopicAgents. The agent
// sends it once it is connected and subscribed, and repeats it until it is acknowledged. An event
// "wanted" requests the announcement. The spawner sends it to an agent that has not announced
// itself, and to one that is requested repeatedly, to check its connection. The broker sends it
// to TopicAgents when a delivery waits for an offline agent; the spawner then starts the agent if
// it was stopped as idle.
type AgentOnline struct {
	Event      string `json:"event"` // "online", or "wanted" from the spawner or the broker
	Agent      PeerID `json:"agent"`
	DeliveryID string `json:"deliveryId,omitempty"` // of the delivery that waits at the broker
}

// A Reaction is a signal about an event, as a separate event. An agent sends it as an agent_event
// to the agent concerned.
type Reaction struct {
	Event         string `json:"event"` // EventReaction
	ReactionID    string `json:"reactionId"`
	TargetEventID string `json:"targetEventId"`
	CreatedAt     string `json:"createdAt,omitempty"`
	Actor         Party  `json:"actor"`
	Signal        string `json:"signal"`
	Recipient     *Party `json:"recipient,omitempty"`
}

// CollabRequest is the content of collab_request.
type CollabRequest struct {
	Method    string          `json:"method"`
	Params    json.RawMessage `json:"params,omitempty"`
	RequestID string          `json:"requestId"`
}

// CollabResult is the content of collab_result.
type CollabResult struct {
	RequestID string          `json:"requestId"`
	OK        bool            `json:"ok"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *CollabError    `json:"error,omitempty"`
}

// CollabError says why a collaboration request failed.
type CollabError struct {
	Code    string          `json:"code"`
	Message string          `json:"message"`
	Details json.RawMessage `json:"details,omitempty"`
}

// CollabEvent is the content of collab_event: one fact of the broker.
type CollabEvent struct {
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Source   string          `json:"source"`
	Target   string          `json:"target"`
	Payload  json.RawMessage `json:"payload"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
}

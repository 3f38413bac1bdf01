package attention

import (
	"cmp"
	"strings"
	"time"
)

// An Event is one chat event as an agent's attention layer sees it. Decide applies the defaults
// of zero fields, which are named beside them.
type Event struct {
	EventID      string       `json:"eventId"`
	Kind         EventKind    `json:"event,omitempty"` // default message
	Conversation Conversation `json:"conversation"`
	Author       Author       `json:"author"`
	// resolved by the bridge: "agent:lead", "role:backend-agents", "user:dave"
	Mentions []string `json:"mentions,omitempty"`
	// the agent that a direct message or an assignment is for, if known
	Recipient    string       `json:"recipient,omitempty"`
	ReplyTo      *ReplyTo     `json:"replyTo,omitempty"`
	Text         string       `json:"text"`
	Directedness Directedness `json:"directedness,omitempty"` // whom it obliges, declared by the agent that wrote it
	Priority     Priority     `json:"priority,omitempty"`     // default normal
	// of a reaction, empty without a text if it was removed; stop of a message stops its chat
	Signal      string      `json:"signal,omitempty"`
	Attachments int         `json:"attachments,omitempty"`
	Recipients  []string    `json:"recipients,omitempty"` // identities of the declared recipients
	Obligation  *Obligation `json:"obligation,omitempty"` // only in draft 2026-08-11
}

// An EventKind says what happened in the chat.
type EventKind string

// The kinds of events. An unknown kind is treated as KindStatus: it is stored and readable, and
// starts no turn.
const (
	KindMessage    EventKind = "message"
	KindEdit       EventKind = "edit"
	KindDelete     EventKind = "delete"
	KindReaction   EventKind = "reaction"
	KindMembership EventKind = "membership"
	KindAssignment EventKind = "assignment"
	KindApproval   EventKind = "approval"
	KindBlocker    EventKind = "blocker"
	KindAnswer     EventKind = "answer" // to a question that the agent asked through the broker
	KindStatus     EventKind = "status"

	KindReminder    EventKind = "reminder"    // set by the agent itself
	KindUndelivered EventKind = "undelivered" // a message from the agent will never be shown
	KindReturn      EventKind = "return"      // an open obligation is presented again
)

// A Conversation says where an event was written. The bridge assigns ID, which is opaque.
type Conversation struct {
	ID       string           `json:"id"`
	Kind     ConversationKind `json:"kind"` // default dm
	ThreadID string           `json:"threadId,omitempty"`
	StreamID string           `json:"streamId,omitempty"`
	Title    string           `json:"title,omitempty"` // for people; never trusted
}

// A ConversationKind is the kind of a conversation.
type ConversationKind string

// The kinds of conversations.
const (
	ConversationDM      ConversationKind = "dm"
	ConversationChannel ConversationKind = "channel"
	ConversationThread  ConversationKind = "thread"
	ConversationSystem  ConversationKind = "system"
	ConversationTool    ConversationKind = "tool"
)

// An Author says who caused an event. DisplayName and Username are for people and never trusted.
type Author struct {
	ID          string     `json:"id"`
	Kind        AuthorKind `json:"kind"` // default human
	DisplayName string     `json:"displayName,omitempty"`
	Username    string     `json:"username,omitempty"`
}

// An AuthorKind is the kind of an author.
type AuthorKind string

// The kinds of authors.
const (
	AuthorHuman  AuthorKind = "human"
	AuthorAgent  AuthorKind = "agent"
	AuthorSystem AuthorKind = "system"
)

// A ReplyTo names the message that an event answers or reacts to. Author is the identity of the
// agent that wrote it, or empty for a person.
type ReplyTo struct {
	EventID string `json:"eventId,omitempty"`
	Author  string `json:"author,omitempty"`
	Name    string `json:"name,omitempty"` // of its author, for people; never trusted
	Text    string `json:"text,omitempty"` // its text, or the quoted part
}

// Self is the agent for which a decision is made.
type Self struct {
	ID      string   `json:"id"`                // "agent:lead"
	Aliases []string `json:"aliases,omitempty"` // other names that mention it, without "@"
	Roles   []string `json:"roles,omitempty"`   // "backend-agents"
	Streams []string `json:"streams,omitempty"` // streams that it owns
}

// Facts are the agent's own records about an event. The zero value means that nothing is known.
type Facts struct {
	Participating bool `json:"participating,omitempty"` // it has written in this thread or was mentioned there
	OwnsThread    bool `json:"ownsThread,omitempty"`    // it holds a claim or an assignment in this thread
	// event id of its newest open claim or assignment in this thread
	Work string `json:"work,omitempty"`
	// it was asked to leave and has not been mentioned since
	Left     bool `json:"left,omitempty"`
	Answered bool `json:"answered,omitempty"` // it has already answered the message of this event
	// its own question was the last message here, still waits for this author, or is answered or reacted to
	Asked    bool   `json:"asked,omitempty"`
	Question string `json:"question,omitempty"` // its text
	// its own offer was the last message here, or is the message answered: see Offers
	Offered bool `json:"offered,omitempty"`
	// outside of direct messages: it is a person's first message after a question that the agent asked them here
	Answers bool `json:"answers,omitempty"`
	// an agent sent the same text before, it had a turn here, and no person has written since; or
	// an earlier reaction with the same signal to the same message had a turn
	Repeated bool `json:"repeated,omitempty"`
	// its author addressed this agent moments before, and this may be the rest of that message
	Continues bool `json:"continues,omitempty"`
	// of a returned obligation: since its event was created
	Waited      time.Duration `json:"waitedNs,omitempty"`
	OtherAgents []string      `json:"otherAgents,omitempty"` // other agents known to be in this conversation
	Age         time.Duration `json:"ageNs,omitempty"`       // since the event was written
}

// Config configures decisions. The zero value means the defaults.
type Config struct {
	Version   Version       `json:"version,omitempty"`    // default Version0602
	Deadline  time.Duration `json:"deadlineNs,omitempty"` // for an answer; default 5m
	Freshness time.Duration `json:"freshnessNs,omitempty"`
	Digests   bool          `json:"digests,omitempty"` // status events go into digests; otherwise they are only stored
	Inject    *Capabilities `json:"inject,omitempty"`  // what the harness supports; nil = everything
	Words     *Words        `json:"words,omitempty"`   // nil = DefaultWords
}

// Defaults of Config.
const (
	DefaultDeadline  = 5 * time.Minute
	DefaultFreshness = 24 * time.Hour
)

// Capabilities lists the injection modes that a harness supports. An unsupported mode falls back
// to ModeToolMailbox.
type Capabilities struct {
	Immediate   bool `json:"immediate"`
	Buffered    bool `json:"buffered"`
	Notify      bool `json:"notify"`
	ToolMailbox bool `json:"tool_mailbox"`
	Digest      bool `json:"digest"`
	Interrupt   bool `json:"interrupt,omitempty"` // a running turn may be cancelled and restarted with further events
}

// Supports reports whether the harness supports a mode. Modes that inject nothing are always
// supported. A nil receiver supports everything.
func (c *Capabilities) Supports(m Mode) bool {
	if c == nil {
		return true
	}
	takes, needed := map[Mode]bool{ModeImmediate: c.Immediate, ModeBuffered: c.Buffered, ModeNotify: c.Notify,
		ModeDigest: c.Digest}[m]
	return takes || !needed
}

func (c Config) deadline() time.Duration { return cmp.Or(max(c.Deadline, 0), DefaultDeadline) }

func (c Config) freshness() time.Duration { return cmp.Or(max(c.Freshness, 0), DefaultFreshness) }

func (c Config) words() *Words { return cmp.Or(c.Words, &defaultWords().Words) }

func (e *Event) kind() EventKind { return cmp.Or(e.Kind, KindMessage) }

func (e *Event) conversationKind() ConversationKind {
	return cmp.Or(e.Conversation.Kind, ConversationDM)
}

func (e *Event) authorKind() AuthorKind { return cmp.Or(e.Author.Kind, AuthorHuman) }

func (e *Event) priority() Priority {
	if e.Priority == PriorityUrgent || e.Priority == PriorityLow {
		return e.Priority
	}
	return PriorityNormal
}

// inThread reports whether an event belongs to a thread rather than a whole channel: to a
// conversation of the kind thread, or to a thread in a channel.
func (e *Event) inThread() bool {
	return e.conversationKind() == ConversationThread ||
		e.conversationKind() == ConversationChannel && e.Conversation.ThreadID != ""
}

// is reports whether an identity, with or without its family, is this agent.
func (s *Self) is(identity string) bool {
	return identity != "" && s.ID != "" && strings.EqualFold(strings.TrimPrefix(identity, "agent:"),
		strings.TrimPrefix(s.ID, "agent:"))
}

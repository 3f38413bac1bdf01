package collab

import (
	"encoding/json"
	"errors"
	"time"

	"hubbub/protocol"
)

// IDParams identify a record.
type IDParams struct {
	ID string `json:"id"`
}

// PageParams are the params of every list: the cursor from the previous page, and the maximum
// number of items.
type PageParams struct {
	After string `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// SetAfter sets the cursor from the previous page.
func (p *PageParams) SetAfter(next string) { p.After = next }

// AnnounceParams announce an endpoint of the caller.
type AnnounceParams struct {
	LogicalAgentID string   `json:"logicalAgentId"`
	EndpointID     string   `json:"endpointId"`
	HarnessType    string   `json:"harnessType"`
	WorkspaceID    string   `json:"workspaceId"`
	ProjectPath    string   `json:"projectPath"`
	Profile        string   `json:"profile,omitempty"`
	Model          string   `json:"model,omitempty"`
	Node           string   `json:"node,omitempty"`
	Aliases        []string `json:"aliases,omitempty"` // other names of the agent; names come first
	Roles          []string `json:"roles"`
	WakePolicy     string   `json:"wakePolicy"`
}

// EndpointParams identify an endpoint.
type EndpointParams struct {
	EndpointID string `json:"endpointId"`
}

// LabelParams hold a label to resolve.
type LabelParams struct {
	Label string `json:"label"`
}

// ConversationParams describe a conversation.
type ConversationParams struct {
	ID        *string  `json:"id,omitempty"`
	Kind      string   `json:"kind,omitempty"`
	Title     string   `json:"title,omitempty"`
	MemberIDs []string `json:"memberIds,omitempty"`
	MasterID  string   `json:"masterId,omitempty"`
}

// ConversationGetParams ask for a conversation and a page of its messages.
type ConversationGetParams struct {
	IDParams
	PageParams
}

// PostParams describe a message.
type PostParams struct {
	ID             *string  `json:"id,omitempty"`
	ConversationID string   `json:"conversationId"`
	Text           string   `json:"text"`
	Surface        string   `json:"surface,omitempty"`
	Kind           string   `json:"kind,omitempty"`
	Targets        []string `json:"targets,omitempty"`
	WorkItemID     string   `json:"workItemId,omitempty"`
	InReplyTo      string   `json:"inReplyTo,omitempty"`
	FollowUp       bool     `json:"followUp,omitempty"` // the sender is notified if nobody takes it

	Chat       *ChatParams          `json:"chat,omitempty"`
	Obligation *protocol.Obligation `json:"obligation,omitempty"` // of the woken agent to the author
}

// ChatParams describe the chat in which a person gave a command. Unless it exists, the broker
// creates the chat's conversation, with the request's conversationId, and binds the chat to its
// agent. Only bridges send ChatParams, on behalf of a person.
type ChatParams struct {
	Identity protocol.PeerID `json:"identity"` // such as tg:-100123
	Kind     string          `json:"kind"`     // of the conversation
	Title    string          `json:"title,omitempty"`
	AgentID  string          `json:"agentId,omitempty"` // the agent that answers for the conversation
}

// QuestionParams describe a question.
type QuestionParams struct {
	ID              *string       `json:"id,omitempty"`
	Title           string        `json:"title,omitempty"`
	ConversationID  string        `json:"conversationId,omitempty"`
	AskedOfID       string        `json:"askedOfId,omitempty"`
	NextMoveOwnerID string        `json:"nextMoveOwnerId,omitempty"`
	State           QuestionState `json:"state,omitempty"`
	AcceptanceState Acceptance    `json:"acceptanceState,omitempty"`
	AskedByID       *string       `json:"askedById,omitempty"`
	CreatedByID     *string       `json:"createdById,omitempty"`
	Answer          string        `json:"answer,omitempty"`
	ParentID        string        `json:"parentId,omitempty"`
	OnBehalfOf      string        `json:"onBehalfOf,omitempty"`
	Kind            string        `json:"kind,omitempty"`
	CreatedAt       *Moment       `json:"createdAt,omitempty"`
	UpdatedAt       *Moment       `json:"updatedAt,omitempty"`

	Chat       *ChatParams          `json:"chat,omitempty"`
	Obligation *protocol.Obligation `json:"obligation,omitempty"` // of the asked party to the asking one
}

// AnswerParams answer a question. By is the identity of a person who answered in a chat of the
// asking agent; only that agent may set it.
type AnswerParams struct {
	ID     string          `json:"id"`
	Answer string          `json:"answer"`
	By     protocol.PeerID `json:"by,omitempty"`
}

// QuestionListParams select questions.
type QuestionListParams struct {
	State           QuestionState `json:"state,omitempty"`
	NextMoveOwnerID string        `json:"nextMoveOwnerId,omitempty"`
	PageParams
}

// ReminderListParams select reminders by their recipient.
type ReminderListParams struct {
	RemindedID string `json:"remindedId,omitempty"`
	PageParams
}

// ArrivedParams name an artifact or a condition by the targetId or the label of a waitingOn.
type ArrivedParams struct {
	Name string `json:"name"`
}

// WorkParams describe a work item, or its changes. Absent members do not change.
type WorkParams struct {
	ID              *string    `json:"id,omitempty"`
	Title           *string    `json:"title,omitempty"`
	Summary         *string    `json:"summary,omitempty"`
	CreatedByID     *string    `json:"createdById,omitempty"`
	OwnerID         *string    `json:"ownerId,omitempty"`
	NextMoveOwnerID *string    `json:"nextMoveOwnerId,omitempty"`
	State           WorkState  `json:"state,omitempty"`
	AcceptanceState Acceptance `json:"acceptanceState,omitempty"`
	RequestedByID   *string    `json:"requestedById,omitempty"`
	WaitingOn       *WaitingOn `json:"waitingOn,omitempty"`
	ParentID        *string    `json:"parentId,omitempty"`
	ConversationID  *string    `json:"conversationId,omitempty"`
	Priority        *string    `json:"priority,omitempty"`
	OnBehalfOf      string     `json:"onBehalfOf,omitempty"` // absent: nobody, even if it was set before
	Kind            string     `json:"kind,omitempty"`
	CreatedAt       *Moment    `json:"createdAt,omitempty"`
	UpdatedAt       *Moment    `json:"updatedAt,omitempty"`
	Wake            *bool      `json:"wake,omitempty"` // wake the responsible party; nil is false
}

// UnmarshalJSON reads the params. A parentId of null removes the parent, like "".
func (p *WorkParams) UnmarshalJSON(raw []byte) error {
	type plain WorkParams
	var given struct {
		ParentID json.RawMessage `json:"parentId"`
	}
	err := errors.Join(json.Unmarshal(raw, (*plain)(p)), json.Unmarshal(raw, &given))
	if string(given.ParentID) == "null" {
		p.ParentID = new("")
	}
	return err
}

// AssignParams assign a work item, and ask the new owner to begin if it is an agent. With a
// title, the work item is created. Work in review is rejected, and finished work is reopened.
type AssignParams struct {
	ID             *string     `json:"id"`
	Title          *string     `json:"title,omitempty"`
	OwnerID        string      `json:"ownerId"`
	Text           string      `json:"text,omitempty"` // the request to the agent; default: the title
	InvocationID   *string     `json:"invocationId,omitempty"`
	ConversationID string      `json:"conversationId,omitempty"`
	Chat           *ChatParams `json:"chat,omitempty"`
}

// WorkListParams select work items.
type WorkListParams struct {
	State           WorkState `json:"state,omitempty"`
	OwnerID         string    `json:"ownerId,omitempty"`
	NextMoveOwnerID string    `json:"nextMoveOwnerId,omitempty"`
	PageParams
}

// InvocationParams describe an invocation.
type InvocationParams struct {
	TargetAgentID  string  `json:"targetAgentId"`
	ConversationID string  `json:"conversationId,omitempty"`
	WorkItemID     string  `json:"workItemId,omitempty"`
	Text           string  `json:"text"`
	ID             *string `json:"id,omitempty"`
}

// FlightParams change the state of a flight.
type FlightParams struct {
	ID     string      `json:"id"`
	State  FlightState `json:"state"`
	Output string      `json:"output,omitempty"`
	Error  string      `json:"error,omitempty"`
	Wake   bool        `json:"wake,omitempty"`
}

// DeliveryListParams select the deliveries to an agent.
type DeliveryListParams struct {
	TargetAgentID string         `json:"targetAgentId"`
	Status        DeliveryStatus `json:"status,omitempty"`
	PageParams
}

// DeliveryClaimParams lease the oldest pending delivery to an agent.
type DeliveryClaimParams struct {
	TargetAgentID string `json:"targetAgentId"`
	LeaseMs       int64  `json:"leaseMs,omitempty"`
}

// BindingParams set or identify a binding.
type BindingParams struct {
	Surface    string `json:"surface"`
	ExternalID string `json:"externalId"`
	AgentID    string `json:"agentId,omitempty"`
}

// ClaimParams are the params of all methods about claims. TTLMs is for acquire, Token and
// Answered are for release.
type ClaimParams struct {
	EventID  string `json:"eventId"`
	TTLMs    int64  `json:"ttlMs,omitempty"`
	Token    int64  `json:"token,omitempty"`
	Answered bool   `json:"answered,omitempty"`
}

// EventsParams ask for the events after a seq.
type EventsParams struct {
	After int64 `json:"after,omitempty"`
	Limit int   `json:"limit,omitempty"`
}

// ExplainParams identify the subject of a wake decision.
type ExplainParams struct {
	MessageID  string `json:"messageId,omitempty"`
	WorkItemID string `json:"workItemId,omitempty"`
	QuestionID string `json:"questionId,omitempty"`
}

// PromptParams ask for the collaboration contract of an agent.
type PromptParams struct {
	AgentID        string `json:"agentId"`
	HarnessType    string `json:"harnessType,omitempty"`
	ConversationID string `json:"conversationId,omitempty"`
	WorkItemID     string `json:"workItemId,omitempty"`
}

// A Moment is a time in params: RFC 3339, or milliseconds since 1970.
type Moment struct{ time.Time }

// UnmarshalJSON reads either form.
func (m *Moment) UnmarshalJSON(raw []byte) error {
	var ms int64
	if json.Unmarshal(raw, &ms) == nil {
		m.Time = time.UnixMilli(ms)
		return nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return errors.New("a time is an RFC 3339 string or milliseconds since 1970")
	}
	t, err := protocol.ParseTime(s)
	m.Time = t
	return err
}

package broker

import "encoding/json"

// The kinds of collaboration records.
const (
	KindWorkItem = "work_item"
	KindQuestion = "question"
)

// A WorkState is the state of a work item.
type WorkState string

// The states of a work item; done and cancelled are terminal.
const (
	WorkOpen      WorkState = "open"
	WorkWorking   WorkState = "working"
	WorkWaiting   WorkState = "waiting"
	WorkReview    WorkState = "review"
	WorkDone      WorkState = "done"
	WorkCancelled WorkState = "cancelled"
)

// A QuestionState is the state of a question.
type QuestionState string

// The states of a question; closed and declined are terminal.
const (
	QuestionOpen     QuestionState = "open"
	QuestionAnswered QuestionState = "answered"
	QuestionClosed   QuestionState = "closed"
	QuestionDeclined QuestionState = "declined"
)

// An Acceptance says whether the requester has accepted the outcome.
type Acceptance string

// The acceptance states.
const (
	AcceptanceNone     Acceptance = "none"
	AcceptancePending  Acceptance = "pending"
	AcceptanceAccepted Acceptance = "accepted"
	AcceptanceRejected Acceptance = "rejected"
)

// WaitingOn says what a waiting work item waits for. Kind is actor, question,
// work_item, approval, artifact or condition; TargetID is an agent's name or
// the id of a record.
type WaitingOn struct {
	Kind     string `json:"kind"`
	Label    string `json:"label"`
	TargetID string `json:"targetId,omitempty"`
}

// A WorkItem is durable work. Names are bare ("lead", not "agent:lead"), times
// RFC 3339 UTC on the broker's clock.
type WorkItem struct {
	ID              string     `json:"id"`
	Kind            string     `json:"kind"` // "work_item"
	Title           string     `json:"title"`
	Summary         string     `json:"summary,omitempty"`
	CreatedByID     string     `json:"createdById"`
	OwnerID         string     `json:"ownerId,omitempty"`
	NextMoveOwnerID string     `json:"nextMoveOwnerId,omitempty"`
	State           WorkState  `json:"state"`
	AcceptanceState Acceptance `json:"acceptanceState"`
	RequestedByID   string     `json:"requestedById,omitempty"`
	WaitingOn       *WaitingOn `json:"waitingOn,omitempty"`
	ParentID        string     `json:"parentId,omitempty"`
	ConversationID  string     `json:"conversationId,omitempty"`
	Priority        string     `json:"priority,omitempty"` // low, normal, high or urgent
	CreatedAt       string     `json:"createdAt"`
	UpdatedAt       string     `json:"updatedAt"`
}

// Terminal reports whether nothing is owed any more.
func (w *WorkItem) Terminal() bool { return w.State == WorkDone || w.State == WorkCancelled }

// A Question asks for information. It has no owner, only a next-move owner.
type Question struct {
	ID                string        `json:"id"`
	Kind              string        `json:"kind"` // "question"
	Title             string        `json:"title"`
	CreatedByID       string        `json:"createdById"`
	NextMoveOwnerID   string        `json:"nextMoveOwnerId,omitempty"`
	AskedByID         string        `json:"askedById,omitempty"`
	AskedOfID         string        `json:"askedOfId,omitempty"`
	State             QuestionState `json:"state"`
	AcceptanceState   Acceptance    `json:"acceptanceState"`
	Answer            string        `json:"answer,omitempty"`
	ConversationID    string        `json:"conversationId,omitempty"`
	ParentID          string        `json:"parentId,omitempty"`
	SpawnedWorkItemID string        `json:"spawnedWorkItemId,omitempty"`
	CreatedAt         string        `json:"createdAt"`
	UpdatedAt         string        `json:"updatedAt"`
}

// Terminal reports whether nobody owes anything. An answered question still
// waits for its asker.
func (q *Question) Terminal() bool { return q.State == QuestionClosed || q.State == QuestionDeclined }

// A Conversation is where messages are said. MasterID is woken when nobody else
// is responsible.
type Conversation struct {
	ID          string   `json:"id"`
	Kind        string   `json:"kind"` // dm, group, channel or thread
	Title       string   `json:"title,omitempty"`
	MemberIDs   []string `json:"memberIds,omitempty"`
	MasterID    string   `json:"masterId,omitempty"`
	CreatedByID string   `json:"createdById"`
	CreatedAt   string   `json:"createdAt"`
}

// A Message is one turn in a conversation. It may refer to work, and never is
// the record of work.
type Message struct {
	ID             string    `json:"id"`
	ConversationID string    `json:"conversationId"`
	AuthorID       string    `json:"authorId"`
	Surface        string    `json:"surface"` // human or agent
	Kind           string    `json:"kind"`    // chat, status or final
	Text           string    `json:"text"`
	Mentions       []Mention `json:"mentions,omitempty"`
	Targets        []string  `json:"targets,omitempty"`
	WorkItemID     string    `json:"workItemId,omitempty"`
	InReplyTo      string    `json:"inReplyTo,omitempty"`
	CreatedAt      string    `json:"createdAt"`
}

// A Mention is a label that a message's text contains. AgentID is empty when
// the label names nobody or too many.
type Mention struct {
	Label   string `json:"label"` // canonical, such as "@arc.main"
	AgentID string `json:"agentId,omitempty"`
	Hard    bool   `json:"hard"` // it routes: leading, from a human surface
}

// An Invocation is an explicit request to do work.
type Invocation struct {
	ID             string `json:"id"`
	RequestedByID  string `json:"requestedById"`
	TargetAgentID  string `json:"targetAgentId"`
	ConversationID string `json:"conversationId,omitempty"`
	WorkItemID     string `json:"workItemId,omitempty"`
	FlightID       string `json:"flightId"`
	Text           string `json:"text"`
	CreatedAt      string `json:"createdAt"`
}

// A FlightState is how far a flight has come.
type FlightState string

// The states of a flight; completed, failed and cancelled are terminal.
const (
	FlightQueued    FlightState = "queued"
	FlightWaking    FlightState = "waking"
	FlightRunning   FlightState = "running"
	FlightWaiting   FlightState = "waiting"
	FlightCompleted FlightState = "completed"
	FlightFailed    FlightState = "failed"
	FlightCancelled FlightState = "cancelled"
)

// A Flight is the life of an invocation.
type Flight struct {
	ID            string      `json:"id"`
	InvocationID  string      `json:"invocationId"`
	DeliveryID    string      `json:"deliveryId"`
	RequestedByID string      `json:"requestedById"`
	TargetAgentID string      `json:"targetAgentId"`
	WorkItemID    string      `json:"workItemId,omitempty"`
	State         FlightState `json:"state"`
	Output        string      `json:"output,omitempty"`
	Error         string      `json:"error,omitempty"`
	CreatedAt     string      `json:"createdAt"`
	UpdatedAt     string      `json:"updatedAt"`
}

// Terminal reports whether the flight has ended.
func (f *Flight) Terminal() bool {
	return f.State == FlightCompleted || f.State == FlightFailed || f.State == FlightCancelled
}

// A Binding links something outside, such as a chat, to an agent.
type Binding struct {
	Surface    string `json:"surface"`
	ExternalID string `json:"externalId"`
	AgentID    string `json:"agentId"`
	SetByID    string `json:"setById"`
	UpdatedAt  string `json:"updatedAt"`
}

// An Event is one fact: a row of the log, and the content of a collab_event.
type Event struct {
	Seq      int64           `json:"seq"`
	ID       string          `json:"id"`
	Type     string          `json:"type"`
	Source   string          `json:"source"` // who caused it: an identity on the bus
	Target   string          `json:"target"` // what it is about: "conversation:ID", "work_item:ID", "agent:NAME" ...
	Payload  json.RawMessage `json:"payload"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	At       string          `json:"at"`
}

package collab

import (
	"time"

	"hubbub/protocol"
)

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

// An Acceptance is the requester's judgment of an outcome.
type Acceptance string

// The acceptance states.
const (
	AcceptanceNone     Acceptance = "none"
	AcceptancePending  Acceptance = "pending"
	AcceptanceAccepted Acceptance = "accepted"
	AcceptanceRejected Acceptance = "rejected"
)

// WaitingOn is what a waiting work item waits for. Kind is actor, question, work_item, approval,
// artifact or condition. TargetID is an agent's name, the id of a record, or the name of the
// artifact or condition.
type WaitingOn struct {
	Kind           string          `json:"kind"`
	Label          string          `json:"label"`
	TargetID       string          `json:"targetId,omitempty"`
	TargetIdentity protocol.PeerID `json:"targetIdentity,omitempty"`
}

// External reports whether the work waits for an artifact or a condition, which no party
// provides. The party with the next move checks it until its arrival is reported.
func (on *WaitingOn) External() bool { return on.Kind == "artifact" || on.Kind == "condition" }

// A WorkItem is durable work. Names are bare ("lead"). Next to each name is its identity
// ("agent:lead"), which decisions use. Times are RFC 3339 UTC, from the broker's clock.
type WorkItem struct {
	ID                    string          `json:"id"`
	Kind                  string          `json:"kind"` // KindWorkItem
	Title                 string          `json:"title"`
	Summary               string          `json:"summary,omitempty"`
	CreatedByID           string          `json:"createdById"`
	CreatedByIdentity     protocol.PeerID `json:"createdByIdentity,omitempty"`
	OwnerID               string          `json:"ownerId,omitempty"`
	OwnerIdentity         protocol.PeerID `json:"ownerIdentity,omitempty"`
	NextMoveOwnerID       string          `json:"nextMoveOwnerId,omitempty"`
	NextMoveOwnerIdentity protocol.PeerID `json:"nextMoveOwnerIdentity,omitempty"`
	State                 WorkState       `json:"state"`
	AcceptanceState       Acceptance      `json:"acceptanceState"`
	RequestedByID         string          `json:"requestedById,omitempty"`
	RequestedByIdentity   protocol.PeerID `json:"requestedByIdentity,omitempty"`
	WaitingOn             *WaitingOn      `json:"waitingOn,omitempty"`
	ParentID              string          `json:"parentId,omitempty"`
	ConversationID        string          `json:"conversationId,omitempty"`
	Priority              string          `json:"priority,omitempty"` // low, normal, high or urgent
	// the person for whom the latest change was made, according to its author
	OnBehalfOf string `json:"onBehalfOf,omitempty"`
	CreatedAt  string `json:"createdAt"`
	UpdatedAt  string `json:"updatedAt"`
}

// Terminal reports whether the item is done or cancelled.
func (w *WorkItem) Terminal() bool { return w.State == WorkDone || w.State == WorkCancelled }

// A Question asks for information. It has no owner, only a next-move owner.
type Question struct {
	ID                    string          `json:"id"`
	Kind                  string          `json:"kind"` // KindQuestion
	Title                 string          `json:"title"`
	CreatedByID           string          `json:"createdById"`
	CreatedByIdentity     protocol.PeerID `json:"createdByIdentity,omitempty"`
	NextMoveOwnerID       string          `json:"nextMoveOwnerId,omitempty"`
	NextMoveOwnerIdentity protocol.PeerID `json:"nextMoveOwnerIdentity,omitempty"`
	AskedByID             string          `json:"askedById,omitempty"`
	AskedByIdentity       protocol.PeerID `json:"askedByIdentity,omitempty"`
	AskedOfID             string          `json:"askedOfId,omitempty"`
	AskedOfIdentity       protocol.PeerID `json:"askedOfIdentity,omitempty"`
	State                 QuestionState   `json:"state"`
	AcceptanceState       Acceptance      `json:"acceptanceState"`
	Answer                string          `json:"answer,omitempty"`
	ConversationID        string          `json:"conversationId,omitempty"`
	ParentID              string          `json:"parentId,omitempty"`
	SpawnedWorkItemID     string          `json:"spawnedWorkItemId,omitempty"`
	OnBehalfOf            string          `json:"onBehalfOf,omitempty"` // see WorkItem
	CreatedAt             string          `json:"createdAt"`
	UpdatedAt             string          `json:"updatedAt"`

	Obligation *protocol.Obligation `json:"obligation,omitempty"`
}

// Terminal reports whether the question is closed or declined. An answered question still waits
// for the asking party.
func (q *Question) Terminal() bool { return q.State == QuestionClosed || q.State == QuestionDeclined }

// AwaitsPerson reports whether the question waits for a person's answer.
func (q *Question) AwaitsPerson() bool {
	return q.State == QuestionOpen && protocol.IsPerson(q.AskedOfIdentity)
}

// A Conversation holds messages. MasterID is woken if no other party is responsible.
type Conversation struct {
	ID                string            `json:"id"`
	Kind              string            `json:"kind"` // dm, group, channel or thread
	Title             string            `json:"title,omitempty"`
	MemberIDs         []string          `json:"memberIds,omitempty"`
	MemberIdentities  []protocol.PeerID `json:"memberIdentities,omitempty"` // in the order of MemberIDs
	MasterID          string            `json:"masterId,omitempty"`
	MasterIdentity    protocol.PeerID   `json:"masterIdentity,omitempty"`
	CreatedByID       string            `json:"createdById"`
	CreatedByIdentity protocol.PeerID   `json:"createdByIdentity,omitempty"`
	CreatedAt         string            `json:"createdAt"`
}

// The surfaces and kinds of messages.
const (
	SurfaceHuman = "human"
	SurfaceAgent = "agent"

	KindChat   = "chat"
	KindStatus = "status" // informational: wakes only the named agents
	KindFinal  = "final"  // the last message: also wakes only the named agents
)

// A Message is a message in a conversation. It may refer to work, but does not change it.
type Message struct {
	ID             string          `json:"id"`
	ConversationID string          `json:"conversationId"`
	AuthorID       string          `json:"authorId"`
	AuthorIdentity protocol.PeerID `json:"authorIdentity,omitempty"`
	Surface        string          `json:"surface"` // SurfaceHuman or SurfaceAgent
	Kind           string          `json:"kind"`    // KindChat, KindStatus or KindFinal
	Text           string          `json:"text"`
	Mentions       []Mention       `json:"mentions,omitempty"`
	Targets        []string        `json:"targets,omitempty"`
	WorkItemID     string          `json:"workItemId,omitempty"`
	InReplyTo      string          `json:"inReplyTo,omitempty"`
	FollowUp       bool            `json:"followUp,omitempty"` // the author is notified if nobody takes it
	CreatedAt      string          `json:"createdAt"`

	Obligation *protocol.Obligation `json:"obligation,omitempty"`
}

// A Mention is a label in a message's text. AgentID is empty if the label names no agent, or
// several.
type Mention struct {
	Label    string          `json:"label"` // canonical, such as "@arc.main"
	AgentID  string          `json:"agentId,omitempty"`
	Identity protocol.PeerID `json:"identity,omitempty"`
	Hard     bool            `json:"hard"` // it routes: at the beginning, from a human surface
}

// An Invocation is an explicit request to do work.
type Invocation struct {
	ID                  string          `json:"id"`
	RequestedByID       string          `json:"requestedById"`
	RequestedByIdentity protocol.PeerID `json:"requestedByIdentity,omitempty"`
	TargetAgentID       string          `json:"targetAgentId"`
	TargetIdentity      protocol.PeerID `json:"targetIdentity,omitempty"`
	ConversationID      string          `json:"conversationId,omitempty"`
	WorkItemID          string          `json:"workItemId,omitempty"`
	FlightID            string          `json:"flightId"`
	Text                string          `json:"text"`
	CreatedAt           string          `json:"createdAt"`
}

// A FlightState is the state of a flight.
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

// A Flight is the execution of an invocation.
type Flight struct {
	ID                  string          `json:"id"`
	InvocationID        string          `json:"invocationId"`
	DeliveryID          string          `json:"deliveryId"`
	RequestedByID       string          `json:"requestedById"`
	RequestedByIdentity protocol.PeerID `json:"requestedByIdentity,omitempty"`
	TargetAgentID       string          `json:"targetAgentId"`
	TargetIdentity      protocol.PeerID `json:"targetIdentity,omitempty"`
	WorkItemID          string          `json:"workItemId,omitempty"`
	State               FlightState     `json:"state"`
	Output              string          `json:"output,omitempty"`
	Error               string          `json:"error,omitempty"`
	CreatedAt           string          `json:"createdAt"`
	UpdatedAt           string          `json:"updatedAt"`
}

// Terminal reports whether the flight has ended.
func (f *Flight) Terminal() bool {
	return f.State == FlightCompleted || f.State == FlightFailed || f.State == FlightCancelled
}

// A Binding links an external object, such as a chat, to an agent.
type Binding struct {
	Surface       string          `json:"surface"`
	ExternalID    string          `json:"externalId"`
	AgentID       string          `json:"agentId"`
	Identity      protocol.PeerID `json:"identity,omitempty"`
	SetByID       string          `json:"setById"`
	SetByIdentity protocol.PeerID `json:"setByIdentity,omitempty"`
	UpdatedAt     string          `json:"updatedAt"`
}

// The states of an endpoint.
const (
	StatusOnline  = "online"
	StatusOffline = "offline"
)

// The wake policies of an endpoint.
const (
	WakeAuto   = "auto"
	WakeManual = "manual" // it fetches its deliveries and is never woken
)

// An Endpoint is one process behind a logical agent: the record of the identity.* methods.
type Endpoint struct {
	LogicalAgentID  string          `json:"logicalAgentId"`
	EndpointID      string          `json:"endpointId"`
	AgentIdentity   protocol.PeerID `json:"agentIdentity,omitempty"` // the agent with that name, for which it also acts
	Identity        protocol.PeerID `json:"identity"`                // announced the endpoint, and receives its wakes
	HarnessType     string          `json:"harnessType,omitempty"`
	WorkspaceID     string          `json:"workspaceId,omitempty"`
	ProjectPath     string          `json:"projectPath,omitempty"`
	Profile         string          `json:"profile,omitempty"`
	Model           string          `json:"model,omitempty"`
	Node            string          `json:"node,omitempty"`
	Aliases         []string        `json:"aliases,omitempty"` // other names of the agent
	Roles           []string        `json:"roles,omitempty"`
	WakePolicy      string          `json:"wakePolicy"` // WakeAuto or WakeManual
	Status          string          `json:"status"`     // StatusOnline or StatusOffline
	AnnouncedAt     string          `json:"announcedAt"`
	LastHeartbeatAt string          `json:"lastHeartbeatAt"`
}

// A DeliveryStatus is the status of a delivery.
type DeliveryStatus string

// The states of a delivery.
const (
	DeliveryPending      DeliveryStatus = "pending"
	DeliveryLeased       DeliveryStatus = "leased"
	DeliveryAcknowledged DeliveryStatus = "acknowledged"
	DeliveryFailed       DeliveryStatus = "failed" // given back too often
	DeliveryCancelled    DeliveryStatus = "cancelled"
)

// The reasons of a delivery.
const (
	ReasonDirect     = "direct_message"
	ReasonMention    = "mention"
	ReasonThread     = "thread_reply"
	ReasonInvocation = "invocation"
	ReasonVisibility = "conversation_visibility"
)

// The policies of a delivery.
const (
	PolicyMustAck    = "must_ack"    // for the responsible agent
	PolicyDurable    = "durable"     // for other named agents: waits until they take it
	PolicyBestEffort = "best_effort" // for other participants: dropped after --stale-after
)

// A Delivery is the broker's intent to deliver something to an agent.
type Delivery struct {
	ID             string          `json:"id"`
	TargetAgentID  string          `json:"targetAgentId"`
	TargetIdentity protocol.PeerID `json:"targetIdentity,omitempty"`
	EndpointID     string          `json:"endpointId,omitempty"`
	Reason         string          `json:"reason"`
	Policy         string          `json:"policy"`
	Status         DeliveryStatus  `json:"status"`
	Wake           string          `json:"wake,omitempty"` // wanted, woken or missed; absent if it wakes no agent
	MessageID      string          `json:"messageId,omitempty"`
	ConversationID string          `json:"conversationId,omitempty"`
	WorkItemID     string          `json:"workItemId,omitempty"`
	QuestionID     string          `json:"questionId,omitempty"`
	InvocationID   string          `json:"invocationId,omitempty"`
	SenderID       string          `json:"senderId,omitempty"`
	SenderIdentity protocol.PeerID `json:"senderIdentity,omitempty"`
	SenderKind     string          `json:"senderKind,omitempty"` // SurfaceHuman or SurfaceAgent
	AskedLabel     string          `json:"askedLabel,omitempty"` // the label that named the target
	LeasedBy       string          `json:"leasedBy,omitempty"`   // an identity
	LeaseUntil     string          `json:"leaseUntil,omitempty"`
	Attempts       int             `json:"attempts"`
	CreatedAt      string          `json:"createdAt"`
	UpdatedAt      string          `json:"updatedAt"`
}

// The states of a delivery's wake, which is empty if the delivery wakes no agent.
const (
	WakeWanted = "wanted" // sent when the agent announces itself
	WakeWoken  = "woken"
	WakeMissed = "missed" // the agent was absent or rejected it; sent again when it announces itself
)

// Terminal reports whether the delivery has ended.
func (d *Delivery) Terminal() bool {
	return d.Status == DeliveryAcknowledged || d.Status == DeliveryFailed || d.Status == DeliveryCancelled
}

// A ClaimState is the state of a claim.
type ClaimState string

// The states of a claim.
const (
	ClaimHeld     ClaimState = "held"
	ClaimOffered  ClaimState = "offered"  // released, declined or expired: any agent may take it
	ClaimAnswered ClaimState = "answered" // the event was answered: it is offered to no agent
)

// A Claim gives one agent the exclusive right to answer an event. Token is a fencing token: only
// the newest token of an event is valid.
type Claim struct {
	EventID    string            `json:"eventId"`
	Owner      string            `json:"owner"`         // name of the current or last holder
	Identity   protocol.PeerID   `json:"ownerIdentity"` // its replies may carry the token
	Token      int64             `json:"token"`
	State      ClaimState        `json:"state"`
	GrantedAt  string            `json:"grantedAt"`
	ExpiresAt  string            `json:"expiresAt"`
	Contenders []protocol.PeerID `json:"contenders,omitempty"` // were refused, and are notified when the claim is free
	Declined   []protocol.PeerID `json:"declined,omitempty"`   // declined, and are not notified again
}

// An Event is one fact: a row of the log, and the content of a collab_event. Its source is the
// identity that caused it, and its target is its subject, such as "conversation:ID",
// "work_item:ID" or "agent:NAME".
type Event struct {
	Seq int64 `json:"seq"`
	protocol.CollabEvent
	At string `json:"at"`
}

// ParseTime parses a time of a record. It returns the zero time if the text is empty or invalid.
func ParseTime(s string) time.Time {
	t, _ := protocol.ParseTime(s) // the zero time on error
	return t
}

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
// work_item, approval, artifact or condition; TargetID is an agent's name, the
// id of a record, or what names the artifact or the condition.
type WaitingOn struct {
	Kind           string          `json:"kind"`
	Label          string          `json:"label"`
	TargetID       string          `json:"targetId,omitempty"`
	TargetIdentity protocol.PeerID `json:"targetIdentity,omitempty"`
}

// External reports whether it is a thing of the world, which nobody here holds: the work's next
// mover looks after it, until somebody says that it has arrived.
func (on *WaitingOn) External() bool { return on.Kind == "artifact" || on.Kind == "condition" }

// A WorkItem is durable work. Names are bare ("lead"), and beside each stands the
// identity that is meant ("agent:lead"), by which everything is decided. Times are
// RFC 3339 UTC on the broker's clock.
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
	Priority              string          `json:"priority,omitempty"`   // low, normal, high or urgent
	OnBehalfOf            string          `json:"onBehalfOf,omitempty"` // the person whose words its newest change serves, as who made it says
	CreatedAt             string          `json:"createdAt"`
	UpdatedAt             string          `json:"updatedAt"`
}

// Terminal reports whether the item is done or cancelled, so that nothing is owed.
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
	OnBehalfOf            string          `json:"onBehalfOf,omitempty"` // as of a work item
	CreatedAt             string          `json:"createdAt"`
	UpdatedAt             string          `json:"updatedAt"`

	Obligation *protocol.Obligation `json:"obligation,omitempty"`
}

// Terminal reports whether the question is closed or declined. An answered
// question still waits for its asker.
func (q *Question) Terminal() bool { return q.State == QuestionClosed || q.State == QuestionDeclined }

// AwaitsPerson reports whether a person is asked and has not answered.
func (q *Question) AwaitsPerson() bool {
	return q.State == QuestionOpen && protocol.IsPerson(q.AskedOfIdentity)
}

// A Conversation is where messages are said. MasterID is woken when nobody else
// is responsible.
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

// The surfaces that a message comes from, and what it is.
const (
	SurfaceHuman = "human"
	SurfaceAgent = "agent"

	KindChat   = "chat"
	KindStatus = "status" // informational: wakes nobody but those that are named
	KindFinal  = "final"  // the last word: likewise
)

// A Message is what somebody said in a conversation. It may refer to work, and
// never is the record of work.
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
	FollowUp       bool            `json:"followUp,omitempty"` // its author wants to be told if nobody takes it
	CreatedAt      string          `json:"createdAt"`

	Obligation *protocol.Obligation `json:"obligation,omitempty"`
}

// A Mention is a label that a message's text contains. AgentID is empty if the
// label names nobody or too many.
type Mention struct {
	Label    string          `json:"label"` // canonical, such as "@arc.main"
	AgentID  string          `json:"agentId,omitempty"`
	Identity protocol.PeerID `json:"identity,omitempty"`
	Hard     bool            `json:"hard"` // it routes: leading, from a human surface
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

// A Binding links something outside, such as a chat, to an agent.
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
	WakeManual = "manual" // it asks for its deliveries; nobody wakes it
)

// An Endpoint is one process behind a logical agent: the record that
// identity.* methods return.
type Endpoint struct {
	LogicalAgentID  string          `json:"logicalAgentId"`
	EndpointID      string          `json:"endpointId"`
	AgentIdentity   protocol.PeerID `json:"agentIdentity,omitempty"` // of the agent of that name, for which it acts too
	Identity        protocol.PeerID `json:"identity"`                // who announced it; wakes go there
	HarnessType     string          `json:"harnessType,omitempty"`
	WorkspaceID     string          `json:"workspaceId,omitempty"`
	ProjectPath     string          `json:"projectPath,omitempty"`
	Profile         string          `json:"profile,omitempty"`
	Model           string          `json:"model,omitempty"`
	Node            string          `json:"node,omitempty"`
	Roles           []string        `json:"roles,omitempty"`
	WakePolicy      string          `json:"wakePolicy"` // WakeAuto or WakeManual
	Status          string          `json:"status"`     // StatusOnline or StatusOffline
	AnnouncedAt     string          `json:"announcedAt"`
	LastHeartbeatAt string          `json:"lastHeartbeatAt"`
}

// A DeliveryStatus is how far a delivery has come.
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
	PolicyMustAck    = "must_ack"    // for the one who is responsible
	PolicyDurable    = "durable"     // for others that were named: it waits until they take it
	PolicyBestEffort = "best_effort" // for those concerned: dropped if nobody takes it for --stale-after
)

// A Delivery is the broker's intent to bring something to an agent.
type Delivery struct {
	ID             string          `json:"id"`
	TargetAgentID  string          `json:"targetAgentId"`
	TargetIdentity protocol.PeerID `json:"targetIdentity,omitempty"`
	EndpointID     string          `json:"endpointId,omitempty"`
	Reason         string          `json:"reason"`
	Policy         string          `json:"policy"`
	Status         DeliveryStatus  `json:"status"`
	Wake           string          `json:"wake,omitempty"` // wanted, woken or missed; absent if nobody is to be woken
	MessageID      string          `json:"messageId,omitempty"`
	ConversationID string          `json:"conversationId,omitempty"`
	WorkItemID     string          `json:"workItemId,omitempty"`
	QuestionID     string          `json:"questionId,omitempty"`
	InvocationID   string          `json:"invocationId,omitempty"`
	SenderID       string          `json:"senderId,omitempty"`
	SenderIdentity protocol.PeerID `json:"senderIdentity,omitempty"`
	SenderKind     string          `json:"senderKind,omitempty"` // SurfaceHuman or SurfaceAgent
	AskedLabel     string          `json:"askedLabel,omitempty"` // the label that meant the target
	LeasedBy       string          `json:"leasedBy,omitempty"`   // an identity
	LeaseUntil     string          `json:"leaseUntil,omitempty"`
	Attempts       int             `json:"attempts"`
	CreatedAt      string          `json:"createdAt"`
	UpdatedAt      string          `json:"updatedAt"`
}

// The states of a delivery's wake; empty if nobody is to be woken.
const (
	WakeWanted = "wanted" // to be woken when the agent announces itself
	WakeWoken  = "woken"
	WakeMissed = "missed" // the agent was absent or rejected it: the same wake is sent again when it announces itself
)

// Terminal reports whether nobody will take the delivery any more.
func (d *Delivery) Terminal() bool {
	return d.Status == DeliveryAcknowledged || d.Status == DeliveryFailed || d.Status == DeliveryCancelled
}

// A ClaimState is how a claim stands.
type ClaimState string

// The states of a claim.
const (
	ClaimHeld     ClaimState = "held"
	ClaimOffered  ClaimState = "offered"  // released, declined or expired: anybody may take it
	ClaimAnswered ClaimState = "answered" // the event was answered: nobody gets it any more
)

// A Claim says who alone may answer an event. Token is a fencing token: of all
// tokens ever granted, only the newest of an event is valid.
type Claim struct {
	EventID    string            `json:"eventId"`
	Owner      string            `json:"owner"`         // the name of the holder, or of the last one
	Identity   protocol.PeerID   `json:"ownerIdentity"` // whose replies may carry the token
	Token      int64             `json:"token"`
	State      ClaimState        `json:"state"`
	GrantedAt  string            `json:"grantedAt"`
	ExpiresAt  string            `json:"expiresAt"`
	Contenders []protocol.PeerID `json:"contenders,omitempty"` // were refused, and are told when it is free
	Declined   []protocol.PeerID `json:"declined,omitempty"`   // said no, and are not told again
}

// An Event is one fact: a row of the log, and the content of a collab_event.
// Its source is who caused it, an identity on the bus; its target is what it is about:
// "conversation:ID", "work_item:ID", "agent:NAME" ...
type Event struct {
	Seq int64 `json:"seq"`
	protocol.CollabEvent
	At string `json:"at"`
}

// ParseTime reads a time of a record. It returns the zero time if there is none.
func ParseTime(s string) time.Time {
	t, _ := time.Parse(time.RFC3339, s) // the zero time with any error
	return t
}

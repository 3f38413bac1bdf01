package broker

// The types of the broker's events. The first group is the specification's.
const (
	EventMessagePosted    = "collab.message.posted"    // payload: Message; metadata: mentions, targetAgents, inReplyTo, wake
	EventQuestionCreated  = "collab.question.created"  // payload: Question; metadata: StepEvent
	EventQuestionAnswered = "collab.question.answered" // payload: Question
	EventWorkCreated      = "collab.work_item.created" // payload: WorkItem; metadata: StepEvent
	EventWorkUpdated      = "collab.work_item.updated" // payload: WorkItem
	EventDelivery         = "collab.delivery.requested"
	EventWoken            = "collab.delivery.woken" // payload: Wake; also sent to the woken agent's topic
	EventHeartbeat        = "collab.agent.heartbeat"
	EventOnline           = "collab.agent.online" // payload of the agent events: Endpoint
	EventOffline          = "collab.agent.offline"

	EventAgentRetired    = "collab.agent.retired" // an endpoint that was offline for long is forgotten
	EventConversation    = "collab.conversation.created"
	EventQuestionUpdated = "collab.question.updated"
	EventWakeDecided     = "collab.wake.decided" // for work items and questions; payload: WakeDecided
	EventDeliveryChanged = "collab.delivery.updated"
	EventInvocation      = "collab.invocation.created"
	EventFlight          = "collab.flight.updated"
	EventBinding         = "collab.binding.set"
	EventClaimGranted    = "collab.claim.granted" // payload of the claim events: Claim
	EventClaimContended  = "collab.claim.contended"
	EventClaimOffered    = "collab.claim.offered" // also sent to the topics of those who were refused it
	EventClaimAnswered   = "collab.claim.answered"
)

// A Wake is the payload of collab.delivery.woken: why its receiver was woken,
// and all that it needs to begin.
type Wake struct {
	DeliveryID    string        `json:"deliveryId"`
	TargetAgentID string        `json:"targetAgentId"`
	EndpointID    string        `json:"endpointId"`
	Rule          Rule          `json:"rule"`
	Reason        string        `json:"reason"`
	Candidates    []Candidate   `json:"candidates"`
	SenderID      string        `json:"senderId,omitempty"`   // who caused the wake; empty for a sweep
	SenderKind    string        `json:"senderKind,omitempty"` // SurfaceHuman or SurfaceAgent, as SenderID
	Sweep         bool          `json:"sweep,omitempty"`      // nothing new: the work waits for too long
	Message       *Message      `json:"message,omitempty"`
	WorkItem      *WorkItem     `json:"workItem,omitempty"`
	Question      *Question     `json:"question,omitempty"`
	Invocation    *Invocation   `json:"invocation,omitempty"`
	Flight        *Flight       `json:"flight,omitempty"`
	Conversation  *Conversation `json:"conversation,omitempty"` // without its members
}

// A WakeDecided is the payload of collab.wake.decided.
type WakeDecided struct {
	RecordID   string   `json:"recordId"`
	RecordKind string   `json:"recordKind"`
	SenderID   string   `json:"senderId,omitempty"`
	Sweep      bool     `json:"sweep,omitempty"`
	Decision   Decision `json:"decision"`
}

// postMetadata is the metadata of collab.message.posted.
type postMetadata struct {
	Mentions     []string `json:"mentions"`
	TargetAgents []string `json:"targetAgents"`
	InReplyTo    string   `json:"inReplyTo,omitempty"`
	Wake         Decision `json:"wake"`
	// what message.post answered, so that a repetition can answer the same
	Deliveries []string `json:"deliveries,omitempty"`
	Digest     string   `json:"digest"`
	AskedLabel string   `json:"askedLabel,omitempty"`
}

// stepMetadata is the metadata of events about work items and questions.
type stepMetadata struct {
	StepEvent
	Digest string `json:"digest,omitempty"` // of the request that created the record
}

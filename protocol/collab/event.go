package collab

import (
	"encoding/json"
	"fmt"

	"hubbub/protocol"
)

// An EventType is one type of the broker's events with its payload P.
type EventType[P any] struct{ Name string }

// The types of the broker's events. The first group is the specification's.
var (
	EventMessagePosted    = EventType[Message]{"collab.message.posted"}    // metadata: PostMetadata
	EventQuestionCreated  = EventType[Question]{"collab.question.created"} // metadata: StepMetadata
	EventQuestionAnswered = EventType[Question]{"collab.question.answered"}
	EventWorkCreated      = EventType[WorkItem]{"collab.work_item.created"} // metadata: StepMetadata
	EventWorkUpdated      = EventType[WorkItem]{"collab.work_item.updated"}
	EventDelivery         = EventType[Delivery]{"collab.delivery.requested"}
	EventWoken            = EventType[Wake]{"collab.delivery.woken"} // also sent to the woken agent's topic
	EventHeartbeat        = EventType[Endpoint]{"collab.agent.heartbeat"}
	EventOnline           = EventType[Endpoint]{"collab.agent.online"}
	EventOffline          = EventType[Endpoint]{"collab.agent.offline"}

	EventAgentRetired    = EventType[Endpoint]{"collab.agent.retired"} // an endpoint that was offline for long is forgotten
	EventConversation    = EventType[Conversation]{"collab.conversation.created"}
	EventQuestionUpdated = EventType[Question]{"collab.question.updated"} // a declined one is also sent to the topic of the agent that asked
	EventWakeDecided     = EventType[WakeDecided]{"collab.wake.decided"}  // for work items, questions and flights, and for messages that nobody takes
	EventDeliveryChanged = EventType[Delivery]{"collab.delivery.updated"}
	EventInvocation      = EventType[Invocation]{"collab.invocation.created"}
	EventFlight          = EventType[Flight]{"collab.flight.updated"}
	EventBinding         = EventType[Binding]{"collab.binding.set"}
	EventClaimGranted    = EventType[Claim]{"collab.claim.granted"}
	EventClaimContended  = EventType[Claim]{"collab.claim.contended"}
	EventClaimOffered    = EventType[Claim]{"collab.claim.offered"} // also sent to the topics of those who were refused it
	EventClaimAnswered   = EventType[Claim]{"collab.claim.answered"}
	EventDecisionAsked   = EventType[Approval]{"collab.decision.asked"}
	EventDecisionChanged = EventType[Approval]{"collab.decision.updated"} // also sent to the topic of who asked

	EventObligationOpened  = EventType[EventObligation]{"collab.obligation.opened"}  // also sent to the topics of the agents on both sides
	EventObligationChanged = EventType[EventObligation]{"collab.obligation.updated"} // likewise
)

// Read decodes the payload of an event of this type.
func (t EventType[P]) Read(e *protocol.CollabEvent) (P, error) {
	var payload P
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return payload, fmt.Errorf("the payload of %s cannot be read: %w", t.Name, err)
	}
	return payload, nil
}

// A Wake is the payload of collab.delivery.woken: why its receiver was woken,
// and all that it needs to begin.
type Wake struct {
	DeliveryID     string          `json:"deliveryId"`
	TargetAgentID  string          `json:"targetAgentId"`
	TargetIdentity protocol.PeerID `json:"targetIdentity,omitempty"`
	EndpointID     string          `json:"endpointId"`
	Rule           Rule            `json:"rule"`
	Reason         string          `json:"reason"`
	Candidates     []Candidate     `json:"candidates"`
	SenderID       string          `json:"senderId,omitempty"` // who caused the wake; empty for a sweep
	SenderIdentity protocol.PeerID `json:"senderIdentity,omitempty"`
	SenderKind     string          `json:"senderKind,omitempty"` // SurfaceHuman or SurfaceAgent, as SenderID
	Sweep          bool            `json:"sweep,omitempty"`      // nothing new: the work waits for too long
	Message        *Message        `json:"message,omitempty"`
	WorkItem       *WorkItem       `json:"workItem,omitempty"`
	Question       *Question       `json:"question,omitempty"`
	Invocation     *Invocation     `json:"invocation,omitempty"`
	Flight         *Flight         `json:"flight,omitempty"`
	Conversation   *Conversation   `json:"conversation,omitempty"` // without its members
}

// A WakeDecided is the payload of collab.wake.decided.
type WakeDecided struct {
	RecordID       string   `json:"recordId"`
	RecordKind     string   `json:"recordKind"`
	Title          string   `json:"title,omitempty"` // what it is about, in reminders
	ConversationID string   `json:"conversationId,omitempty"`
	SenderID       string   `json:"senderId,omitempty"`
	Sweep          bool     `json:"sweep,omitempty"`
	Decision       Decision `json:"decision"`
	// who was reminded by sweeps since somebody last did something about the record, this one included
	Reminded []protocol.PeerID `json:"reminded,omitempty"`
}

// A Rule names why somebody is woken. The order of the constants is the order in
// which the rules are tried.
type Rule string

// The wake rules.
const (
	RuleExplicit   Rule = "explicit_mention"
	RuleDependency Rule = "dependency_owner" // only for work that waits: the one it waits for
	RuleNextMove   Rule = "next_move_owner"
	RuleOwner      Rule = "owner"
	RuleMaster     Rule = "conversation_master"
	RuleRequester  Rule = "requester" // of a sweep alone: who asked for it, as the others were reminded
	RuleNone       Rule = "none"
)

// An Outcome says what became of a wake decision.
type Outcome string

// The outcomes of a wake decision.
const (
	OutcomeWoken       Outcome = "woken"
	OutcomeMissed      Outcome = "missed"      // the wake reached nobody, and is sent again when its agent announces itself
	OutcomeUnavailable Outcome = "unavailable" // the delivery is stored, and woken when its agent announces itself
	OutcomeUnknown     Outcome = "unknown_target"
	OutcomeAmbiguous   Outcome = "ambiguous"
	OutcomeNobody      Outcome = "nobody" // nobody, or a person, is responsible
)

// A Decision is one wake decision with everything it was made from. It is
// stored with the event that it was made for.
type Decision struct {
	TargetAgentID  string          `json:"targetAgentId,omitempty"`
	TargetIdentity protocol.PeerID `json:"targetIdentity,omitempty"`
	EndpointID     string          `json:"endpointId,omitempty"`
	Rule           Rule            `json:"rule"`
	Candidates     []Candidate     `json:"candidates"`
	Reason         string          `json:"reason"`
	Outcome        Outcome         `json:"outcome"`
	Options        []Option        `json:"endpoints,omitempty"` // the endpoints looked at for the target
}

// Summary returns the wake that the decision made, or nil.
func (d *Decision) Summary() *WakeSummary {
	if d.Outcome != OutcomeWoken {
		return nil
	}
	return &WakeSummary{d.TargetAgentID, d.TargetIdentity, d.EndpointID, d.Rule, d.Candidates, d.Reason}
}

// A Candidate is one name that a rule brought up, and why it was taken or not.
type Candidate struct {
	AgentID  string          `json:"agentId"`
	Identity protocol.PeerID `json:"identity,omitempty"`
	Rule     Rule            `json:"rule"`
	Chosen   bool            `json:"chosen"`
	Reason   string          `json:"reason"`
}

// An Option is one endpoint that a label may have meant.
type Option struct {
	AgentID    string          `json:"agentId"`
	Identity   protocol.PeerID `json:"identity,omitempty"`
	EndpointID string          `json:"endpointId"`
	Label      string          `json:"label"` // by which it can be meant
	Status     string          `json:"status"`
}

// PostMetadata is the metadata of collab.message.posted.
type PostMetadata struct {
	Mentions     []string `json:"mentions"`
	TargetAgents []string `json:"targetAgents"`
	InReplyTo    string   `json:"inReplyTo,omitempty"`
	Wake         Decision `json:"wake"`
	// what message.post answered, so that a repetition can answer the same
	Deliveries []string `json:"deliveries,omitempty"`
	Digest     string   `json:"digest"`
	AskedLabel string   `json:"askedLabel,omitempty"`
}

// A Step says what an event did to a question or a work item.
type Step string

// The steps of collaboration records.
const (
	StepCreated         Step = "created"
	StepClaimed         Step = "claimed"
	StepProgressed      Step = "progressed"
	StepHandoff         Step = "handoff"
	StepWaiting         Step = "waiting"
	StepReviewRequested Step = "review_requested"
	StepAccepted        Step = "accepted"
	StepRejected        Step = "rejected"
	StepDone            Step = "done"
	StepCancelled       Step = "cancelled"
	StepReopened        Step = "reopened"
	StepAnswered        Step = "answered"
	StepClosed          Step = "closed"
	StepDeclined        Step = "declined"
	StepSpawned         Step = "spawned_work"
)

// A StepMetadata is the metadata of every collab.question.* and
// collab.work_item.* event: what it did to which record.
type StepMetadata struct {
	RecordID   string `json:"recordId"`
	RecordKind string `json:"recordKind"`
	Step       Step   `json:"step"`
	ActorID    string `json:"actorId"`
	From       string `json:"from,omitempty"`   // the state before
	Digest     string `json:"digest,omitempty"` // of the request that created the record
}

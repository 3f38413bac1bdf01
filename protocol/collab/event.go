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
	EventOnline           = EventType[Endpoint]{"collab.agent.online"}
	EventOffline          = EventType[Endpoint]{"collab.agent.offline"}

	// an endpoint was offline for a long time and is removed
	EventAgentRetired = EventType[Endpoint]{"collab.agent.retired"}
	EventConversation = EventType[Conversation]{"collab.conversation.created"}
	// if it was declined, also sent to the topic of the asking agent
	EventQuestionUpdated = EventType[Question]{"collab.question.updated"}
	// for work items, questions, flights, and messages without a reader
	EventWakeDecided     = EventType[WakeDecided]{"collab.wake.decided"}
	EventDeliveryChanged = EventType[Delivery]{"collab.delivery.updated"}
	EventInvocation      = EventType[Invocation]{"collab.invocation.created"}
	EventFlight          = EventType[Flight]{"collab.flight.updated"}
	EventBinding         = EventType[Binding]{"collab.binding.set"}
	EventClaimGranted    = EventType[Claim]{"collab.claim.granted"}
	EventClaimContended  = EventType[Claim]{"collab.claim.contended"}
	EventClaimOffered    = EventType[Claim]{"collab.claim.offered"} // also sent to the topics of the refused agents
	EventClaimAnswered   = EventType[Claim]{"collab.claim.answered"}
	EventDecisionAsked   = EventType[Approval]{"collab.decision.asked"}
	EventDecisionChanged = EventType[Approval]{"collab.decision.updated"} // also sent to the topic of the asking agent

	// also sent to the topics of both agents
	EventObligationOpened = EventType[EventObligation]{"collab.obligation.opened"}
	// also sent to the topics of both agents
	EventObligationChanged = EventType[EventObligation]{"collab.obligation.updated"}
)

// Read decodes the payload of an event of this type.
func (t EventType[P]) Read(e *protocol.CollabEvent) (P, error) {
	var payload P
	if err := json.Unmarshal(e.Payload, &payload); err != nil {
		return payload, fmt.Errorf("the payload of %s cannot be read: %w", t.Name, err)
	}
	return payload, nil
}

// A Wake is the payload of collab.delivery.woken: why its receiver was woken, and everything that
// the receiver needs to begin.
type Wake struct {
	DeliveryID     string          `json:"deliveryId"`
	TargetAgentID  string          `json:"targetAgentId"`
	TargetIdentity protocol.PeerID `json:"targetIdentity,omitempty"`
	EndpointID     string          `json:"endpointId"`
	Rule           Rule            `json:"rule"`
	Reason         string          `json:"reason"`
	Candidates     []Candidate     `json:"candidates"`
	SenderID       string          `json:"senderId,omitempty"` // caused the wake; empty for a sweep
	SenderIdentity protocol.PeerID `json:"senderIdentity,omitempty"`
	SenderKind     string          `json:"senderKind,omitempty"` // SurfaceHuman or SurfaceAgent: the kind of SenderID
	Sweep          bool            `json:"sweep,omitempty"`      // a reminder: nothing new happened
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
	Title          string   `json:"title,omitempty"` // of the subject, in reminders
	ConversationID string   `json:"conversationId,omitempty"`
	SenderID       string   `json:"senderId,omitempty"`
	Sweep          bool     `json:"sweep,omitempty"`
	Decision       Decision `json:"decision"`
	// Reminded are the identities that sweeps have reminded since the record last changed,
	// including this one.
	Reminded []protocol.PeerID `json:"reminded,omitempty"`
}

// A Rule is the reason for waking somebody. The rules are tried in the order of the constants.
type Rule string

// The wake rules.
const (
	RuleExplicit   Rule = "explicit_mention"
	RuleDependency Rule = "dependency_owner" // for waiting work: the party that it waits for
	RuleNextMove   Rule = "next_move_owner"
	RuleOwner      Rule = "owner"
	RuleMaster     Rule = "conversation_master"
	RuleRequester  Rule = "requester" // for a sweep: the party that asked for the work, after the others were reminded
	RuleNone       Rule = "none"
)

// An Outcome is the outcome of a wake decision.
type Outcome string

// The outcomes of a wake decision.
const (
	OutcomeWoken Outcome = "woken"
	// the wake reached nobody and is sent again when its agent announces itself
	OutcomeMissed      Outcome = "missed"
	OutcomeUnavailable Outcome = "unavailable" // the delivery is stored and woken when its agent announces itself
	OutcomeUnknown     Outcome = "unknown_target"
	OutcomeAmbiguous   Outcome = "ambiguous"
	OutcomeNobody      Outcome = "nobody" // no party, or only a person, is responsible
)

// A Decision is one wake decision with everything that it is based on, stored with its event.
type Decision struct {
	TargetAgentID  string          `json:"targetAgentId,omitempty"`
	TargetIdentity protocol.PeerID `json:"targetIdentity,omitempty"`
	EndpointID     string          `json:"endpointId,omitempty"`
	Rule           Rule            `json:"rule"`
	Candidates     []Candidate     `json:"candidates"`
	Reason         string          `json:"reason"`
	Outcome        Outcome         `json:"outcome"`
	Options        []Option        `json:"endpoints,omitempty"` // the endpoints that the target's label could mean
}

// Summary returns the wake of the decision, or nil if it woke nobody.
func (d *Decision) Summary() *WakeSummary {
	if d.Outcome != OutcomeWoken {
		return nil
	}
	return &WakeSummary{d.TargetAgentID, d.TargetIdentity, d.EndpointID, d.Rule, d.Candidates, d.Reason}
}

// A Candidate is one party named by a rule, and why it was chosen or not.
type Candidate struct {
	AgentID  string          `json:"agentId"`
	Identity protocol.PeerID `json:"identity,omitempty"`
	Rule     Rule            `json:"rule"`
	Chosen   bool            `json:"chosen"`
	Reason   string          `json:"reason"`
}

// An Option is one endpoint that a label could mean.
type Option struct {
	AgentID    string          `json:"agentId"`
	Identity   protocol.PeerID `json:"identity,omitempty"`
	EndpointID string          `json:"endpointId"`
	Label      string          `json:"label"` // names this endpoint
	Status     string          `json:"status"`
}

// PostMetadata is the metadata of collab.message.posted.
type PostMetadata struct {
	Mentions     []string `json:"mentions"`
	TargetAgents []string `json:"targetAgents"`
	InReplyTo    string   `json:"inReplyTo,omitempty"`
	Wake         Decision `json:"wake"`
	// The answer of message.post, for repetitions of the request.
	Deliveries []string `json:"deliveries,omitempty"`
	Digest     string   `json:"digest"`
	AskedLabel string   `json:"askedLabel,omitempty"`
}

// A Step is the effect of an event on a question or a work item.
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

// A StepMetadata is the metadata of every collab.question.* and collab.work_item.* event.
type StepMetadata struct {
	RecordID   string `json:"recordId"`
	RecordKind string `json:"recordKind"`
	Step       Step   `json:"step"`
	ActorID    string `json:"actorId"`
	From       string `json:"from,omitempty"`   // the previous state
	Digest     string `json:"digest,omitempty"` // of the request that created the record
}

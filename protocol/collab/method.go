package collab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// A Method is one method of the broker with its params P and its result R. A repeated request runs
// again if Fresh is set, because the method reads or refreshes the current state. Otherwise it gets
// the stored answer.
type Method[P, R any] struct {
	Name  string
	Fresh bool
}

// An Entry describes one method for authors of peers in other languages.
type Entry struct {
	Name   string
	Does   string
	Needs  []string // the required params; all others are optional
	Repeat bool     // the method reads the current state: a repeated request runs again
	params reflect.Type
	result reflect.Type
}

// Entries are all methods of the broker.
var Entries []Entry

// method makes a method and adds it to Entries. needs are the required params. A "*" before does
// marks a fresh method.
func method[P, R any](name, needs, does string) Method[P, R] {
	does, fresh := strings.CutPrefix(does, "*")
	params, result := reflect.TypeFor[P](), reflect.TypeFor[R]()
	Entries = append(Entries, Entry{name, does, strings.Fields(needs), fresh, params, result})
	return Method[P, R]{name, fresh}
}

// The methods of the broker.
var (
	IdentityAnnounce = method[AnnounceParams, IdentityResult]("identity.announce", "logicalAgentId endpointId",
		"*announces an endpoint of the caller, and sends it waiting wakes")
	IdentityHeartbeat = method[EndpointParams, IdentityResult]("identity.heartbeat", "endpointId",
		"*keeps an endpoint online; not_found: announce it again")
	IdentityLeave = method[EndpointParams, IdentityResult]("identity.leave", "endpointId",
		"*takes a stopping endpoint offline")
	IdentityList    = method[PageParams, Page[Endpoint]]("identity.list", "", "*lists endpoints")
	IdentityResolve = method[LabelParams, IdentityResult]("identity.resolve", "label",
		"*finds the endpoint for a label, and the reason")
	ConversationCreate = method[ConversationParams, ConversationResult]("conversation.create", "kind",
		"creates a conversation")
	ConversationGet = method[ConversationGetParams, ConversationPage]("conversation.get", "id",
		"*gets a conversation and a page of its messages, the oldest first")
	MessagePost = method[PostParams, PostResult]("message.post", "conversationId text",
		"posts a message; it wakes at most one agent, and wake is null if none")
	QuestionAsk = method[QuestionParams, Result]("question.ask", "title askedOfId",
		"asks somebody a question, and wakes them")
	QuestionAnswer = method[AnswerParams, Result]("question.answer", "id answer",
		"answers a question, and wakes the asking party")
	QuestionClose = method[IDParams, Result]("question.close", "id",
		"closes a question that is answered or no longer asked")
	QuestionDecline   = method[IDParams, Result]("question.decline", "id", "declines to answer a question")
	QuestionReopen    = method[IDParams, Result]("question.reopen", "id", "withdraws an answer")
	QuestionSpawnWork = method[WorkParams, Result]("question.spawn_work", "id",
		"creates the work that a question needs, once; id is the question's")
	QuestionGet  = method[IDParams, Result]("question.get", "id", "*gets a question")
	QuestionList = method[QuestionListParams, Page[Question]]("question.list", "", "*lists questions")
	WorkCreate   = method[WorkParams, Result]("work_item.create", "title ownerId nextMoveOwnerId",
		"creates work; with wake:true it wakes the owner of the next move")
	WorkUpdate = method[WorkParams, Result]("work_item.update", "id",
		"changes the given members; with wake:true it wakes the owner of the next move")
	WorkAssign = method[AssignParams, Result]("work_item.assign", "id ownerId",
		"assigns work, created first if there is a title, and asks an agent to begin; decision is the wake")
	WorkGet     = method[IDParams, Result]("work_item.get", "id", "*gets a work item")
	WorkList    = method[WorkListParams, Page[WorkItem]]("work_item.list", "", "*lists work items")
	WorkArrived = method[ArrivedParams, Arrived]("work_item.arrived", "name",
		"reports that an artifact or a condition has arrived: the work that waits for it continues, and the owner of "+
			"its next move is woken")
	WorkWake         = method[IDParams, Result]("work_item.wake", "id", "wakes the responsible party of a work item")
	InvocationCreate = method[InvocationParams, Result]("invocation.create", "targetAgentId text",
		"asks an agent to do something, and wakes it; the flight is its progress")
	FlightUpdate = method[FlightParams, Result]("flight.update", "id state",
		"changes the state of a flight; a completed flight moves its work to review")
	FlightGet    = method[IDParams, Result]("flight.get", "id", "*gets a flight and its invocation")
	DeliveryList = method[DeliveryListParams, Page[Delivery]]("delivery.list", "targetAgentId",
		"*lists the deliveries to an agent")
	DeliveryClaim = method[DeliveryClaimParams, DeliveryResult]("delivery.claim", "targetAgentId",
		"leases the oldest pending delivery; null if none waits")
	DeliveryAck  = method[IDParams, DeliveryResult]("delivery.ack", "id", "acknowledges a delivery")
	DeliveryNack = method[IDParams, DeliveryResult]("delivery.nack", "id", "returns a delivery to the broker")
	BindingSet   = method[BindingParams, BindingResult]("binding.set", "surface externalId agentId",
		"links an external object, such as a chat, to an agent")
	BindingGet   = method[BindingParams, BindingResult]("binding.get", "surface externalId", "*gets a binding")
	ClaimAcquire = method[ClaimParams, Grant]("claim.acquire", "eventId",
		"acquires or prolongs the exclusive right to answer an event")
	ClaimRelease = method[ClaimParams, ClaimResult]("claim.release", "eventId token",
		"ends a claim; with answered:true no agent gets the event again")
	ClaimDecline = method[ClaimParams, ClaimResult]("claim.decline", "eventId",
		"gives up a claim: the event is offered to the refused agents")
	ClaimGet = method[ClaimParams, ClaimResult]("claim.get", "eventId",
		"*gets a claim; not_found: the event was never claimed")
	DecisionAsk = method[ApprovalAskParams, ApprovalResult]("decision.ask", "id tool digest mayDecide expiresAt",
		"*asks people whether a tool may run")
	DecisionDecide = method[ApprovalDecideParams, ApprovalResult]("decision.decide", "id verdict",
		"decides; the first verdict counts")
	DecisionCancel = method[ApprovalDecideParams, ApprovalResult]("decision.cancel", "id",
		"withdraws a pending decision")
	DecisionRevoke = method[ApprovalDecideParams, ApprovalResult]("decision.revoke", "id",
		"ends an approval that allows further calls")
	DecisionGet    = method[IDParams, ApprovalResult]("decision.get", "id", "*gets a decision")
	DecisionList   = method[ApprovalListParams, Page[Approval]]("decision.list", "", "*lists decisions")
	ObligationOpen = method[ObligationParams, ObligationResult]("obligation.open", "eventId author recipient blocks",
		"*opens the obligation of an event's recipient to its author; either of them may open it")
	ObligationReact = method[ActParams, ObligationResult]("obligation.react", "targetEventId",
		"*reports a signal about such an event, or its edit or deletion; stored until the event is known")
	ObligationDischarge = method[DischargeParams, ObligationResult]("obligation.discharge", "eventId recipient",
		"*closes an obligation, for its author or the delegate")
	ObligationGet = method[DischargeParams, ObligationResult]("obligation.get", "eventId recipient",
		"*gets an obligation with all acts about it")
	ObligationList = method[ObligationListParams, Page[Obligation]]("obligation.list", "", "*lists open obligations")
	EventsList     = method[EventsParams, EventPage]("events.list", "",
		"*gets a page of the log; after and next are seqs")
	WakeExplain = method[ExplainParams, Explanation]("wake.explain", "",
		"*explains the wake decision of a message, a work item or a question; give one of the three")
	WakeReminded = method[ReminderListParams, Page[Reminder]]("wake.reminded", "",
		"*lists the last reminders about records that have not changed since, the oldest first")
	PromptContract = method[PromptParams, PromptResult]("prompt.contract", "agentId",
		"*gets the contract as a part of an agent's prompt")
)

// An Asker sends requests to the broker. Call sends one request and returns the JSON of its
// result. Its error is an *Error if the broker refused, and ErrNoBroker if there is none.
type Asker interface {
	Call(ctx context.Context, method string, params any) (json.RawMessage, error)
}

// Ask sends one request by a.Call and returns its result. It blocks and fails as Call does, and also
// fails if the result has another form.
func (m Method[P, R]) Ask(ctx context.Context, a Asker, params P) (R, error) {
	var result R
	raw, err := a.Call(ctx, m.Name, params)
	if err != nil || len(raw) == 0 {
		return result, err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return result, fmt.Errorf("the broker's answer to %s has another form than expected: %w", m.Name, err)
	}
	return result, nil
}

// Message makes a request from an identity, for an outbox. The broker answers a repeated request
// with the same result, so it takes effect once.
func (m Method[P, R]) Message(from protocol.PeerID, params P) protocol.Message {
	return NewRequest(from, m.Name, params).Message
}

// A Request is a collab_request and the id of its answer.
type Request struct {
	ID      string
	Message protocol.Message
}

// NewRequest makes a request with a fresh id.
func NewRequest(from protocol.PeerID, method string, params any) Request {
	id := "req_" + ulid.Make().String()
	content := struct {
		Method    string `json:"method"`
		Params    any    `json:"params"`
		RequestID string `json:"requestId"`
	}{method, params, id}
	return Request{ID: id, Message: protocol.NewMessage(protocol.TypeCollabRequest, from, content)}
}

// SettleClaim makes the request that ends the claim of an identity on an event. An answered event
// is closed; otherwise the claim is offered to others.
func SettleClaim(from protocol.PeerID, eventID string, token int64, answered bool) protocol.Message {
	if answered {
		return ClaimRelease.Message(from, ClaimParams{EventID: eventID, Token: token, Answered: true})
	}
	return ClaimDecline.Message(from, ClaimParams{EventID: eventID})
}

// Encode marshals v like the broker: without escaping <, > and &.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", v, err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// escalationPrefix begins the ids of escalation questions, with which an agent asks another party
// to answer in its place.
const escalationPrefix = "rung_"

// EscalationQuestionID returns the id of an escalation question.
func EscalationQuestionID(name string) string { return escalationPrefix + name }

// IsEscalationQuestion reports whether an id is that of an escalation question. A recipient that
// cannot answer it declines it, and does not escalate it further.
func IsEscalationQuestion(questionID string) bool {
	return strings.HasPrefix(questionID, escalationPrefix)
}

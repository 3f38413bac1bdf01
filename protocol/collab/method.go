package collab

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"hubbub/protocol"

	"github.com/oklog/ulid/v2"
)

// A Method is one method of the broker with its params P and its result R.
type Method[P, R any] struct{ Name string }

// The methods of the broker.
var (
	IdentityAnnounce    = Method[AnnounceParams, IdentityResult]{"identity.announce"}
	IdentityHeartbeat   = Method[EndpointParams, IdentityResult]{"identity.heartbeat"}
	IdentityList        = Method[PageParams, Page[Endpoint]]{"identity.list"}
	IdentityLeave       = Method[EndpointParams, IdentityResult]{"identity.leave"}
	IdentityResolve     = Method[LabelParams, IdentityResult]{"identity.resolve"}
	ConversationCreate  = Method[ConversationParams, ConversationResult]{"conversation.create"}
	ConversationGet     = Method[ConversationGetParams, ConversationPage]{"conversation.get"}
	MessagePost         = Method[PostParams, PostResult]{"message.post"}
	QuestionAsk         = Method[QuestionParams, Result]{"question.ask"}
	QuestionAnswer      = Method[AnswerParams, Result]{"question.answer"}
	QuestionClose       = Method[IDParams, Result]{"question.close"}
	QuestionDecline     = Method[IDParams, Result]{"question.decline"}
	QuestionReopen      = Method[IDParams, Result]{"question.reopen"}
	QuestionSpawnWork   = Method[WorkParams, Result]{"question.spawn_work"}
	QuestionGet         = Method[IDParams, Result]{"question.get"}
	QuestionList        = Method[QuestionListParams, Page[Question]]{"question.list"}
	WorkCreate          = Method[WorkParams, Result]{"work_item.create"}
	WorkUpdate          = Method[WorkParams, Result]{"work_item.update"}
	WorkGet             = Method[IDParams, Result]{"work_item.get"}
	WorkList            = Method[WorkListParams, Page[WorkItem]]{"work_item.list"}
	WorkAssign          = Method[AssignParams, Result]{"work_item.assign"}
	WorkArrived         = Method[ArrivedParams, Arrived]{"work_item.arrived"}
	WorkWake            = Method[IDParams, Result]{"work_item.wake"}
	InvocationCreate    = Method[InvocationParams, Result]{"invocation.create"}
	FlightUpdate        = Method[FlightParams, Result]{"flight.update"}
	FlightGet           = Method[IDParams, Result]{"flight.get"}
	DeliveryList        = Method[DeliveryListParams, Page[Delivery]]{"delivery.list"}
	DeliveryClaim       = Method[DeliveryClaimParams, DeliveryResult]{"delivery.claim"}
	DeliveryAck         = Method[IDParams, DeliveryResult]{"delivery.ack"}
	DeliveryNack        = Method[IDParams, DeliveryResult]{"delivery.nack"}
	BindingSet          = Method[BindingParams, BindingResult]{"binding.set"}
	BindingGet          = Method[BindingParams, BindingResult]{"binding.get"}
	ClaimAcquire        = Method[ClaimParams, Grant]{"claim.acquire"}
	ClaimRelease        = Method[ClaimParams, ClaimResult]{"claim.release"}
	ClaimDecline        = Method[ClaimParams, ClaimResult]{"claim.decline"}
	ClaimGet            = Method[ClaimParams, ClaimResult]{"claim.get"}
	DecisionAsk         = Method[ApprovalAskParams, ApprovalResult]{"decision.ask"}
	DecisionDecide      = Method[ApprovalDecideParams, ApprovalResult]{"decision.decide"}
	DecisionCancel      = Method[ApprovalDecideParams, ApprovalResult]{"decision.cancel"}
	DecisionRevoke      = Method[ApprovalDecideParams, ApprovalResult]{"decision.revoke"}
	DecisionGet         = Method[IDParams, ApprovalResult]{"decision.get"}
	DecisionList        = Method[ApprovalListParams, Page[Approval]]{"decision.list"}
	ObligationOpen      = Method[ObligationParams, ObligationResult]{"obligation.open"}
	ObligationReact     = Method[ActParams, ObligationResult]{"obligation.react"}
	ObligationDischarge = Method[DischargeParams, ObligationResult]{"obligation.discharge"}
	ObligationGet       = Method[DischargeParams, ObligationResult]{"obligation.get"}
	ObligationList      = Method[ObligationListParams, Page[Obligation]]{"obligation.list"}
	EventsList          = Method[EventsParams, EventPage]{"events.list"}
	WakeExplain         = Method[ExplainParams, Explanation]{"wake.explain"}
	WakeReminded        = Method[ReminderListParams, Page[Reminder]]{"wake.reminded"}
	PromptContract      = Method[PromptParams, PromptResult]{"prompt.contract"}
)

// An Asker sends requests to the broker. Call sends one request and returns the JSON of its
// result. Its error is an *Error if the broker refused, and ErrNoBroker if there is none.
type Asker interface {
	Call(ctx context.Context, method string, params any) (json.RawMessage, error)
}

// Ask sends one request and returns its result.
func (m Method[P, R]) Ask(ctx context.Context, a Asker, params P) (R, error) {
	var result R
	raw, err := a.Call(ctx, m.Name, params)
	if err != nil || len(raw) == 0 {
		return result, err
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return result, fmt.Errorf("the broker's answer to %s is not what was expected: %w", m.Name, err)
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

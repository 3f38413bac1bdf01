package collab

import (
	"encoding/json"
	"errors"
	"fmt"

	"hubbub/protocol"
)

// A Result answers the methods about work items, questions, invocations and flights. It has the
// records of the request, and the wake, if any. Duplicate means that the record existed and
// nothing changed.
type Result struct {
	Decision   *Decision  `json:"decision,omitempty"`
	Delivery   *Delivery  `json:"delivery,omitempty"`
	Duplicate  bool       `json:"duplicate,omitempty"`
	Flight     Flight     `json:"flight,omitzero"`
	Invocation Invocation `json:"invocation,omitzero"`
	Question   Question   `json:"question,omitzero"`
	Wake       AskedWake  `json:"wake,omitzero"`
	WorkItem   WorkItem   `json:"work_item,omitzero"`
}

// An Arrived lists the work that no longer waits, each item with its wake.
type Arrived struct {
	Items  []Result `json:"arrived"`
	Others int      `json:"others,omitempty"` // number of items omitted for lack of room
}

// An AskedWake is the wake of a request that asked for one; it is null if no agent was woken. If
// the request did not ask, the member is absent.
type AskedWake struct {
	Asked bool
	Made  *WakeSummary
}

// MarshalJSON writes the wake, or null.
func (w AskedWake) MarshalJSON() ([]byte, error) { return Encode(w.Made) }

// UnmarshalJSON reads the wake, or null.
func (w *AskedWake) UnmarshalJSON(raw []byte) error {
	w.Asked = true
	return json.Unmarshal(raw, &w.Made)
}

// A WakeSummary summarizes a wake.
type WakeSummary struct {
	TargetAgentID  string          `json:"targetAgentId"`
	TargetIdentity protocol.PeerID `json:"targetIdentity,omitempty"`
	EndpointID     string          `json:"endpointId"`
	Rule           Rule            `json:"rule"`
	Candidates     []Candidate     `json:"candidates"`
	Reason         string          `json:"reason"`
}

// An IdentityResult is an endpoint, and for identity.resolve the reason for its choice.
type IdentityResult struct {
	Identity Endpoint `json:"identity"`
	Reason   string   `json:"reason,omitempty"`
	// Watched means that the broker learns from the bus which peers are online. The endpoint then
	// needs no heartbeats.
	Watched bool `json:"watched,omitempty"`
}

// A ConversationResult answers conversation.create.
type ConversationResult struct {
	Conversation Conversation `json:"conversation"`
	Duplicate    bool         `json:"duplicate,omitempty"`
}

// A ConversationPage is a conversation with a page of its messages, oldest first.
type ConversationPage struct {
	Conversation Conversation      `json:"conversation"`
	Messages     []Listed[Message] `json:"messages"`
	Next         *string           `json:"next"`
}

// A PostResult answers message.post.
type PostResult struct {
	Message    Message      `json:"message"`
	Mentions   []Mention    `json:"mentions"`
	Deliveries []Delivery   `json:"deliveries"`
	Wake       *WakeSummary `json:"wake"`
	Duplicate  bool         `json:"duplicate,omitempty"`
}

// A DeliveryResult is a delivery, and for delivery.claim its subject. The delivery is nil if none
// waits.
type DeliveryResult struct {
	Delivery   *Delivery   `json:"delivery"`
	Invocation *Invocation `json:"invocation,omitempty"`
	Message    *Message    `json:"message,omitempty"`
}

// A BindingResult is a binding.
type BindingResult struct {
	Binding Binding `json:"binding"`
}

// A Grant answers claim.acquire.
type Grant struct {
	Granted   bool   `json:"granted"`
	Token     int64  `json:"token,omitempty"`
	Owner     string `json:"owner"`
	ExpiresAt string `json:"expiresAt"`
	Answered  bool   `json:"answered,omitempty"` // the event was answered: it is offered to no agent
}

// A ClaimResult is a claim.
type ClaimResult struct {
	Claim Claim `json:"claim"`
}

// An EventPage is a page of the log. Next is the seq of its last event, or nil on the last page.
type EventPage struct {
	Events []Event `json:"events"`
	Next   *int64  `json:"next"`
}

// A PromptResult is the collaboration contract for an agent's prompt.
type PromptResult struct {
	AgentID  string   `json:"agentId"`
	Contract string   `json:"contract"`
	Sections []string `json:"sections"`
}

// A Reminder is the last reminder about a record that has not changed since.
type Reminder struct {
	ID               string          `json:"id"`
	Kind             string          `json:"kind"` // work_item, question, flight or message
	Title            string          `json:"title"`
	Since            string          `json:"since"` // time of the last change
	RemindedID       string          `json:"remindedId"`
	RemindedIdentity protocol.PeerID `json:"remindedIdentity"`
	RemindedAt       string          `json:"remindedAt"`
	Rule             Rule            `json:"rule"`
	Reason           string          `json:"reason"` // such as "has the next move on wi_1"
}

// An Explanation is a wake decision, and the wake, if any.
type Explanation struct {
	Decision
	Wake  *WakeSummary `json:"wake"`
	Sweep bool         `json:"sweep,omitempty"` // a reminder about stale work
}

// MarshalJSON writes the members in alphabetical order.
func (e Explanation) MarshalJSON() ([]byte, error) {
	raw, err := Encode(e.Decision)
	members := map[string]any{}
	if err = errors.Join(err, json.Unmarshal(raw, &members)); err != nil {
		return nil, err
	}
	if members["wake"] = e.Wake; e.Sweep {
		members["sweep"] = true
	}
	return Encode(members)
}

// A Listed is a record in a list, as the broker encoded it.
type Listed[T any] struct{ json.RawMessage }

// Read decodes the record.
func (l Listed[T]) Read() (T, error) {
	var record T
	if err := json.Unmarshal(l.RawMessage, &record); err != nil {
		return record, fmt.Errorf("the broker's answer has another form than expected: %w", err)
	}
	return record, nil
}

// A Page is one page of a list: {NAME: items, "next": cursor or null}. The type of the records
// determines NAME.
type Page[T any] struct {
	Items []Listed[T]
	Next  *string
}

func (Page[T]) name() string {
	var record T
	switch any(record).(type) {
	case Endpoint:
		return "identities"
	case Question:
		return "questions"
	case WorkItem:
		return "work_items"
	case Delivery:
		return "deliveries"
	case Approval:
		return "decisions"
	case Obligation:
		return "obligations"
	case Reminder:
		return "reminders"
	default:
		panic(fmt.Sprintf("there is no list of %T", record))
	}
}

// MarshalJSON writes the page.
func (p Page[T]) MarshalJSON() ([]byte, error) {
	return Encode(map[string]any{p.name(): p.Items, "next": p.Next})
}

// UnmarshalJSON reads the page.
func (p *Page[T]) UnmarshalJSON(raw []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return err
	}
	for name, into := range map[string]any{p.name(): &p.Items, "next": &p.Next} {
		if members[name] == nil {
			continue
		}
		if err := json.Unmarshal(members[name], into); err != nil {
			return err
		}
	}
	return nil
}

// ErrNoBroker means that no collaboration broker is on the bus.
var ErrNoBroker = errors.New("there is no collaboration broker on the bus")

// A Code is the reason for a refusal.
type Code string

// The codes of a refused request.
const (
	CodeInvalid       Code = "invalid"        // the request, or the record that it makes, is invalid
	CodeUnknownTarget Code = "unknown_target" // a label names no agent
	CodeAmbiguous     Code = "ambiguous"      // a label names several agents
	CodeUnavailable   Code = "unavailable"    // the party to wake has no online endpoint, or a manual one
	CodeConflict      Code = "conflict"       // the id, lease or claim belongs to somebody else
	CodeForbidden     Code = "forbidden"      // the caller may not do this
	CodeNotFound      Code = "not_found"      // there is no such record
	CodeBadTransition Code = "bad_transition" // the record's state does not allow this transition
)

// An Error is the broker's refusal of a request. The broker marshals Details to JSON; a client
// reads it as a json.RawMessage.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details,omitempty"`
}

func (e *Error) Error() string {
	if e.Code == "" { // a message for people
		return e.Message
	}
	return e.Message + " (" + string(e.Code) + ")"
}

// Refusal returns the code of a refusal, or "" if err is not a refusal.
func Refusal(err error) Code {
	if refused, ok := errors.AsType[*Error](err); ok {
		return refused.Code
	}
	return ""
}

// ReadResult returns the result of a request, or the broker's refusal as an error.
func ReadResult(r *protocol.CollabResult) (json.RawMessage, error) {
	switch {
	case r.OK:
		return r.Result, nil
	case r.Error == nil:
		return nil, &Error{Code: CodeInvalid, Message: "the broker refused without a reason"}
	}
	e := &Error{Code: Code(r.Error.Code), Message: r.Error.Message}
	if r.Error.Details != nil {
		e.Details = r.Error.Details
	}
	return nil, e
}

// Refuse makes an Error.
func Refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

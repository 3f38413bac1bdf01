package protocol

import "encoding/json"

// The kinds of attention records: the event of an agent_event to TopicAttention. Agents may send
// others, which readers show by their name.
const (
	RecordDecision    = "attention_decision"
	RecordDisposition = "disposition"
	RecordRefusal     = "refusal"
	RecordTurn        = "turn"
	RecordClaim       = "claim"
	RecordDelivery    = "delivery"
	RecordEscalation  = "escalation"
	RecordProgress    = "progress"
	RecordApproval    = "decision"
	RecordBudget      = "budget"
	RecordHalt        = "halt"
	RecordTool        = "tool"
	RecordPost        = "post"
	RecordReminder    = "reminder"
	RecordObligation  = "obligation"
)

// A Record is a decoded attention record.
type Record struct {
	Event   string `json:"event"` // RecordDecision and so on
	EventID string `json:"eventId"`
	Agent   string `json:"agent"`
	Reason  string `json:"reason,omitempty"`
	Content any    `json:"-"` // a pointer to the struct of its kind; nil if the kind is unknown
}

// recordContents makes the content of each kind of record.
var recordContents = map[string]func() any{
	RecordDecision:    func() any { return new(AttentionDecision) },
	RecordDisposition: func() any { return new(Disposition) },
	RecordRefusal:     func() any { return new(Refusal) },
	RecordTurn:        func() any { return new(TurnRecord) },
	RecordClaim:       func() any { return new(ClaimRecord) },
	RecordDelivery:    func() any { return new(DeliveryRecord) },
	RecordEscalation:  func() any { return new(EscalationRecord) },
	RecordProgress:    func() any { return new(ProgressRecord) },
	RecordApproval:    func() any { return new(ApprovalRecord) },
	RecordBudget:      func() any { return new(BudgetRecord) },
	RecordHalt:        func() any { return new(HaltRecord) },
	RecordTool:        func() any { return new(ToolCall) },
	RecordPost:        func() any { return new(PostRecord) },
	RecordReminder:    func() any { return new(ReminderRecord) },
	RecordObligation:  func() any { return new(ObligationRecord) },
}

// ParseRecord decodes the content of an agent_event. It returns the first error together with all
// members that could be decoded.
func ParseRecord(content json.RawMessage) (r Record, err error) {
	err = json.Unmarshal(content, &r)
	if newContent := recordContents[r.Event]; newContent != nil {
		r.Content = newContent()
		if e := json.Unmarshal(content, r.Content); err == nil {
			err = e
		}
	}
	return r, err
}

// AttentionDecision is the content of the agent_event that records the decision of an agent's
// attention layer on one event.
type AttentionDecision struct {
	Event        string `json:"event"` // RecordDecision
	EventID      string `json:"eventId"`
	Agent        PeerID `json:"agent"`
	Directedness string `json:"directedness"`
	Policy       string `json:"policy"`
	Injection    string `json:"injection"`
	Priority     string `json:"priority"`
	Reason       string `json:"reason"`
}

// Disposition is the content of the agent_event that records how an event ended.
type Disposition struct {
	Event       string `json:"event"` // RecordDisposition
	EventID     string `json:"eventId"`
	Agent       PeerID `json:"agent"`
	Disposition string `json:"disposition"`
	Reason      string `json:"reason"`
}

// Refusal is the content of the agent_event that records an action that policy forbade.
type Refusal struct {
	Event   string `json:"event"` // RecordRefusal
	EventID string `json:"eventId"`
	Agent   PeerID `json:"agent"`
	Tool    string `json:"tool"`
	Reason  string `json:"reason"`
}

// ToolCall is the content of the agent_event that records a call of a tool: its arguments, its
// event, and the size and hash of its result.
type ToolCall struct {
	Event   string `json:"event"` // RecordTool
	EventID string `json:"eventId"`
	Agent   PeerID `json:"agent"`
	TurnID  string `json:"turnId,omitempty"`
	Tool    string `json:"tool"`
	// without secrets; if long, the beginning as a string
	Arguments      json.RawMessage `json:"arguments"`
	ArgumentsBytes int             `json:"argumentsBytes,omitempty"` // full size, if long
	ResultBytes    int             `json:"resultBytes"`
	ResultSHA256   string          `json:"resultSha256,omitempty"` // hexadecimal; empty if no result is known
	Failed         bool            `json:"failed,omitempty"`
}

// A TurnRecord is the agent_event that records a run of the harness. Turns can be counted from
// the activity log alone.
type TurnRecord struct {
	Event          string   `json:"event"` // RecordTurn
	EventID        string   `json:"eventId"`
	MergedEventIDs []string `json:"mergedEventIds,omitempty"`
	Agent          PeerID   `json:"agent"`
	Chat           Topic    `json:"chat"` // the chat that is charged; "digest" for digests of all chats
	TurnID         string   `json:"turnId"`
	Attempt        int      `json:"attempt"`
	Mode           string   `json:"mode"` // immediate, buffered, notify or digest
	// in order: waiting (optional), started, then accepted, finished, failed, cancelled or
	// interrupted
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
	TurnCost
}

// A TurnCost is the cost of a run of the harness that ended. It is zero if the cost is unknown.
type TurnCost struct {
	Model        string  `json:"model,omitempty"`
	InputTokens  int64   `json:"inputTokens,omitempty"`
	CachedTokens int64   `json:"cachedTokens,omitempty"` // part of the input, from the provider's cache
	OutputTokens int64   `json:"outputTokens,omitempty"`
	USD          float64 `json:"usd,omitempty"` // as reported by the provider
	ToolCalls    int     `json:"toolCalls,omitempty"`
	DurationMS   int64   `json:"durationMs,omitempty"`
}

// A ClaimRecord is the agent_event that records a claim.
type ClaimRecord struct {
	Event   string `json:"event"` // RecordClaim
	EventID string `json:"eventId"`
	Agent   PeerID `json:"agent"`
	Granted bool   `json:"granted"`
	Owner   string `json:"owner"`
	Token   int64  `json:"token,omitempty"`
	Via     string `json:"via"` // broker or local
}

// An ApprovalRecord is the agent_event that records the decision of a person about a tool call.
// The state allowed is recorded before the tool runs.
type ApprovalRecord struct {
	Event      string `json:"event"` // RecordApproval
	EventID    string `json:"eventId"`
	Agent      PeerID `json:"agent"`
	State      string `json:"state"`
	DecisionID string `json:"decisionId"`
	By         string `json:"by"`
	Tool       string `json:"tool"`
	Scope      string `json:"scope,omitempty"`
	Digest     string `json:"digest"` // of the call's arguments
	Reason     string `json:"reason,omitempty"`
}

// A HaltRecord is the agent_event that records a halt, its end, or a budget reset.
type HaltRecord struct {
	Event   string   `json:"event"` // RecordHalt
	EventID string   `json:"eventId"`
	Agent   PeerID   `json:"agent"`
	State   string   `json:"state"` // halted, resumed or HaltBudgetReset
	Scope   Topic    `json:"scope"` // a chat, or the agent for all chats
	By      string   `json:"by"`
	Stopped []string `json:"stopped,omitempty"` // events whose turns were stopped
}

// A BudgetRecord is the agent_event that records a turn that a budget prevented.
type BudgetRecord struct {
	Agent   PeerID `json:"agent"`
	Bound   int64  `json:"bound"`
	Chat    Topic  `json:"chat"`  // the chat that would have been charged
	Event   string `json:"event"` // RecordBudget
	EventID string `json:"eventId"`
	Reason  string `json:"reason"`
	State   string `json:"state"` // "withheld"
	TurnID  string `json:"turnId"`
	Until   string `json:"until"`
}

// A DeliveryRecord is the agent_event that records a message that did not reach its chat, or may
// not have.
type DeliveryRecord struct {
	Agent     PeerID    `json:"agent"`
	Event     string    `json:"event"` // RecordDelivery
	EventID   string    `json:"eventId"`
	Kind      string    `json:"kind"`
	MessageID MessageID `json:"messageId"`
	Reason    string    `json:"reason"`
	Status    string    `json:"status"`
}

// A PostRecord is the agent_event that records that the agent started a conversation.
type PostRecord struct {
	Agent        PeerID    `json:"agent"`
	Directedness string    `json:"directedness"`
	Event        string    `json:"event"`   // RecordPost
	EventID      string    `json:"eventId"` // of the turn that sends it, or empty
	MessageID    MessageID `json:"messageId"`
	Reason       string    `json:"reason"`
	Target       Topic     `json:"target"` // the chat
}

// A ReminderRecord is the agent_event that records that a reminder was set, is due or was
// cancelled.
type ReminderRecord struct {
	Agent      PeerID `json:"agent"`
	Due        string `json:"due,omitempty"` // unless cancelled
	Event      string `json:"event"`         // RecordReminder
	EventID    string `json:"eventId"`
	Reason     string `json:"reason"`
	ReminderID string `json:"reminderId"`
	State      string `json:"state"`  // set, due or cancelled
	Target     Topic  `json:"target"` // the chat
}

// An EscalationRecord is the agent_event that records a step of an escalation.
type EscalationRecord struct {
	Agent   PeerID `json:"agent"`
	By      string `json:"by,omitempty"` // who answered
	Event   string `json:"event"`        // RecordEscalation
	EventID string `json:"eventId"`
	Reason  string `json:"reason,omitempty"`
	Rung    string `json:"rung,omitempty"`  // lead, owner, person, or author, who is notified that there is no answer
	State   string `json:"state,omitempty"` // "answered"
	To      string `json:"to,omitempty"`    // who is asked
	With    string `json:"with,omitempty"`  // the other agent of an exchange that was stopped
}

// A ProgressRecord is the agent_event that reports the progress of a turn.
type ProgressRecord struct {
	Agent         PeerID  `json:"agent"`
	Event         string  `json:"event"` // RecordProgress
	EventID       string  `json:"eventId,omitempty"`
	Message       string  `json:"message"`
	Progress      float64 `json:"progress"`
	ProgressToken string  `json:"progressToken,omitempty"`
	Total         float64 `json:"total"`
	TurnID        string  `json:"turnId"`
}

// An ObligationRecord is the agent_event that records a change of an obligation: opened, returned,
// missed, waits, escalated, paused, discharged and so on. The optional members depend on the state.
type ObligationRecord struct {
	Age          string  `json:"age"`
	Agent        PeerID  `json:"agent"`
	Author       string  `json:"author"`
	Blocks       string  `json:"blocks"`
	By           *string `json:"by,omitempty"` // author of an act, or of the act that led to the state; empty if none
	Event        string  `json:"event"`        // RecordObligation
	EventID      string  `json:"eventId"`
	ObligationID string  `json:"obligationId"`
	Reason       string  `json:"reason,omitempty"`
	Recipient    string  `json:"recipient"`
	ReturnID     string  `json:"returnId,omitempty"`
	Rung         string  `json:"rung,omitempty"`   // of an escalation
	Signal       *string `json:"signal,omitempty"` // of an act
	Slot         *int64  `json:"slot,omitempty"`   // of a return: its interval since the event was created
	State        string  `json:"state"`
	To           string  `json:"to,omitempty"`    // of an escalation
	Until        string  `json:"until,omitempty"` // of a missed return
}

package activitylog

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"hubbub/protocol"
)

// The kinds of attention records. Others are possible and are reported too.
const (
	RecordDecision    = "attention_decision"
	RecordDisposition = "disposition"
	RecordRefusal     = "refusal"
	RecordTurn        = "turn"
	RecordClaim       = "claim"
	RecordDelivery    = "delivery"
	RecordEscalation  = "escalation"
	RecordProgress    = "progress"
	RecordApproval    = "decision" // of a person, whether a tool may run
	RecordBudget      = "budget"   // a turn that a budget held back
	// turns that a person halted or let run again, or budgets counted anew: see protocol.HaltCountedAnew
	RecordHalt       = "halt"
	RecordTool       = "tool"       // a call of a tool
	RecordPost       = "post"       // what an agent said first
	RecordReminder   = "reminder"   // set, due or cancelled
	RecordObligation = "obligation" // opened, returned, missed, escalated, paused, discharged and so on
)

// An AttentionRecord is one agent_event to system:attention: how an agent
// judged an event, ran a turn for it, claimed it, was refused an action, or ended
// it. Which fields are set depends on Event.
type AttentionRecord struct {
	At        time.Time `json:"ts"`
	MessageID string    `json:"messageId"`
	Event     string    `json:"event"` // RecordDecision and so on
	EventID   string    `json:"eventId"`
	Agent     string    `json:"agent"`
	Reason    string    `json:"reason,omitempty"`

	Directedness string `json:"directedness,omitempty"` // of a decision
	Policy       string `json:"policy,omitempty"`
	Injection    string `json:"injection,omitempty"`
	Priority     string `json:"priority,omitempty"`

	Disposition string `json:"disposition,omitempty"` // of a disposition

	Tool string `json:"tool,omitempty"` // of a refusal, or that was called

	Arguments    json.RawMessage `json:"arguments,omitempty"` // of a call
	ResultBytes  int64           `json:"resultBytes,omitempty"`
	ResultSHA256 string          `json:"resultSha256,omitempty"`
	Failed       bool            `json:"failed,omitempty"`

	Chat    string `json:"chat,omitempty"`   // of a turn, and of a budget: the topic on whose account it is
	TurnID  string `json:"turnId,omitempty"` // of a turn
	Attempt int    `json:"attempt,omitempty"`
	Mode    string `json:"mode,omitempty"`
	// perhaps waiting; started, then one of accepted, finished, failed, cancelled, interrupted
	State          string   `json:"state,omitempty"`
	MergedEventIDs []string `json:"mergedEventIds,omitempty"`
	Model          string   `json:"model,omitempty"`
	InputTokens    int64    `json:"inputTokens,omitempty"`
	CachedTokens   int64    `json:"cachedTokens,omitempty"` // of InputTokens
	OutputTokens   int64    `json:"outputTokens,omitempty"`
	USD            float64  `json:"usd,omitempty"`
	Bound          int64    `json:"bound,omitempty"` // of a budget
	Until          string   `json:"until,omitempty"` // of a budget

	Granted *bool  `json:"granted,omitempty"` // of a claim
	Owner   string `json:"owner,omitempty"`
	Token   int64  `json:"token,omitempty"`
	Via     string `json:"via,omitempty"` // broker or local

	Sent   string `json:"sent,omitempty"` // of a delivery or a post: id of the message that it is about
	Kind   string `json:"kind,omitempty"`
	Status string `json:"status,omitempty"`
	Target string `json:"target,omitempty"` // of a post or a reminder: the chat

	ReminderID string `json:"reminderId,omitempty"`
	Due        string `json:"due,omitempty"` // of a reminder that is not cancelled

	DecisionID string `json:"decisionId,omitempty"` // of an approval, like Tool and State
	By         string `json:"by,omitempty"`
	Scope      string `json:"scope,omitempty"`
	Digest     string `json:"digest,omitempty"` // of the call's arguments

	With string `json:"with,omitempty"` // of an escalation: the other agent
	// of an escalation: lead, owner, person, or author, who is told that there is no answer
	Rung    string `json:"rung,omitempty"`
	To      string `json:"to,omitempty"`      // of an escalation: who stands there
	Message string `json:"message,omitempty"` // of progress

	ObligationID string `json:"obligationId,omitempty"` // of an obligation, like State, Rung, To and By
	Author       string `json:"author,omitempty"`
	Recipient    string `json:"recipient,omitempty"`
	Blocks       string `json:"blocks,omitempty"`
	Age          string `json:"age,omitempty"`
	Slot         int64  `json:"slot,omitempty"` // of a return: its interval since the event was created
}

// Concerns reports whether the record is about an event, about a turn that merged the event, or
// about a message of the agent with that id.
func (a *AttentionRecord) Concerns(eventID string) bool {
	return a.EventID == eventID || a.Sent == eventID || slices.Contains(a.MergedEventIDs, eventID)
}

// FinalDisposition reports whether an event with this disposition has ended. An
// event without a disposition, or that is claimed or deferred, is still open.
func FinalDisposition(disposition string) bool {
	switch disposition {
	case "", "claimed", "deferred":
		return false
	}
	return true
}

// An AttentionFilter chooses attention records. The zero value chooses all.
type AttentionFilter struct {
	EventID string
	Agent   string
	Since   time.Time
	Until   time.Time
}

// Attention calls fn with the records that the filter chooses, each once and the oldest first,
// until fn returns an error.
func (r *Reader) Attention(ctx context.Context, f AttentionFilter, fn func(*AttentionRecord) error) error {
	seen := map[string]bool{}
	rows := f.rows()
	rows.Topic = protocol.Pattern(protocol.TopicAttention)
	return r.Each(ctx, rows, func(e *Entry) error {
		a, ok := attentionRecord(e)
		switch {
		case !ok, f.EventID != "" && !a.Concerns(f.EventID), f.Agent != "" && a.Agent != f.Agent, seen[e.MessageID]:
			return nil
		}
		seen[e.MessageID] = true
		return fn(&a)
	})
}

// manySpellings reports whether JSON may write a character in several ways.
func manySpellings(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"\/<>&'`, c)
}

// attentionRecord reads the record that a send_start row brings; false if it
// brings none.
func attentionRecord(e *Entry) (a AttentionRecord, ok bool) {
	m, _ := e.Decode(&a)
	if m.Type != protocol.TypeAgentEvent || a.Event == "" {
		return a, false
	}
	if a.Event == RecordDelivery || a.Event == RecordPost {
		a.Sent = a.MessageID
	}
	a.At, a.MessageID = e.Time(), e.MessageID
	if protocol.RoleOf(m.From) == protocol.RoleAgent || a.Agent == "" {
		a.Agent = string(m.From) // the sender, whatever the content claims
	}
	return a, true
}

// A ChatEvent is one chat message as it was sent to one agent.
type ChatEvent struct {
	EventID   string
	MessageID string
	At        time.Time
	Agent     string // the topic that it was sent to
	From      string
	Message   protocol.Message
	Content   protocol.ChatMessage
}

// ChatEvents calls fn each time that a chat message that the filter chooses was sent
// to an agent, the oldest first, until fn returns an error. What a hook took is sent to its chat
// before, and is no such message.
func (r *Reader) ChatEvents(ctx context.Context, f AttentionFilter, fn func(*ChatEvent) error) error {
	rows := f.rows()
	rows.Types = []protocol.MessageType{protocol.TypeTGMessage, protocol.TypeChatMessage}
	if f.Agent != "" {
		rows.Topic = protocol.Pattern(f.Agent)
	}
	return r.Each(ctx, rows, func(e *Entry) error {
		c, ok := chatEvent(e)
		if !ok || protocol.IsChat(protocol.PeerID(c.Agent)) || f.EventID != "" && c.EventID != f.EventID ||
			f.Agent != "" && c.Agent != f.Agent {
			return nil
		}
		return fn(&c)
	})
}

// CollabEvents calls fn with the events of the broker about a record (work, a question, a flight, an
// invocation, a delivery, a message, a decision) or an event, by its id, the oldest first and
// each once, until fn returns an error.
func (r *Reader) CollabEvents(ctx context.Context, record string, since time.Time,
	fn func(at time.Time, fact *protocol.CollabEvent) error) error {
	seen := map[string]bool{}
	rows := Filter{Events: []Event{SendStart}, Topic: protocol.Pattern(protocol.TopicCollabEvents), Since: since,
		about: record}
	return r.Each(ctx, rows, func(e *Entry) error {
		var fact protocol.CollabEvent
		m, ok := e.Decode(&fact)
		if !ok || m.From != protocol.PeerBroker || m.Type != protocol.TypeCollabEvent || seen[fact.ID] ||
			!slices.Contains(subjectsOf(&fact), record) {
			return nil
		}
		seen[fact.ID] = true
		return fn(e.Time(), &fact)
	})
}

// rows returns the filter of the send_start rows that the filter may choose.
func (f *AttentionFilter) rows() Filter {
	return Filter{Events: []Event{SendStart}, Since: f.Since, Until: f.Until, about: f.EventID}
}

func chatEvent(e *Entry) (ChatEvent, bool) {
	c := ChatEvent{MessageID: e.MessageID, At: e.Time(), Agent: e.Topic, From: e.From}
	m, ok := e.Decode(&c.Content)
	c.Message, c.EventID = m, cmp.Or(c.Content.SourceID, e.MessageID)
	return c, ok
}

// EventID returns the id that attention records use for the event that a message
// brings: for a chat message its sourceId, otherwise the message's own id.
func (r *Reader) EventID(ctx context.Context, id string) (string, error) {
	rows, err := r.rowsOf(ctx, id)
	if err != nil {
		return "", err
	}
	for i := range rows {
		switch protocol.MessageType(rows[i].Type) {
		case protocol.TypeTGMessage, protocol.TypeChatMessage:
			if c, ok := chatEvent(&rows[i]); ok && rows[i].Is(SendStart) {
				return c.EventID, nil
			}
		}
	}
	return id, nil
}

package mailbox

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// An Entry is one stored event.
type Entry struct {
	Seq        int64  // timing.sequence
	EventID    string // the sourceId, except for an edit that is an event of its own
	SourceID   string // of the message that the event is about
	Chat       protocol.Topic
	Source     Source
	ReceivedAt time.Time
	Content    protocol.ChatMessage // defaults are applied
	Origin     Origin
	Decision   attention.Decision
	Status
}

// A Source is the bus message that carried an event. Traces follow it.
type Source struct {
	MessageID   protocol.MessageID
	TraceParent string
}

// A Status is the progress of an event. Only Tx.Move changes its state.
type Status struct {
	State      State
	Claimed    bool      // disposition "claimed", while the event is open
	DeadlineAt time.Time // of an event in no turn: when it ends or, if deferred, is redelivered
	TurnID     string    // the newest turn that shows it
	MergedInto string    // event id of the fragment that this one was merged into
	Deferrals  int       // times it was deferred
	Deleted    bool      // its message was deleted, and its text erased
	Acted      bool      // its newest turn has sent something; read only
}

// Promised reports whether the event is in no turn and its author expects more: it was deferred or
// claimed, or its author was asked what they mean.
func (s *Status) Promised() bool {
	return s.State == Deferred || !s.DeadlineAt.IsZero() && (s.State == Turned || s.State == Kept && s.Claimed)
}

// An Origin names the broker's records that a wake is about, which get the answer. It is empty
// for events of chats.
type Origin struct {
	DeliveryID     string `json:"deliveryId,omitempty"`
	ConversationID string `json:"conversationId,omitempty"`
	MessageID      string `json:"messageId,omitempty"`
	QuestionID     string `json:"questionId,omitempty"`
	AnsweredID     string `json:"answeredId,omitempty"` // the agent's own question that was answered
	WorkItemID     string `json:"workItemId,omitempty"`
	FlightID       string `json:"flightId,omitempty"`
	Lead           string `json:"lead,omitempty"`       // master of its conversation
	Owner          string `json:"owner,omitempty"`      // of the work item
	OnBehalfOf     string `json:"onBehalfOf,omitempty"` // the person for whom another agent asks or works
}

// TakesText reports whether anybody would receive a text in response to the wake.
func (o *Origin) TakesText() bool {
	return o.QuestionID != "" || o.ConversationID != "" || o.FlightID != "" || o.WorkItemID != ""
}

// Files returns the files of the event, followed by those of the message that it replies to.
func (e *Entry) Files() []protocol.Attachment {
	if q := e.Content.ReplyTo; q != nil {
		return slices.Concat(e.Content.Attachments, q.Attachments)
	}
	return e.Content.Attachments
}

// ClaimGranted reports whether the event is shown because its claim was granted.
func (e *Entry) ClaimGranted() bool { return strings.HasPrefix(e.Decision.Reason, "claim_granted") }

// SentAt returns when the event was written if its chat gives a plausible time, else when it was
// received.
func (e *Entry) SentAt() time.Time {
	at, err := protocol.ParseTime(e.Content.CreatedAt)
	if err != nil || at.After(e.ReceivedAt) {
		return e.ReceivedAt
	}
	return at
}

// Event returns the entry as package attention takes it.
func (e *Entry) Event() attention.Event {
	event := EventOf(&e.Content)
	event.EventID = e.EventID
	for _, p := range e.Content.Recipients {
		event.Recipients = append(event.Recipients, PartyIdentity(p, e.Chat))
	}
	if o := e.Content.Obligation; o != nil {
		event.Obligation = &attention.Obligation{Blocks: ParseBlocks(o.Blocks), DefaultAction: o.DefaultAction}
	}
	return event
}

// ApplyDefaults fills in the documented defaults of missing fields. m is the message that carried
// c.
func ApplyDefaults(c *protocol.ChatMessage, m *protocol.Message) {
	c.Chat, c.Author = cmp.Or(c.Chat, &protocol.Chat{}), cmp.Or(c.Author, &protocol.Author{})
	c.Event = cmp.Or(c.Event, protocol.EventMessage)
	c.SourceID = cmp.Or(c.SourceID, string(m.MessageID))
	c.CreatedAt = cmp.Or(c.CreatedAt, m.Timestamp)
	c.Chat.Kind = cmp.Or(c.Chat.Kind, string(attention.ConversationDM))
	c.Chat.ID = conversationID(c.Chat.ID, m.From)
	c.Author.Kind = cmp.Or(c.Author.Kind, string(attention.AuthorHuman))
	c.Author.ID = cmp.Or(c.Author.ID, m.From.Name())
}

// EventOf returns a chat message with defaults as package attention takes it. Its id is the
// sourceId.
func EventOf(c *protocol.ChatMessage) attention.Event {
	event := attention.Event{
		EventID: c.SourceID, Kind: attention.EventKind(c.Event), Text: c.Text, Mentions: c.Mentions,
		Conversation: attention.Conversation{
			ID: c.Chat.ID, Kind: attention.ConversationKind(c.Chat.Kind), ThreadID: c.Chat.ThreadID,
			StreamID: c.Chat.StreamID, Title: c.Chat.Title,
		},
		Author: attention.Author{
			ID: c.Author.ID, Kind: attention.AuthorKind(c.Author.Kind), DisplayName: c.Author.DisplayName,
			Username: c.Author.Username,
		},
		Directedness: attention.Directedness(c.Directedness), Priority: attention.Priority(c.Priority),
		Signal: c.Signal, Attachments: len(c.Attachments),
	}
	if c.ReplyTo != nil {
		event.ReplyTo = &attention.ReplyTo{EventID: c.ReplyTo.SourceID, Author: c.ReplyTo.Author, Name: c.ReplyTo.Name,
			Text: c.ReplyTo.Text}
	}
	return event
}

// ThreadKey identifies the conversation and thread of the event. One turn at a time runs there.
func (e *Entry) ThreadKey() string { return e.Content.Chat.ID + "\x00" + e.Content.Chat.ThreadID }

// FromAgent reports whether another agent wrote the event.
func (e *Entry) FromAgent() bool { return e.Content.Author.Kind == string(attention.AuthorAgent) }

// FromBroker reports whether the event is a wake from the collaboration broker.
func (e *Entry) FromBroker() bool { return e.Chat == protocol.TopicBroker }

// Visibility returns the default visibility of an answer to the event.
func (e *Entry) Visibility() string {
	switch {
	case e.Content.Chat.Kind == string(attention.ConversationDM):
		return "dm"
	case e.Content.Chat.ThreadID != "" || e.Content.Chat.Kind == string(attention.ConversationThread):
		return "thread"
	}
	return "channel"
}

const entryNames = `seq, event_id, source_id, chat, message_id, traceparent, received_at, content, origin, decision,
	state, claimed, deadline_at, turn_id, merged_into, deferrals, deleted,
	coalesce((SELECT outbound FROM turns WHERE turns.turn_id = events.turn_id), 0)`

func scanEntry(into **Entry) []any {
	e := new(Entry)
	*into = e
	return []any{
		&e.Seq, &e.EventID, &e.SourceID, &e.Chat, &e.Source.MessageID, &e.Source.TraceParent,
		store.Micros{Time: &e.ReceivedAt},
		store.JSON{V: &e.Content}, store.JSON{V: &e.Origin}, store.JSON{V: &e.Decision},
		&e.State, &e.Claimed, store.Micros{Time: &e.DeadlineAt}, &e.TurnID, &e.MergedInto, &e.Deferrals, &e.Deleted,
		&e.Acted,
	}
}

// Events returns the events of a query. where follows SELECT ... FROM events.
func (v *View) Events(where string, args ...any) []*Entry {
	return store.All(v.Tx, scanEntry, `SELECT `+entryNames+` FROM events `+where, args...)
}

// Entry returns an event, or nil if there is none.
func (v *View) Entry(id string) *Entry {
	return First(v.Tx, scanEntry, `SELECT `+entryNames+` FROM events WHERE event_id = ?`, id)
}

// Current returns an event, or the event that it was merged into, or nil if there is none.
func (v *View) Current(id string) *Entry {
	e := v.Entry(id)
	for n := 0; n < 100 && e != nil && e.MergedInto != ""; n++ {
		e = v.Entry(e.MergedInto)
	}
	return e
}

// InState returns at most limit events in a state, oldest first.
func (v *View) InState(s State, limit int) []*Entry {
	return v.Events(`WHERE state = ? ORDER BY seq LIMIT ?`, s, limit)
}

// InsertEvent inserts an event and sets its sequence.
func InsertEvent(tx *Tx, e *Entry) {
	c := &e.Content
	e.State = Stored
	e.Seq = store.Value[int64](tx.Tx, `INSERT INTO events
		(event_id, source_id, chat, message_id, traceparent, received_at, content, origin, kind, conversation, thread, stream, author, author_kind, state)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING seq`,
		e.EventID, e.SourceID, e.Chat, e.Source.MessageID, e.Source.TraceParent, store.Micros{Time: &e.ReceivedAt},
		store.JSON{V: c}, store.JSON{V: &e.Origin},
		c.Event, c.Chat.ID, c.Chat.ThreadID, c.Chat.StreamID, c.Author.ID, c.Author.Kind, e.State)
}

// Save stores the status of an event.
func (tx *Tx) Save(e *Entry) {
	tx.Exec(`UPDATE events SET state = ?, claimed = ?, deadline_at = ?, turn_id = ?, merged_into = ?, deferrals = ?, deleted = ? WHERE seq = ?`,
		e.State, e.Claimed, store.Micros{Time: &e.DeadlineAt}, e.TurnID, e.MergedInto, e.Deferrals, e.Deleted, e.Seq)
}

// SaveContent replaces the content of an event.
func SaveContent(tx *Tx, e *Entry) {
	tx.Exec(`UPDATE events SET content = ?, deleted = ? WHERE seq = ?`, store.JSON{V: &e.Content}, e.Deleted, e.Seq)
}

// Decide stores and records the decision about an event.
func (tx *Tx) Decide(e *Entry) {
	d := &e.Decision
	tx.Exec(`UPDATE events SET decision = ?, policy = ?, mode = ?, directedness = ? WHERE seq = ?`,
		store.JSON{V: d}, d.Policy, d.Injection, d.Directedness, e.Seq)
	tx.Record(UniqueKey("decision", e.Seq), e, protocol.AttentionDecision{
		Event: protocol.RecordDecision, EventID: e.EventID, Agent: tx.m.id, Directedness: string(d.Directedness),
		Policy: string(d.Policy), Injection: string(d.Injection), Priority: string(d.Priority), Reason: d.Reason,
	})
}

// RecordReceipt records the receipt of an event and reports whether it is new. Edits without a
// sequence are distinguished by their bus messages.
func RecordReceipt(tx *Tx, e *Entry) (fresh bool) {
	sequence := strconv.FormatInt(e.Content.Sequence, 10)
	if e.Content.Sequence == 0 && e.Content.Event == protocol.EventEdit {
		sequence = string(e.Source.MessageID)
	}
	return store.Value[bool](tx.Tx,
		`INSERT OR IGNORE INTO receipts (kind, source_id, sequence, received_at) VALUES (?, ?, ?, ?) RETURNING true`,
		e.Content.Event, ReceiptKey(e), sequence, store.Micros{Time: &e.ReceivedAt})
}

// ReceiptKey returns the id under which the receipt of an event is stored.
func ReceiptKey(e *Entry) string { return string(e.Chat) + " " + e.SourceID }

package activitylog

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"hubbub/protocol"
)

// An AttentionRecord is one agent_event to system:attention: an agent decided on an event, ran a
// turn for it, claimed it, was refused an action, or ended it. Its Agent is the sender, whatever
// the content says.
type AttentionRecord struct {
	At        time.Time `json:"ts"`
	MessageID string    `json:"messageId"`
	protocol.Record
}

// Sent returns the id of the message that a delivery or a post is about, or "".
func (a *AttentionRecord) Sent() string {
	switch c := a.Content.(type) {
	case *protocol.DeliveryRecord:
		return string(c.MessageID)
	case *protocol.PostRecord:
		return string(c.MessageID)
	}
	return ""
}

// Concerns reports whether the record is about an event with that id, about a turn that merged
// the event, or about a message of the agent with that id.
func (a *AttentionRecord) Concerns(eventID string) bool {
	turn, ok := a.Content.(*protocol.TurnRecord)
	return a.EventID == eventID || a.Sent() == eventID || ok && slices.Contains(turn.MergedEventIDs, eventID)
}

// recordMembers are the members that MarshalJSON takes from the content of a record, in order.
var recordMembers = strings.Fields("directedness policy injection priority disposition tool arguments resultBytes " +
	"resultSha256 failed chat turnId attempt mode state mergedEventIds model inputTokens cachedTokens outputTokens usd " +
	"bound until granted owner token via sent kind status target reminderId due decisionId by scope digest with rung " +
	"to message obligationId author recipient blocks age slot")

// MarshalJSON writes the members that all records have, and those of its kind that are not empty.
func (a *AttentionRecord) MarshalJSON() ([]byte, error) {
	type head AttentionRecord // without this method
	var b, content bytes.Buffer
	for to, value := range map[*bytes.Buffer]any{&b: (*head)(a), &content: a.Content} {
		enc := json.NewEncoder(to)
		enc.SetEscapeHTML(false) // as it was sent
		if err := enc.Encode(value); err != nil {
			return nil, err
		}
	}
	var members map[string]json.RawMessage
	_ = json.Unmarshal(content.Bytes(), &members) // an unknown kind has none
	if a.Sent() != "" {
		members["sent"] = members["messageId"]
	}
	b.Truncate(b.Len() - len("}\n"))
	for _, name := range recordMembers {
		switch value := string(members[name]); value {
		case "", `""`, "0", "null", "[]":
		case "false":
			if name == "granted" {
				b.WriteString(`,"granted":false`)
			}
		default:
			fmt.Fprintf(&b, ",%q:%s", name, value)
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
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
	m, _ := e.Decode(nil)
	record, _ := protocol.ParseRecord(m.Content)
	if m.Type != protocol.TypeAgentEvent || record.Event == "" {
		return a, false
	}
	if protocol.RoleOf(m.From) == protocol.RoleAgent || record.Agent == "" {
		record.Agent = string(m.From)
	}
	return AttentionRecord{e.Time(), e.MessageID, record}, true
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

package read

import (
	"context"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
)

// An AttentionFilter selects attention records. The zero value selects all.
type AttentionFilter struct {
	EventID string
	Agent   string
	Since   time.Time
	Until   time.Time
}

// Attention calls fn with the selected records, each once and the oldest first, until fn returns
// an error.
func (r *Reader) Attention(ctx context.Context, f AttentionFilter, fn func(*activitylog.AttentionRecord) error) error {
	seen := map[string]bool{}
	rows := f.rows()
	rows.Topic = protocol.Pattern(protocol.TopicAttention)
	return r.Each(ctx, rows, func(e *activitylog.Entry) error {
		a, ok := activitylog.ParseAttention(e)
		switch {
		case !ok, f.EventID != "" && !a.Concerns(f.EventID), f.Agent != "" && a.Agent != f.Agent, seen[e.MessageID]:
			return nil
		}
		seen[e.MessageID] = true
		return fn(&a)
	})
}

// manySpellings reports whether JSON has several ways to write a character.
func manySpellings(c rune) bool {
	return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"\/<>&'`, c)
}

// ChatEvents calls fn for each selected chat message that was sent to an agent, the oldest first,
// until fn returns an error. It leaves out messages that a hook sent to the chat.
func (r *Reader) ChatEvents(ctx context.Context, f AttentionFilter, fn func(*activitylog.ChatEvent) error) error {
	rows := f.rows()
	rows.Types = []protocol.MessageType{protocol.TypeTGMessage, protocol.TypeChatMessage}
	if f.Agent != "" {
		rows.Topic = protocol.Pattern(f.Agent)
	}
	return r.Each(ctx, rows, func(e *activitylog.Entry) error {
		c, ok := activitylog.ParseChatEvent(e)
		if !ok || protocol.IsChat(protocol.PeerID(c.Agent)) || f.EventID != "" && c.EventID != f.EventID ||
			f.Agent != "" && c.Agent != f.Agent {
			return nil
		}
		return fn(&c)
	})
}

// CollabEvents calls fn with the broker's events about an id, the oldest first and each once,
// until fn returns an error. The id is that of an event or of a record: work, a question, a
// flight, an invocation, a delivery, a message or a decision.
func (r *Reader) CollabEvents(ctx context.Context, record string, since time.Time,
	fn func(at time.Time, fact *protocol.CollabEvent) error) error {
	seen := map[string]bool{}
	rows := Filter{Events: []activitylog.Event{activitylog.SendStart},
		Topic: protocol.Pattern(protocol.TopicCollabEvents), Since: since,
		about: record}
	return r.Each(ctx, rows, func(e *activitylog.Entry) error {
		var fact protocol.CollabEvent
		m, ok := e.Decode(&fact)
		if !ok || m.From != protocol.PeerBroker || m.Type != protocol.TypeCollabEvent || seen[fact.ID] ||
			!slices.Contains(activitylog.CollabSubjects(&fact), record) {
			return nil
		}
		seen[fact.ID] = true
		return fn(e.Time(), &fact)
	})
}

// rows returns a filter of the send_start rows that f may select.
func (f *AttentionFilter) rows() Filter {
	return Filter{Events: []activitylog.Event{activitylog.SendStart}, Since: f.Since, Until: f.Until, about: f.EventID}
}

// EventID returns the id by which attention records name the event of a message: the sourceId of
// a chat message, and otherwise the message's own id.
func (r *Reader) EventID(ctx context.Context, id string) (string, error) {
	rows, err := r.rowsOf(ctx, id)
	if err != nil {
		return "", err
	}
	for i := range rows {
		switch protocol.MessageType(rows[i].Type) {
		case protocol.TypeTGMessage, protocol.TypeChatMessage:
			if c, ok := activitylog.ParseChatEvent(&rows[i]); ok && rows[i].Is(activitylog.SendStart) {
				return c.EventID, nil
			}
		}
	}
	return id, nil
}

package read

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"

	"zombiezen.com/go/sqlite"
)

// ErrUnknownMessage is wrapped by errors about a message that is in no log.
var ErrUnknownMessage = errors.New("no log has this message")

// maxMessageRows bounds the rows read for one message.
const maxMessageRows = 200_000

// A Message is everything that the logs record about one message.
type Message struct {
	ID          string
	Type        string
	From        string
	Topic       string
	Payload     json.RawMessage // nil if its send_start row was removed
	InReplyTo   string
	TraceParent string
	// one for each time that it was sent, in order; senders may repeat a message
	Publications []*activitylog.Publication
	Refusals     []activitylog.Entry // its rejected rows
	Rows         []activitylog.Entry // all its rows, by time
}

// Begin returns the time of the message's first row.
func (m *Message) Begin() time.Time {
	if len(m.Rows) == 0 {
		return time.Time{}
	}
	return m.Rows[0].Time()
}

// End returns the time of the message's last row.
func (m *Message) End() time.Time {
	if len(m.Rows) == 0 {
		return time.Time{}
	}
	return m.Rows[len(m.Rows)-1].Time()
}

// Status returns the status of the message's last publication, "rejected" if it was refused, or
// empty while it is under way.
func (m *Message) Status() string {
	if n := len(m.Publications); n > 0 {
		return m.Publications[n-1].Status
	}
	if len(m.Refusals) > 0 {
		return activitylog.Rejected.String()
	}
	return ""
}

// Message returns one message. The error wraps ErrUnknownMessage if no row
// has its id.
func (r *Reader) Message(ctx context.Context, id string) (*Message, error) {
	rows, err := r.rowsOf(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrUnknownMessage, id)
	}
	return makeMessage(id, rows), nil
}

// rowsOf returns the rows of a message from all logs, by time.
func (r *Reader) rowsOf(ctx context.Context, id string) (rows []activitylog.Entry, err error) {
	if id == "" {
		return nil, nil
	}
	lists := make([][]activitylog.Entry, len(r.sources))
	err = r.with(ctx, func(log int, l *segment.Snapshot) {
		p := &pager{log: log}
		for _, in := range l.Parts {
			v := l.Open(in)
			v.RowsOf(id, v.SelectEntries(), "", maxMessageRows, func(stmt *sqlite.Stmt) bool {
				if e, ok := p.entry(l, v, stmt); ok {
					lists[log] = append(lists[log], e)
				}
				return true
			})
			l.Check(v)
			l.Release(in)
		}
	})
	if err != nil {
		return nil, err
	}
	return mergeByTime(lists), nil
}

// mergeByTime merges the rows of several logs by time. Rows of one log keep their order.
func mergeByTime(lists [][]activitylog.Entry) (rows []activitylog.Entry) {
	for {
		next := -1
		for i, list := range lists {
			if len(list) > 0 && (next < 0 || list[0].TS < lists[next][0].TS) {
				next = i
			}
		}
		if next < 0 {
			return rows
		}
		rows, lists[next] = append(rows, lists[next][0]), lists[next][1:]
	}
}

// makeMessage assembles a message from its rows.
func makeMessage(id string, rows []activitylog.Entry) *Message {
	m := &Message{ID: id, Rows: rows}
	var a activitylog.Assembler
	for i := range rows {
		e := &rows[i]
		a.Add(e)
		switch {
		case e.Is(activitylog.SendStart) && m.Payload == nil:
			var envelope struct{ Type, From, InReplyTo, TraceParent string }
			_ = json.Unmarshal(e.Payload, &envelope) // other payloads have no envelope
			m.Payload, m.Type, m.From, m.Topic = e.Payload, envelope.Type, envelope.From, e.Topic
			m.InReplyTo, m.TraceParent = envelope.InReplyTo, envelope.TraceParent
		case e.Is(activitylog.Rejected):
			m.Refusals = append(m.Refusals, *e)
		}
	}
	m.Publications = a.Publications(id)
	if m.From == "" && len(m.Refusals) > 0 {
		m.From, m.Topic = m.Refusals[0].Actor, m.Refusals[0].Topic
	}
	return m
}

package activitylog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"zombiezen.com/go/sqlite"
)

// ErrUnknownMessage is in the chain of the error of a message that no log holds.
var ErrUnknownMessage = errors.New("no log holds this message")

// maxMessageRows bounds how many rows of one message are read.
const maxMessageRows = 200_000

// A Message is all that the logs say about one message.
type Message struct {
	ID           string
	Type         string
	From         string
	Topic        string
	Payload      json.RawMessage // nil when its send_start row is gone
	InReplyTo    string
	TraceParent  string
	Publications []*Publication // each time that it was sent, in order; senders may repeat a message
	Refusals     []Entry        // its rejected rows
	Rows         []Entry        // all of them, by time
}

// Begin returns when the message was first seen.
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

// Status returns how the message ended, the last time that it was sent; empty
// while it is under way.
func (m *Message) Status() string {
	if n := len(m.Publications); n > 0 {
		return m.Publications[n-1].Status
	}
	if len(m.Refusals) > 0 {
		return Rejected.String()
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
func (r *Reader) rowsOf(ctx context.Context, id string) (rows []Entry, err error) {
	if id == "" {
		return nil, nil
	}
	lists := make([][]Entry, len(r.sources))
	err = r.with(ctx, func(log int, l *snapshot) {
		p := &pager{log: log}
		for _, in := range l.parts {
			v := l.open(in)
			v.rowsOf(id, v.selectEntries(), "", maxMessageRows, func(stmt *sqlite.Stmt) bool {
				if e, ok := p.entry(l, v, stmt); ok {
					lists[log] = append(lists[log], e)
				}
				return true
			})
			l.check(v)
			l.release(in)
		}
	})
	if err != nil {
		return nil, err
	}
	return mergeByTime(lists), nil
}

// mergeByTime merges the rows of several logs by time. Rows of one log keep their order.
func mergeByTime(lists [][]Entry) (rows []Entry) {
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

// makeMessage puts the rows of one message together.
func makeMessage(id string, rows []Entry) *Message {
	m := &Message{ID: id, Rows: rows}
	var a Assembler
	for i := range rows {
		e := &rows[i]
		a.Add(e)
		switch {
		case e.Is(SendStart) && m.Payload == nil:
			var envelope struct{ Type, From, InReplyTo, TraceParent string }
			_ = json.Unmarshal(e.Payload, &envelope) // what is no message has no envelope
			m.Payload, m.Type, m.From, m.Topic = e.Payload, envelope.Type, envelope.From, e.Topic
			m.InReplyTo, m.TraceParent = envelope.InReplyTo, envelope.TraceParent
		case e.Is(Rejected):
			m.Refusals = append(m.Refusals, *e)
		}
	}
	m.Publications = a.publications[id]
	if m.From == "" && len(m.Refusals) > 0 {
		m.From, m.Topic = m.Refusals[0].Actor, m.Refusals[0].Topic
	}
	return m
}

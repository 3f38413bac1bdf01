package activitylog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"zombiezen.com/go/sqlite"
)

// ErrUnknownMessage is in the chain of the error of a message that no log holds.
var ErrUnknownMessage = errors.New("no log holds this message")

// maxMessageRows bounds how many rows of one message are read.
const maxMessageRows = 200_000

// A Message is all that the logs say about one message.
type Message struct {
	ID          string
	Type        string
	From        string
	Topic       string
	Payload     json.RawMessage // nil when its send_start row is gone
	InReplyTo   string
	TraceParent string
	Passes      []Pass  // each time that it was sent, in order; senders may repeat a message
	Refusals    []Entry // its rejected rows
	Rows        []Entry // all of them, by time
}

// A Pass is one message going through the bus once.
type Pass struct {
	Topic      string
	Bus        string
	RPCID      string
	Start      time.Time // zero when the row is missing
	Finish     time.Time // zero while it is under way, or when the row is missing
	Status     string    // of send_finish
	Result     json.RawMessage
	Deliveries []Delivery
}

// A Delivery is one message on its way to one peer.
type Delivery struct {
	Peer   string
	Bus    string
	RPCID  string
	Start  time.Time
	Finish time.Time // zero while it is under way, or when the row is missing
	Status string    // a protocol.Outcome
	Answer json.RawMessage
	Error  string
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

// Message returns one message. The error wraps ErrUnknownMessage when no row
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
	for i, s := range r.sources {
		p := &pager{source: s, log: i}
		err := s.with(ctx, func(v *view) error {
			return v.query(v.selectEntries()+" WHERE message_id = ? ORDER BY id LIMIT ?", []any{id, maxMessageRows},
				func(stmt *sqlite.Stmt) (bool, error) {
					e, ok, err := p.entry(v, stmt)
					if ok {
						rows = append(rows, e)
					}
					return err == nil, err
				})
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(rows, func(a, b Entry) int { return cmp.Compare(a.TS, b.TS) })
	return rows, nil
}

// makeMessage puts the rows of one message together.
func makeMessage(id string, rows []Entry) *Message {
	m := &Message{ID: id, Rows: rows}
	// Starts first: the rows of other buses have other clocks.
	for i := range rows {
		if e := &rows[i]; e.Is(SendStart) {
			m.start(e)
		}
	}
	for i := range rows {
		switch e := &rows[i]; {
		case e.Is(ProcessStart):
			m.deliver(e)
		case e.Is(SendFinish):
			m.finish(e)
		case e.Is(Rejected):
			m.Refusals = append(m.Refusals, *e)
		}
	}
	for i := range rows {
		if e := &rows[i]; e.Is(ProcessFinish) {
			m.settle(e)
		}
	}
	if m.From == "" && len(m.Refusals) > 0 {
		m.From, m.Topic = m.Refusals[0].Actor, m.Refusals[0].Topic
	}
	return m
}

func (m *Message) start(e *Entry) {
	if m.Payload == nil {
		var envelope struct{ Type, From, InReplyTo, TraceParent string }
		_ = json.Unmarshal(e.Payload, &envelope) // what is no message has no envelope
		m.Payload, m.Type, m.From, m.Topic = e.Payload, envelope.Type, envelope.From, e.Topic
		m.InReplyTo, m.TraceParent = envelope.InReplyTo, envelope.TraceParent
	}
	m.Passes = append(m.Passes, Pass{Topic: e.Topic, Bus: e.Bus, RPCID: e.RPCID, Start: e.Time()})
}

// finish ends the first pass that is open on the same request.
func (m *Message) finish(e *Entry) {
	at := slices.IndexFunc(m.Passes, func(p Pass) bool { return p.Status == "" && p.RPCID == e.RPCID && p.Bus == e.Bus })
	if at < 0 {
		m.Passes = append(m.Passes, Pass{Topic: e.Topic, Bus: e.Bus, RPCID: e.RPCID})
		at = len(m.Passes) - 1
	}
	p := &m.Passes[at]
	p.Finish, p.Status, p.Result = e.Time(), e.Status, e.Payload
}

// deliver adds a delivery to the last pass that began before it.
func (m *Message) deliver(e *Entry) {
	at, t := 0, e.Time()
	for i, p := range m.Passes {
		if !p.Start.After(t) {
			at = i
		}
	}
	if len(m.Passes) == 0 {
		m.Passes = append(m.Passes, Pass{Topic: e.Topic})
	}
	p := &m.Passes[at]
	p.Deliveries = append(p.Deliveries, Delivery{Peer: e.Actor, Bus: e.Bus, RPCID: e.RPCID, Start: t})
}

// settle ends the delivery that was made by the same request to the same peer.
func (m *Message) settle(e *Entry) {
	for i := range m.Passes {
		for j := range m.Passes[i].Deliveries {
			d := &m.Passes[i].Deliveries[j]
			if d.Status == "" && d.Peer == e.Actor && d.RPCID == e.RPCID {
				d.Finish, d.Status, d.Answer, d.Error = e.Time(), e.Status, e.Payload, e.Error
				return
			}
		}
	}
	if len(m.Passes) == 0 {
		m.Passes = append(m.Passes, Pass{Topic: e.Topic})
	}
	p := &m.Passes[len(m.Passes)-1]
	p.Deliveries = append(p.Deliveries, Delivery{
		Peer: e.Actor, Bus: e.Bus, RPCID: e.RPCID, Finish: e.Time(), Status: e.Status, Answer: e.Payload, Error: e.Error,
	})
}

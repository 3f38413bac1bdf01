package activitylog

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// A Leg is one trip of a message, from a start to a finish.
type Leg struct {
	Bus    string
	RPCID  string
	Start  time.Time // zero if the row is missing
	Finish time.Time // zero while it is under way, or if the row is missing
	Status string    // empty while it is under way
}

// Duration returns how long the leg lasted; 0 if one of its ends is not known.
func (l *Leg) Duration() time.Duration {
	if l.Start.IsZero() || l.Finish.IsZero() {
		return 0
	}
	return l.Finish.Sub(l.Start)
}

// A Publication is one trip of a message through the bus. A message that is sent again has
// several.
type Publication struct {
	Leg         // its Status is that of send_finish
	Topic       string
	Payload     json.RawMessage // of send_start
	Result      json.RawMessage // of send_finish
	Deliveries  []*Delivery
	First, Last int64 // ids of its first and last row in the log of its first row

	MessageID string
	Log       int
	sendings  []int64 // values of Entry.Sent in its rows in that log
	Started   bool
	Finished  bool
	Began     time.Time // of its first row
	Seen      time.Time // of its last row
	open      int       // every delivery before this index has ended
}

// A Delivery is the delivery of a message to one peer.
type Delivery struct {
	Leg    // its Status is a protocol.Outcome
	Peer   string
	Answer json.RawMessage
	Error  string

	Begun, Ended bool
}

// An Assembler groups rows into the publications of messages. Rows must come in the order of
// their times; a row of another bus may be dated before the send_start row of its message. The
// zero Assembler is ready to use.
type Assembler struct {
	// MaxPending, if positive, bounds the memory of an Assembler that receives rows as they are
	// written. It then forgets a publication when it is finished and skips rows of a message
	// without a send_start row. If more messages than this are pending, it forgets all of them.
	MaxPending int

	publications map[string][]*Publication // by message id, in the order of their first rows
}

// Add adds the next row. It returns the publication of the row and, for a process row, the
// delivery. It returns nil if the row belongs to none.
func (a *Assembler) Add(e *Entry) (p *Publication, d *Delivery) {
	if a.publications == nil || a.MaxPending > 0 && len(a.publications) > a.MaxPending {
		a.publications = map[string][]*Publication{}
	}
	at := e.Time()
	switch {
	case e.Is(SendStart):
		p = a.publicationOf(e, at, func(p *Publication) bool { return !p.Started && !p.Finished })
		p.sendings = nil
		p.Started, p.Topic, p.Bus, p.RPCID, p.Start, p.Payload = true, e.Topic, e.Bus, e.RPCID, at, e.Payload
		p.Log, p.First, p.Last = e.Log, e.ID, e.ID
	case a.MaxPending > 0 && len(a.publications[e.MessageID]) == 0:
		return nil, nil
	case e.Is(SendFinish):
		p = a.publicationOf(e, at,
			func(p *Publication) bool { return p.Started && !p.Finished && p.RPCID == e.RPCID && p.Bus == e.Bus },
			func(p *Publication) bool { return !p.Started && !p.Finished })
		p.Finished, p.Finish, p.Status, p.Result = true, at, e.Status, e.Payload
		if a.MaxPending > 0 {
			a.Forget(p)
		}
	case e.Is(ProcessStart):
		p = a.publicationOf(e, at, func(p *Publication) bool { return p.Topic == e.Topic },
			func(*Publication) bool { return true })
		d = p.deliver(e)
		d.Begun, d.Start = true, at
	case e.Is(ProcessFinish):
		p = a.publicationOf(e, at,
			func(p *Publication) bool { return p.delivery(e) != nil },
			func(p *Publication) bool { return p.Topic == e.Topic }, func(*Publication) bool { return true })
		if d = p.delivery(e); d == nil {
			d = p.deliver(e)
		}
		d.Ended, d.Finish, d.Status, d.Answer, d.Error = true, at, e.Status, e.Payload, e.Error
	default:
		return nil, nil
	}
	p.Seen = at
	if p.Log == e.Log {
		p.Last = max(p.Last, e.ID)
		if of := cmp.Or(e.Sent, e.ID); a.MaxPending == 0 && !slices.Contains(p.sendings, of) {
			p.sendings = append(p.sendings, of)
		}
	}
	return p, d
}

// publicationOf returns the publication that the row's Sent names. Without one, it tries the
// tests in order and returns the latest publication of the message that passes. If none does, it
// returns a new one.
func (a *Assembler) publicationOf(e *Entry, at time.Time, fits ...func(*Publication) bool) *Publication {
	list := a.publications[e.MessageID]
	for _, p := range list {
		if e.Sent > 0 && p.Log == e.Log && slices.Contains(p.sendings, e.Sent) {
			return p
		}
	}
	for _, fit := range fits {
		for _, p := range slices.Backward(list) {
			if fit(p) {
				return p
			}
		}
	}
	p := &Publication{Leg: Leg{Bus: e.Bus, RPCID: e.RPCID}, Topic: e.Topic, MessageID: e.MessageID, Log: e.Log,
		First: e.ID, Began: at}
	a.publications[e.MessageID] = append(list, p)
	return p
}

// Publications returns the publications of a message, in the order of their first rows.
func (a *Assembler) Publications(messageID string) []*Publication { return a.publications[messageID] }

// All returns the publications of all messages, in no particular order.
func (a *Assembler) All() []*Publication {
	return slices.Concat(slices.Collect(maps.Values(a.publications))...)
}

// Forget removes a publication: later rows of its message start a new one.
func (a *Assembler) Forget(p *Publication) {
	rest := slices.DeleteFunc(a.publications[p.MessageID], func(other *Publication) bool { return other == p })
	if a.publications[p.MessageID] = rest; len(rest) == 0 {
		delete(a.publications, p.MessageID)
	}
}

func (p *Publication) deliver(e *Entry) *Delivery {
	d := &Delivery{Leg: Leg{Bus: e.Bus, RPCID: e.RPCID}, Peer: e.Actor}
	p.Deliveries = append(p.Deliveries, d)
	return d
}

// delivery returns the open delivery with the row's request id and peer, or nil.
func (p *Publication) delivery(e *Entry) *Delivery {
	for p.open < len(p.Deliveries) && p.Deliveries[p.open].Ended {
		p.open++
	}
	for _, d := range p.Deliveries[p.open:] {
		if !d.Ended && d.Peer == e.Actor && d.RPCID == e.RPCID {
			return d
		}
	}
	return nil
}

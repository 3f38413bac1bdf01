package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/chain"
	"hubbub/protocol"
)

// The kinds of a Bar.
const (
	BarMessage  = "message"
	BarDelivery = "delivery"
	BarNote     = "note" // words only
)

// A Bar is one line of a waterfall: a message, one of its deliveries, or a note.
type Bar struct {
	*chain.Step // the message
	Kind        string
	Depth       int
	Topic       string
	Peer        string // of a delivery
	Note        string // of a delivery or a refused message
	Error       string
	Status      string // empty while it is under way
	Reason      string // its relation to its cause in the chain
	Self        bool   // it belongs to the traced message
	Cause       bool   // it belongs to a cause of the traced message
	Answer      json.RawMessage
	Start       time.Time
	Finish      time.Time  // zero while it is under way
	Span        chain.Span // what the agent does afterwards
}

// Open reports whether the message or delivery has not ended.
func (b *Bar) Open() bool { return b.Kind != BarNote && b.Finish.IsZero() }

// Lasted returns how long the span took.
func (b *Bar) Lasted() time.Duration { return b.Span.Until.Sub(b.Start) }

// A Waterfall shows messages and their deliveries on one time axis.
type Waterfall struct {
	Bars  []Bar
	Begin time.Time
	Whole time.Duration

	deliveries, most int
}

// NewWaterfall lays out a chain. Each failed delivery is a bar. For the traced message, the first
// deliveries are bars, too. If most is positive, it bounds the deliveries shown for one message.
func NewWaterfall(c *chain.Chain, deliveries, most int) *Waterfall {
	w := &Waterfall{deliveries: deliveries, most: most}
	for i := range c.Causes {
		w.add(&c.Causes[i], Bar{Cause: true})
	}
	for i := range c.Steps {
		w.add(&c.Steps[i], Bar{Self: i == 0})
	}
	w.addSpans(c.Spans())
	var end time.Time
	for _, b := range w.Bars {
		for _, t := range []time.Time{b.Start, b.Finish} {
			if !t.IsZero() && (w.Begin.IsZero() || t.Before(w.Begin)) {
				w.Begin = t
			}
			if t.After(end) {
				end = t
			}
		}
	}
	w.Whole = max(end.Sub(w.Begin), time.Microsecond)
	return w
}

// add adds the bars of a message: one for each publication, followed by those of its deliveries.
func (w *Waterfall) add(s *chain.Step, b Bar) {
	b.Step, b.Kind, b.Depth, b.Topic, b.Reason, b.Start = s, BarMessage, s.Depth, s.Topic, s.Reason, s.Begin()
	if len(s.Publications) == 0 {
		b.Status, b.Finish = s.Message.Status(), s.End()
		if n := len(s.Refusals); n > 0 {
			b.Error = s.Refusals[n-1].Error
		}
		w.Bars = append(w.Bars, b)
		return
	}
	for i, p := range s.Publications {
		pass := b
		if !p.Start.IsZero() {
			pass.Start = p.Start
		}
		pass.Finish, pass.Topic, pass.Status, pass.Answer = p.Finish, p.Topic, p.Status, p.Result
		switch {
		case i > 0 && p.Topic == s.Publications[i-1].Topic:
			pass.Reason = SentAgain
		case i > 0:
			pass.Reason = "also sent"
		}
		w.Bars = append(w.Bars, pass)
		w.addDeliveries(p.Deliveries, &pass)
	}
}

// SentAgain is the reason of the bar for a repeated message.
const SentAgain = "sent again"

func (w *Waterfall) addDeliveries(list []*activitylog.Delivery, of *Bar) {
	shown := 0
	for _, d := range list {
		failed := d.Status != "" && d.Status != activitylog.StatusOK
		if !failed && (!of.Self || shown >= w.deliveries) || w.most > 0 && shown >= w.most {
			continue
		}
		shown++
		w.Bars = append(w.Bars, Bar{
			Step: of.Step, Kind: BarDelivery, Depth: of.Depth + 1, Peer: d.Peer, Status: d.Status, Error: d.Error,
			Answer: d.Answer,
			Self:   of.Self, Cause: of.Cause, Start: d.Start, Finish: d.Finish,
		})
	}
	if rest := len(list) - shown; rest > 0 && of.Self {
		w.Bars = append(w.Bars, Bar{Step: of.Step, Kind: BarNote, Depth: of.Depth + 1, Self: true,
			Note: fmt.Sprintf("and %d more peers", rest)})
	}
}

// addSpans adds waits and turns to the bars of the messages that begin them. If a message was
// sent again, its first bar gets the span.
func (w *Waterfall) addSpans(spans map[string]chain.Span) {
	for i := range w.Bars {
		b := &w.Bars[i]
		s, ok := spans[b.ID]
		if ok && b.Kind == BarMessage && s.Until.After(b.Start) {
			b.Span = s
			delete(spans, b.ID)
		}
	}
}

// Place returns the position of a time on the axis, from 0 at the beginning to 1 at the end.
func (w *Waterfall) Place(t time.Time) float64 { return float64(t.Sub(w.Begin)) / float64(w.Whole) }

// NameOf returns a name for a message: the event that an agent reports, or else the type. told
// reports whether it is an event.
func NameOf(typ string, payload []byte) (name string, told bool) {
	var m struct{ Content struct{ Event string } }
	if typ == string(protocol.TypeAgentEvent) && json.Unmarshal(payload, &m) == nil && m.Content.Event != "" {
		return m.Content.Event, true
	}
	return cmp.Or(typ, "message"), false
}

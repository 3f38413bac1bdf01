package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/chain"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/protocol/text"
)

const (
	// maxChainRange is how much time around a message is searched for causes and effects. The
	// range is shorter if more than chainMessages were sent before or after the message, but at
	// least minChainRange.
	maxChainRange = 15 * time.Minute
	minChainRange = 30 * time.Second
	chainMessages = 2000
	chainSteps    = 150

	// shownDeliveries bounds the deliveries of the message itself. Of other messages, only failed
	// deliveries are shown.
	shownDeliveries = 60
)

// A messageView is the page of one message.
type messageView struct {
	Self   *read.Message
	Bars   []barLine
	Ticks  []tick
	Whole  time.Duration
	Cut    bool
	Within time.Duration // how much time around the message was searched
	Wider  string        // link to a longer search; empty if there is none
	Rows   []activitylog.Entry
	Agents []eventAt // agents that decided on it, with their decisions
}

// A barLine is one line of the waterfall. Positions and widths are percentages of the axis.
type barLine struct {
	view.Bar
	Detail              string
	At, Took            time.Duration
	Left, Width         string
	SpanLeft, SpanWidth string
}

// An eventAt is an event as one agent handles it.
type eventAt struct {
	Agent string
	agentEvent
}

func (r *request) message() error {
	searched := strings.TrimSpace(r.FormValue("find"))
	id := cmp.Or(searched, r.FormValue("id"))
	if r.log == nil {
		return notFound("this bus keeps no activity log")
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*searchTimeout)
	defer cancel()
	within := maxChainRange
	if r.FormValue("wide") == "" {
		within = r.searchRange(ctx, id)
	}
	found, err := chain.Find(ctx, r.log, id, &chain.Options{Within: within, Limit: chainSteps})
	f := r.lockModel()
	switch {
	case errors.Is(err, read.ErrUnknownMessage), errors.Is(err, activitylog.ErrNoLog):
		for _, e := range f.decisionsOn(id) { // id may be a sourceId
			if e.MessageID != id {
				return &refusal{http.StatusSeeOther, link("message", "id", e.MessageID)}
			}
		}
		if searched != "" {
			return &refusal{http.StatusSeeOther, f.searchPage(searched)}
		}
		return notFound("the log has no message %q", text.Clip(id, 200))
	case err != nil:
		return fmt.Errorf("the activity log cannot be read now: %w", err)
	}
	page := newMessageView(found)
	page.Within, page.Agents = within, f.decisionsOn(eventIDOf(page.Self))
	if within < maxChainRange {
		page.Wider = link("message", "id", id, "wide", "1")
	}
	r.Title, r.Page = "Message "+shortID(id), page
	return nil
}

// searchPage returns the page for a search that finds no message: the page of the only chat whose
// title or identity contains the text, or otherwise the rows that contain it. The caller must
// hold mu.
func (f *readModel) searchPage(words string) string {
	var found []string
	for id, c := range f.chats.all() {
		if text := strings.ToLower(c.Title + "\n" + id); strings.Contains(text, strings.ToLower(words)) {
			found = append(found, id)
		}
	}
	if len(found) == 1 {
		return link("chat", "id", found[0])
	}
	return link("activity", "text", words)
}

// searchRange returns how much time around a message to search. It depends on a sample of the
// traffic after the message.
func (c *Console) searchRange(ctx context.Context, id string) time.Duration {
	const some = 100
	m, err := c.log.Message(ctx, id)
	if err != nil || len(c.log.Paths()) != 1 {
		return maxChainRange
	}
	first := &m.Rows[0]
	sends := read.Filter{Events: []activitylog.Event{activitylog.SendStart}}
	rows, _, err := c.log.After(ctx, sends, read.Cursor{first.ID}, some)
	if err != nil || len(rows) < some {
		return maxChainRange
	}
	took := rows[some-1].Time().Sub(first.Time())
	return min(max(took*chainMessages/some, minChainRange), maxChainRange)
}

func newMessageView(c *chain.Chain) *messageView {
	self := c.Steps[0].Message
	v := &messageView{Self: self, Cut: c.Cut, Rows: firstN(200, self.Rows)}
	v.draw(view.NewWaterfall(c, shownDeliveries, shownDeliveries))
	return v
}

// eventIDOf returns the id that agents use for a message's event.
func eventIDOf(m *read.Message) string {
	var p struct {
		Content struct{ SourceID, EventID, InReplyTo string }
	}
	_ = json.Unmarshal(m.Payload, &p) // other payloads have no such ids
	return cmp.Or(p.Content.SourceID, p.Content.EventID, p.Content.InReplyTo, m.ID)
}

// decisionsOn returns the decisions of agents on an event.
func (f *readModel) decisionsOn(eventID string) (list []eventAt) {
	for _, a := range sortedByTime(f.agents, func(a *agent) (time.Time, string) { return time.Time{}, a.ID }) {
		if e := a.byID[eventID]; e != nil && e.Decided() {
			list = append(list, eventAt{a.ID, *e})
		}
	}
	return list
}

// A tick is one mark of the time axis.
type tick struct {
	Left   string // percent
	Label  string
	Anchor string
}

// minBarWidth is the smallest width of a bar, as a percentage of the axis.
const minBarWidth = 0.5

// draw places the bars of a waterfall on its axis.
func (v *messageView) draw(w *view.Waterfall) {
	v.Whole = w.Whole
	for _, bar := range w.Bars {
		bar.Depth = min(bar.Depth, 12)
		b := barLine{Bar: bar, Detail: bar.Note}
		if b.Kind == view.BarMessage {
			b.Detail = text.Clip(cmp.Or(recordWords(b.Type, b.Payload), view.Brief.Message(b.Payload)), maxText)
		}
		if b.Start.IsZero() {
			b.Start = b.Finish
		}
		if !b.Start.IsZero() {
			b.place(w)
		}
		v.Bars = append(v.Bars, b)
	}
	step := tickStep(v.Whole)
	for t := time.Duration(0); t <= v.Whole; t += step {
		at := 100 * float64(t) / float64(v.Whole)
		anchor := "middle"
		switch {
		case t == 0:
			anchor = "start"
		case at > 96:
			anchor = "end"
		}
		v.Ticks = append(v.Ticks, tick{Left: percents(at), Label: tickLabel(t), Anchor: anchor})
	}
}

// place computes the position of a bar. An open bar extends to the end of the axis.
func (b *barLine) place(w *view.Waterfall) {
	b.At = b.Start.Sub(w.Begin)
	left, right := 100*w.Place(b.Start), 100.0
	if !b.Open() {
		b.Took, right = b.Finish.Sub(b.Start), 100*w.Place(b.Finish)
	}
	width := max(right-left, minBarWidth)
	left = min(left, 100-width)
	b.Left, b.Width = percents(left), percents(width)
	if b.Span.Kind != "" {
		b.SpanLeft, b.SpanWidth = percents(left), percents(max(100*w.Place(b.Span.Until)-left, minBarWidth))
	}
}

func percents(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) + "%" }

// tickStep returns a round duration that fits three to seven times into whole.
func tickStep(whole time.Duration) time.Duration {
	const most = 6
	for _, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if whole < 3*unit {
			continue
		}
		for _, n := range []int{1, 2, 5, 10, 15, 20, 30} {
			if step := time.Duration(n) * unit; whole/step <= most+1 {
				return step
			}
		}
		if unit == time.Hour {
			return (whole/most + unit).Truncate(unit)
		}
	}
	raw := float64(max(whole/most, 1))
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= raw {
			return time.Duration(n * power)
		}
	}
	return time.Duration(10 * power)
}

// tickLabel returns the label of a mark.
func tickLabel(t time.Duration) string {
	switch {
	case t == 0:
		return "0"
	case t >= time.Minute:
		return view.Long(t)
	case t >= time.Second:
		return inUnit(t, time.Second) + " s"
	case t >= time.Millisecond:
		return inUnit(t, time.Millisecond) + " ms"
	}
	return inUnit(t, time.Microsecond) + " µs"
}

func inUnit(t, unit time.Duration) string {
	return strconv.FormatFloat(float64(t)/float64(unit), 'f', -1, 64)
}

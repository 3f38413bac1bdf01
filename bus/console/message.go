package console

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/protocol/text"
)

const (
	// chainWithin is how far around a message to look for causes and consequences:
	// less if more than chainMessages were sent before or after it, but never less
	// than chainLeast.
	chainWithin   = 15 * time.Minute
	chainLeast    = 30 * time.Second
	chainMessages = 2000
	chainSteps    = 150

	// shownDeliveries of the message itself; of the others only those that failed.
	shownDeliveries = 60
)

// A messageView is the page of one message.
type messageView struct {
	Self   *activitylog.Message
	Bars   []barLine
	Ticks  []tick
	Whole  time.Duration
	Cut    bool
	Within time.Duration // how far around the message the search went
	Wider  string        // link to a longer search; empty if there is none
	Rows   []activitylog.Entry
	Agents []eventAt // how agents judged it
}

// A barLine is one line of the waterfall; places and widths are percents of the axis.
type barLine struct {
	view.Bar
	Detail              string
	At, Took            time.Duration
	Left, Width         string
	SpanLeft, SpanWidth string
}

// An eventAt is an event as one agent judged it.
type eventAt struct {
	Agent string
	agentEvent
}

func (l *look) message() error {
	id := l.FormValue("id")
	if l.log == nil {
		return notFound("this bus keeps no activity log")
	}
	ctx, cancel := context.WithTimeout(l.Context(), 2*patience)
	defer cancel()
	within := chainWithin
	if l.FormValue("wide") == "" {
		within = l.reach(ctx, id)
	}
	chain, err := l.log.Chain(ctx, id, &activitylog.ChainOptions{Within: within, Limit: chainSteps})
	f := l.read()
	switch {
	case errors.Is(err, activitylog.ErrUnknownMessage), errors.Is(err, activitylog.ErrNoLog):
		for _, e := range f.judged(id) { // somebody searches a sourceId
			if e.MessageID != id {
				return &refusal{http.StatusSeeOther, link("message", "id", e.MessageID)}
			}
		}
		return notFound("the log holds no message %q", text.Clip(id, 200))
	case err != nil:
		return fmt.Errorf("the activity log cannot be read now: %w", err)
	}
	page := newMessageView(chain)
	page.Within, page.Agents = within, f.judged(eventIDOf(page.Self))
	if within < chainWithin {
		page.Wider = link("message", "id", id, "wide", "1")
	}
	l.Title, l.Page = "Message "+shortID(id), page
	return nil
}

// reach returns how far around a message to look, from a sample of how busy the bus
// was after it.
func (c *Console) reach(ctx context.Context, id string) time.Duration {
	const some = 100
	m, err := c.log.Message(ctx, id)
	if err != nil || len(c.log.Paths()) != 1 {
		return chainWithin
	}
	first := &m.Rows[0]
	rows, _, err := c.log.After(ctx, activitylog.Filter{Events: []activitylog.Event{activitylog.SendStart}}, activitylog.Cursor{first.ID}, some)
	if err != nil || len(rows) < some {
		return chainWithin
	}
	took := rows[some-1].Time().Sub(first.Time())
	return min(max(took*chainMessages/some, chainLeast), chainWithin)
}

func newMessageView(chain *activitylog.Chain) *messageView {
	self := chain.Steps[0].Message
	v := &messageView{Self: self, Cut: chain.Cut, Rows: first(200, self.Rows)}
	v.draw(view.NewWaterfall(chain, shownDeliveries, shownDeliveries))
	return v
}

// eventIDOf returns the id that agents use for the event that a message brings.
func eventIDOf(m *activitylog.Message) string {
	var p struct {
		Content struct{ SourceID, EventID, InReplyTo string }
	}
	_ = json.Unmarshal(m.Payload, &p) // another shape has no such ids
	return cmp.Or(p.Content.SourceID, p.Content.EventID, p.Content.InReplyTo, m.ID)
}

// judged returns how agents judged an event.
func (f *facts) judged(eventID string) (list []eventAt) {
	for _, a := range newest(&f.agents, func(a *agent) (time.Time, string) { return time.Time{}, a.ID }) {
		if e := a.byID[eventID]; e != nil && e.Decided() {
			list = append(list, eventAt{a.ID, *e})
		}
	}
	return list
}

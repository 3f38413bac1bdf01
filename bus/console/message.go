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
	Now     time.Time
	Self    *activitylog.Message
	Status  string
	Begin   time.Time
	Took    time.Duration
	Bars    []barLine
	Ticks   []tick
	Whole   time.Duration
	Cut     bool
	Within  time.Duration // how far around the message the search went
	Wider   string        // link to a longer search; empty if there is none
	Rows    []activitylog.Entry
	EventID string
	Agents  []eventAt // how agents judged it
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

func (c *Console) messagePage(w http.ResponseWriter, r *http.Request, v *visitor) {
	id := r.FormValue("id")
	if c.log == nil {
		c.refuse(w, r, http.StatusNotFound, errors.New("this bus keeps no activity log"))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 2*patience)
	defer cancel()
	within := c.reach(ctx, id)
	wide := r.FormValue("wide") != ""
	if wide {
		within = chainWithin
	}
	chain, err := c.log.Chain(ctx, id, &activitylog.ChainOptions{Within: within, Limit: chainSteps})
	switch {
	case errors.Is(err, activitylog.ErrUnknownMessage), errors.Is(err, activitylog.ErrNoLog):
		if brought := c.broughtBy(r.Context(), id); brought != "" {
			http.Redirect(w, r, link("message", "id", brought), http.StatusSeeOther)
			return
		}
		c.refuse(w, r, http.StatusNotFound, fmt.Errorf("the log holds no message %q", text.Clip(id, 200)))
		return
	case err != nil:
		c.broken(w, r, err)
		return
	}
	page := newMessageView(chain)
	page.Now, page.Within = c.now(), within
	if within < chainWithin {
		page.Wider = link("message", "id", id, "wide", "1")
	}
	c.current(r.Context())
	c.facts.mu.RLock()
	page.Agents = c.facts.judged(page.EventID)
	c.facts.mu.RUnlock()
	c.show(w, v, "message", "Message "+shortID(id), page)
}

// broughtBy returns the message that brought an event to an agent, for those who
// search a sourceId; empty if it is forgotten.
func (c *Console) broughtBy(ctx context.Context, event string) string {
	c.current(ctx)
	c.facts.mu.RLock()
	defer c.facts.mu.RUnlock()
	for _, e := range c.facts.judged(event) {
		if e.MessageID != event {
			return e.MessageID
		}
	}
	return ""
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
	v := &messageView{Self: self, Cut: chain.Cut, Rows: self.Rows, Begin: self.Begin(), Took: self.End().Sub(self.Begin()), EventID: eventIDOf(self)}
	if len(v.Rows) > 200 {
		v.Rows = v.Rows[:200]
	}
	v.Status = self.Status()
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
	for _, a := range f.agents.sorted() {
		if e := a.byID[eventID]; e != nil && e.Decided() {
			list = append(list, eventAt{a.ID, *e})
		}
	}
	return list
}

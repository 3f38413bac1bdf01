package turns

import (
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
)

// A group is a run of held events that become one turn: fragments of one author in
// one place, or a single knock.
type group struct {
	events []*mailbox.Entry
	due    time.Time
}

// groupHeld cuts held events, which are in order, into groups. A fragment joins the
// one before it if it came within the window after it and within the cap after the
// first. An immediate event makes its group due at once.
func groupHeld(held []*mailbox.Entry, window, limit time.Duration) []*group {
	var groups []*group
	last := map[string]*group{}
	for _, e := range held {
		key := string(e.Chat) + "\x00" + e.Place() + "\x00" + e.Content.Author.ID
		mode := e.Decision.Injection
		g := last[key]
		if g == nil || mode == attention.ModeNotify || !g.takes(e, window, limit) {
			g = &group{}
			groups = append(groups, g)
			last[key] = g
		}
		g.events = append(g.events, e)
		g.due = e.Received.Add(window)
		if latest := g.events[0].Received.Add(limit); latest.Before(g.due) {
			g.due = latest
		}
		if mode == attention.ModeImmediate || mode == attention.ModeNotify {
			g.due = e.Received
		}
	}
	return groups
}

func (g *group) takes(e *mailbox.Entry, window, limit time.Duration) bool {
	first, last := g.events[0], g.events[len(g.events)-1]
	return last.Mergeable() && e.Mergeable() && e.Received.Sub(last.Received) <= window && e.Received.Sub(first.Received) <= limit
}

// compose makes turns of the held events whose window has passed. Fragments join the
// turn that runs, or waits to run, over the ones before them, as long as that has sent
// nothing.
func (r *round) compose() {
	now := time.Now()
	for _, g := range groupHeld(r.InState(mailbox.Held, 2000), r.opts.ComposeWindow, r.opts.ComposeCap) {
		first, last := g.events[0], g.events[len(g.events)-1]
		joins := first.Mergeable() && r.caps.Injection.Interrupt && !r.opts.OwnTime
		waits := g.due.After(now)
		if waits {
			r.due(g.due)
		}
		if waits && !joins {
			continue
		}
		r.inTx("composing a turn over "+last.EventID, func(tx *mailbox.Tx) {
			joined := joins && tx.Extend(g.events, last.Received.Add(-r.opts.ComposeCap), g.due)
			if !joined && !waits {
				tx.Compose(g.events)
			}
		})
	}
}

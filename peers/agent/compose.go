package agent

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"

	"github.com/oklog/ulid/v2"
)

// A group is a run of held events that become one turn: fragments of one
// author in one place, or a single knock.
type group struct {
	events []*entry
	due    time.Time
}

// groupHeld cuts held events, which are in order, into groups. A fragment
// joins the one before it when it came within the window after it and within
// the cap after the first. An immediate event makes its group due at once. It
// is pure.
func groupHeld(held []*entry, window, limit time.Duration) []*group {
	var groups []*group
	last := map[string]*group{}
	for _, e := range held {
		key := string(e.Chat) + "\x00" + e.place() + "\x00" + e.Content.Author.ID
		g := last[key]
		if g == nil || e.Decision.Injection == attention.ModeNotify || !g.takes(e, window, limit) {
			g = &group{}
			groups = append(groups, g)
			last[key] = g
		}
		g.events = append(g.events, e)
		first := g.events[0].Received
		g.due = earlier(e.Received.Add(window), first.Add(limit))
		if at := g.events[len(g.events)-1].Decision.Injection; at == attention.ModeImmediate || at == attention.ModeNotify {
			g.due = e.Received
		}
	}
	return groups
}

func (g *group) takes(e *entry, window, limit time.Duration) bool {
	first, last := g.events[0], g.events[len(g.events)-1]
	return mergeable(last) && mergeable(e) && e.Received.Sub(last.Received) <= window && e.Received.Sub(first.Received) <= limit
}

// mergeable: messages merge; knocks, edits, work and requests to leave stand
// alone, and so does what follows an event that was passed at once.
func mergeable(e *entry) bool {
	switch e.Decision.Action {
	case attention.ActionLeave:
		return false
	}
	return e.Decision.Injection.Injects() && e.Content.Event == "message"
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// compose makes turns of the held events whose window has passed, and returns
// when the next one does.
func (a *Agent) compose(ctx context.Context, caps harness.Capabilities) (next time.Time, err error) {
	held, err := entries(ctx, a.db, `WHERE stage = ? ORDER BY seq LIMIT 2000`, stageHeld)
	if err != nil {
		return next, err
	}
	now := time.Now()
	for _, g := range groupHeld(held, a.opts.ComposeWindow, a.opts.ComposeCap) {
		joined, err := a.joinRunning(ctx, g, caps)
		if err != nil {
			return next, err
		}
		switch {
		case joined:
		case g.due.After(now):
			next = soonest(next, g.due)
		default:
			if err := a.makeTurn(ctx, g); err != nil {
				return next, err
			}
		}
	}
	return next, nil
}

func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// makeTurn queues the turn of a group. All fragments but the last end
// superseded: the last one carries them.
func (a *Agent) makeTurn(ctx context.Context, g *group) error {
	return a.inTx(ctx, func(tx *sql.Tx) error {
		live, err := a.stillHeld(ctx, tx, g.events)
		if err != nil || len(live) == 0 {
			return err
		}
		first, last := live[0], live[len(live)-1]
		home, err := a.homeOf(ctx, tx, last)
		if err != nil {
			return err
		}
		t := &turn{
			ID: "turn_" + ulid.Make().String(), Chat: home, Place: last.place(), Author: last.Content.Author.ID,
			Mode: last.Decision.Injection, State: turnQueued, Rank: rankOf(live), FirstAt: first.Received,
		}
		return a.fillTurn(ctx, tx, t, live)
	})
}

// stillHeld reads the events anew: an edit or a deletion may have come between.
func (a *Agent) stillHeld(ctx context.Context, tx *sql.Tx, list []*entry) ([]*entry, error) {
	var live []*entry
	for _, e := range list {
		fresh, err := entryByID(ctx, tx, e.EventID)
		if err != nil {
			return nil, err
		}
		if fresh != nil && fresh.Stage == stageHeld {
			live = append(live, fresh)
		}
	}
	return live, nil
}

// fillTurn adds events to a turn, which carries their last one from now on.
func (a *Agent) fillTurn(ctx context.Context, tx *sql.Tx, t *turn, more []*entry) error {
	last := more[len(more)-1]
	before := t.EventID
	for _, e := range more {
		t.Merged = append(t.Merged, e.EventID)
	}
	t.EventID, t.Seq = last.EventID, last.Seq
	if err := saveTurn(ctx, tx, t); err != nil {
		return err
	}
	if before != "" {
		old, err := entryByID(ctx, tx, before)
		if err != nil {
			return err
		}
		if old != nil {
			more = append([]*entry{old}, more...)
		}
	}
	for _, e := range more {
		carrier := last.EventID
		if e.EventID == last.EventID {
			carrier = ""
		}
		_, err := tx.ExecContext(ctx, `UPDATE events SET stage = ?, turn_id = ?, merged_into = ?, deadline_at = 0 WHERE seq = ?`,
			stageTurned, t.ID, carrier, e.Seq)
		if err != nil {
			return fmt.Errorf("storing the turn of %s: %w", e.EventID, err)
		}
		if carrier != "" {
			if err := a.dispose(ctx, tx, e, attention.DispositionSuperseded, "merged into "+carrier); err != nil {
				return err
			}
		}
	}
	return nil
}

func rankOf(list []*entry) int {
	rank := rankNormal
	for _, e := range list {
		switch {
		case e.Decision.Priority == attention.PriorityUrgent && e.Decision.Injection == attention.ModeImmediate:
			return rankUrgent
		case e.Decision.Injection == attention.ModeImmediate:
			rank = rankImmediate
		}
	}
	return rank
}

// joinRunning merges fragments into the turn that runs, or waits to run, over
// the ones before them, as long as that has sent nothing: it is stopped and
// begun anew once the window has passed.
func (a *Agent) joinRunning(ctx context.Context, g *group, caps harness.Capabilities) (bool, error) {
	first, last := g.events[0], g.events[len(g.events)-1]
	if !mergeable(first) || !caps.Injection.Interrupt || a.ownTime() {
		return false, nil
	}
	joined := false
	err := a.inTx(ctx, func(tx *sql.Tx) error {
		list, err := turns(ctx, tx, `WHERE chat = ? AND place = ? AND author = ? AND state IN ('queued','running','withdrawn')
			AND outbound = 0 AND mode IN ('immediate','buffered') AND first_at >= ? ORDER BY seq DESC LIMIT 1`,
			last.Chat, last.place(), last.Content.Author.ID, last.Received.Add(-a.opts.ComposeCap).UnixMicro())
		if err != nil || len(list) == 0 {
			return err
		}
		t := list[0]
		carrier, err := entryByID(ctx, tx, t.EventID)
		if err != nil || carrier == nil || !mergeable(carrier) || carrier.Acted || carrier.Decision.Reason == "claim_granted" {
			return err
		}
		live, err := a.stillHeld(ctx, tx, g.events)
		if err != nil || len(live) == 0 {
			return err
		}
		joined = true
		if t.State == turnRunning {
			t.State = turnWithdrawn
			a.poke()
			if err := a.recordTurn(ctx, tx, t, "interrupted", "a fragment came before an answer", nil); err != nil {
				return err
			}
		}
		t.NotBefore, t.Rank, t.Mode = g.due, min(t.Rank, rankOf(live)), live[len(live)-1].Decision.Injection
		return a.fillTurn(ctx, tx, t, live)
	})
	return joined, err
}

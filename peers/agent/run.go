package agent

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
)

// errDeadline is the cause with which a turn ends that took too long.
var errDeadline = errors.New("the deadline has passed")

// A run is a turn in the hands of the harness.
type run struct {
	place    string // held while the turn runs; empty: none
	cancel   context.CancelCauseFunc
	accepted bool // a program has it; its place is free for others
}

// startTurns starts what is due and has its place free, the most pressing
// first, and returns when the next turn is due.
func (a *Agent) startTurns(ctx, work context.Context, caps harness.Capabilities, wg *sync.WaitGroup) (next time.Time, err error) {
	list, err := turns(ctx, a.db, `WHERE state = 'queued' ORDER BY rank, seq LIMIT 500`)
	if err != nil {
		return next, err
	}
	now := time.Now()
	for _, t := range list {
		switch {
		case t.NotBefore.After(now):
			next = soonest(next, t.NotBefore)
			continue
		case a.busyTurns() >= a.parallel() && t.Rank != rankUrgent:
			continue // a turn that ends pokes the loop
		}
		if holder := a.holderOf(t.Place); holder != "" {
			if t.Rank == rankUrgent && caps.Injection.Interrupt {
				if err := a.preempt(ctx, holder); err != nil {
					return next, err
				}
			}
			continue
		}
		if err := a.startTurn(ctx, work, t, caps, wg); err != nil {
			return next, err
		}
	}
	return next, nil
}

// preempt stops a running turn that has sent nothing, for an urgent one; it
// runs again afterwards.
func (a *Agent) preempt(ctx context.Context, id string) error {
	return a.inTx(ctx, func(tx *sql.Tx) error {
		t, err := turnByID(ctx, tx, id)
		if err != nil || t == nil || t.State != turnRunning || t.Outbound || t.Rank == rankUrgent {
			return err
		}
		t.State = turnWithdrawn
		if err := saveTurn(ctx, tx, t); err != nil {
			return err
		}
		a.poke()
		return a.recordTurn(ctx, tx, t, "interrupted", "something urgent came", nil)
	})
}

// startTurn marks a turn as running, durably, and hands it to the harness.
func (a *Agent) startTurn(ctx, work context.Context, t *turn, caps harness.Capabilities, wg *sync.WaitGroup) error {
	var ht *harness.Turn
	err := a.inTx(ctx, func(tx *sql.Tx) error {
		fresh, err := turnByID(ctx, tx, t.ID)
		if err != nil || fresh == nil || fresh.State != turnQueued {
			return err
		}
		*t = *fresh
		t.State, t.Attempt, t.StartedAt = turnRunning, t.Attempt+1, time.Now()
		if t.Failures == 0 || t.DeadlineAt.IsZero() { // one deadline for all tries of a turn that fails
			t.DeadlineAt = t.StartedAt.Add(a.opts.Deadline)
		}
		if ht, err = a.harnessTurn(ctx, tx, t, caps); err != nil || ht == nil {
			return err
		}
		if err := saveTurn(ctx, tx, t); err != nil {
			return err
		}
		if err := a.tellFlight(ctx, tx, t); err != nil {
			return err
		}
		return a.recordTurn(ctx, tx, t, "started", "", nil)
	})
	if err != nil || ht == nil {
		return err
	}
	a.opts.crash("started")
	turnCtx, cancel := context.WithCancelCause(work)
	r := &run{place: t.Place, cancel: cancel}
	var after <-chan struct{}
	entered := func() {}
	if a.ownTime() {
		r.place = "" // the program takes several of one place, in their order
		after, entered = a.lineUp(t.Place)
	}
	a.addRun(t.ID, r)
	select {
	case a.begun <- struct{}{}:
	default:
	}
	wg.Go(func() {
		defer a.poke()
		defer cancel(nil)
		defer entered()
		a.runTurn(turnCtx, t, ht, a.opts.attentionConfig(caps).Version, after, entered)
	})
	return nil
}

// lineUp gives a turn its place behind the turn of the same place before it: it
// waits until after is closed (nil: for nothing), and calls entered, as often as it
// likes, once the harness delivers it or it has ended.
func (a *Agent) lineUp(place string) (after <-chan struct{}, entered func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	mine := make(chan struct{})
	after = a.entering[place]
	a.entering[place] = mine
	return after, sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.entering[place] == mine {
			delete(a.entering, place)
		}
		close(mine)
	})
}

// runTurn lets the harness work on a turn and settles what comes of it.
func (a *Agent) runTurn(ctx context.Context, t *turn, ht *harness.Turn, v attention.Version, after <-chan struct{}, entered func()) {
	ctx, cancel := context.WithDeadlineCause(ctx, t.DeadlineAt, errDeadline)
	defer cancel()
	box := &toolbox{a: a, turnID: t.ID, chat: t.chatOf(), attempt: t.Attempt}
	ht.Attempted = func(attempt int) error {
		box.setAttempt(attempt)
		defer entered()
		return a.noteAttempt(ctx, t, attempt)
	}
	a.refreshContract(ctx, ht, v)
	if after != nil {
		select {
		case <-after:
		case <-ctx.Done():
		}
	}
	outcome, err := a.harness.Turn(ctx, ht, box)
	a.opts.crash("returned")
	if err == nil && outcome.State == harness.Accepted {
		a.acceptRun(t.ID)
	}
	for try := 1; ; try++ { // until it is stored: nothing may be forgotten
		stored := a.settleTurn(context.WithoutCancel(ctx), t.ID, box, outcome, err)
		if stored == nil {
			break
		}
		a.opts.Log.Error().Err(stored).Str("turn", t.ID).Msg("the end of a turn cannot be stored; trying again")
		if errors.Is(context.Cause(ctx), errStopping) || !sleep(context.WithoutCancel(ctx), time.Second) || try > 60 {
			break // the next start takes it up
		}
	}
	if err != nil || outcome.State != harness.Accepted {
		a.removeRun(t.ID)
	}
}

// noteAttempt stores that a harness delivers a turn once more.
func (a *Agent) noteAttempt(ctx context.Context, t *turn, attempt int) error {
	if attempt <= t.Attempt {
		return nil
	}
	return a.inTx(context.WithoutCancel(ctx), func(tx *sql.Tx) error {
		fresh, err := turnByID(ctx, tx, t.ID)
		if err != nil || fresh == nil || fresh.Attempt >= attempt {
			return err
		}
		fresh.Attempt, t.Attempt = attempt, attempt
		if err := saveTurn(ctx, tx, fresh); err != nil {
			return err
		}
		return a.recordTurn(ctx, tx, fresh, "started", "delivered again", nil)
	})
}

func (a *Agent) addRun(id string, r *run) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[id] = r
}

func (a *Agent) removeRun(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, id)
}

func (a *Agent) acceptRun(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.running[id]; r != nil {
		r.accepted = true
	}
}

// forgetAccepted forgets a turn that a program has and that is finished. One
// that a goroutine is at is left to it.
func (a *Agent) forgetAccepted(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r := a.running[id]; r != nil && r.accepted {
		delete(a.running, id)
	}
}

// stopRun ends the context of a running turn, or withdraws an accepted one. It
// reports whether a goroutine is still at it.
func (a *Agent) stopRun(id string, why error) bool {
	a.mu.Lock()
	r := a.running[id]
	if r != nil && r.accepted {
		delete(a.running, id)
	}
	a.mu.Unlock()
	switch {
	case r == nil:
		return false
	case r.accepted:
		a.harness.Cancel(id, why.Error())
		return false
	}
	r.cancel(why)
	return true
}

func (a *Agent) runningIDs() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	ids := make([]string, 0, len(a.running))
	for id := range a.running {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// busyTurns counts the turns that a goroutine is at.
func (a *Agent) busyTurns() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, r := range a.running {
		if !r.accepted {
			n++
		}
	}
	return n
}

// holderOf returns the turn that a goroutine is at in a place.
func (a *Agent) holderOf(place string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, r := range a.running {
		if r.place == place && !r.accepted {
			return id
		}
	}
	return ""
}

// ownTime reports whether the harness stores deliveries and works on them in
// its own time: then several of one place may be with it at once.
func (a *Agent) ownTime() bool { return a.traits.OwnTime }

func (a *Agent) parallel() int {
	if a.ownTime() {
		return max(a.opts.Parallel, 64)
	}
	return a.opts.Parallel
}

// replyExpected reports whether a person waits for an answer of a turn.
func replyExpected(d *attention.Decision) bool {
	return d.Policy == attention.PolicyMustRespond || d.Reason == "claim_granted"
}

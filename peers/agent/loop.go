package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
)

// mailboxLoop takes events from the mailbox to turns until ctx ends, and waits
// for the turns that it started, whose contexts end with work. It is the only
// goroutine that decides, composes and starts turns.
func (a *Agent) mailboxLoop(ctx, work context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	housekeeping := time.Now()
	for {
		next, err := a.round(ctx, work, &wg)
		if err == nil && !time.Now().Before(housekeeping) {
			housekeeping = time.Now().Add(time.Hour)
			err = a.prune(ctx)
		}
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, harness.ErrPermanent) {
			return err
		}
		if err != nil {
			a.opts.Log.Error().Err(err).Msg("the mailbox could not be worked through; trying again")
			next = soonest(next, time.Now().Add(time.Second))
		}
		if !a.await(ctx, soonest(next, housekeeping)) {
			return nil
		}
	}
}

// await blocks until something may be due; it reports false when ctx ended.
func (a *Agent) await(ctx context.Context, next time.Time) bool {
	timer := time.NewTimer(time.Until(next))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-a.wake:
	case <-timer.C:
	}
	return true
}

// round does everything that is due, and returns when the next thing is.
func (a *Agent) round(ctx, work context.Context, wg *sync.WaitGroup) (next time.Time, err error) {
	if err := a.stopEnded(ctx); err != nil {
		return next, err
	}
	next, err = a.passDeadlines(ctx)
	if err != nil {
		return next, err
	}
	caps, ok, err := a.capabilities(ctx)
	if err != nil {
		return next, err
	}
	if !ok { // until the harness is initialized, events wait
		return soonest(next, time.Now().Add(250*time.Millisecond)), a.giveUpWaiting(ctx)
	}
	a.downSince = time.Time{}
	for more := true; more; {
		if more, err = a.decideStored(ctx, caps); err != nil {
			return next, err
		}
	}
	if err := a.stopEnded(ctx); err != nil {
		return next, err
	}
	for _, step := range []func(context.Context, harness.Capabilities) (time.Time, error){a.compose, a.digestDue} {
		due, err := step(ctx, caps)
		if err != nil {
			return next, err
		}
		next = soonest(next, due)
	}
	due, err := a.startTurns(ctx, work, caps, wg)
	return soonest(next, due), err
}

// capabilities asks the harness what it takes; ok is false while it is not
// initialized.
func (a *Agent) capabilities(ctx context.Context) (caps harness.Capabilities, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	caps, err = a.harness.Capabilities(ctx)
	switch {
	case err == nil:
		return caps, true, nil
	case errors.Is(err, harness.ErrPermanent):
		return caps, false, err
	}
	return caps, false, nil
}

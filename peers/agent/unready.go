package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/agent/harness"
)

// errUnready is why an event ends that its harness was never there for.
var errUnready = errors.New("the harness was not ready in time")

// giveUpWaiting ends what has waited for the harness as long as an answer may
// take, events and turns: whoever was owed an answer is told. The time before this
// program ran does not count, nor does that before the harness went away.
func (a *Agent) giveUpWaiting(ctx context.Context) error {
	now := time.Now()
	if a.downSince.IsZero() {
		a.downSince = now
	}
	if now.Sub(a.downSince) < a.opts.Deadline {
		return nil
	}
	before := now.Add(-a.opts.Deadline).UnixMicro()
	list, err := entries(ctx, a.db, `WHERE stage IN (?, ?) AND received_at <= ? ORDER BY seq LIMIT 100`, stageStored, stageHeld, before)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := a.inTx(ctx, func(tx *sql.Tx) error { return a.endUnready(ctx, tx, e.EventID) }); err != nil {
			return fmt.Errorf("ending %s, for which the harness was not ready: %w", e.EventID, err)
		}
	}
	waiting, err := turns(ctx, a.db, `WHERE state = 'queued' AND max(first_at, not_before) <= ? ORDER BY seq LIMIT 100`, before)
	if err != nil {
		return err
	}
	for _, t := range waiting {
		if err := a.failTurn(ctx, t.ID, turnQueued, errUnready); err != nil {
			return fmt.Errorf("ending the turn %s, for which the harness was not ready: %w", t.ID, err)
		}
	}
	return nil
}

// endUnready ends one event. Where nothing was decided on it, the decision is that
// for a harness which takes everything.
func (a *Agent) endUnready(ctx context.Context, tx *sql.Tx, id string) error {
	e, err := entryByID(ctx, tx, id)
	if err != nil || e == nil || e.Stage != stageStored && e.Stage != stageHeld {
		return err
	}
	if e.Stage == stageStored {
		if err := a.decide(ctx, tx, e, harness.Capabilities{Injection: harness.AllInjection}); err != nil {
			return err
		}
	}
	if !e.open() {
		return nil
	}
	return a.fail(ctx, tx, e, errUnready.Error())
}

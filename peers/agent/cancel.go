package agent

import (
	"context"
	"database/sql"
	"fmt"

	"hubbub/peers/attention"
)

// A withdrawal is the cause with which a running turn ends because of
// something that happened in its chat.
type withdrawal struct{ reason string }

func (w withdrawal) Error() string { return w.reason }

// reopenTurn makes the turn of an event, which has sent nothing, begin anew: a
// queued one shows the newest text anyway, a running one is stopped first.
func (a *Agent) reopenTurn(ctx context.Context, tx *sql.Tx, e *entry, reason string) error {
	t, err := turnByID(ctx, tx, e.TurnID)
	if err != nil || t == nil || t.State != turnRunning && t.State != turnAccepted {
		return err
	}
	t.State = turnWithdrawn
	if err := saveTurn(ctx, tx, t); err != nil {
		return err
	}
	return a.recordTurn(ctx, tx, t, "interrupted", reason, nil)
}

// cancelTurn ends a turn for good. What runs of it is stopped by the mailbox
// loop, and its tools are refused from now on.
func (a *Agent) cancelTurn(ctx context.Context, tx *sql.Tx, t *turn, reason string) error {
	if t.ended() {
		return nil
	}
	if _, err := tx.ExecContext(ctx, `UPDATE turns SET body = ? WHERE turn_id = ? AND body = ''`, reason, t.ID); err != nil {
		return fmt.Errorf("storing why turn %s ends: %w", t.ID, err)
	}
	t.Body = reason
	return a.endTurn(ctx, tx, t, turnCancelled, reason, nil)
}

// cancelPlace stops what runs or waits in the place of a stop word, and
// supersedes it, also what was deferred; an agent's stop word stops only what
// that agent began. What is still in the compose window goes to the model
// together with the stop word.
func (a *Agent) cancelPlace(ctx context.Context, tx *sql.Tx, stop *entry) error {
	author := stop.Content.Author
	list, err := turns(ctx, tx, `WHERE place = ?1 AND (author = ?2 OR ?3 = 'human') AND chat = ?4 AND state IN ('queued','running','accepted','withdrawn')
		AND mode IN ('immediate','buffered')`, stop.place(), author.ID, author.Kind, stop.Chat)
	if err != nil {
		return err
	}
	for _, t := range list {
		e, err := entryByID(ctx, tx, t.EventID)
		if err != nil {
			return err
		}
		if err := a.cancelTurn(ctx, tx, t, "stopped on request"); err != nil {
			return err
		}
		if e == nil || !e.open() {
			continue
		}
		if e.Replied { // the answer is on its way: it counts
			continue
		}
		if err := a.dispose(ctx, tx, e, attention.DispositionSuperseded, "stopped on request"); err != nil {
			return err
		}
	}
	return a.forgetDeferred(ctx, tx, stop)
}

// stopEnded stops the running turns that the mailbox no longer wants: their
// state in the database says why.
func (a *Agent) stopEnded(ctx context.Context) error {
	list, err := turns(ctx, a.db, `WHERE state = 'withdrawn'`)
	if err != nil {
		return err
	}
	for _, t := range list {
		if a.stopRun(t.ID, withdrawal{"the message was edited, deleted or continued before a response"}) {
			continue // its goroutine queues it again
		}
		if err := a.requeue(ctx, t.ID, turnWithdrawn); err != nil {
			return err
		}
	}
	for _, id := range a.runningIDs() {
		t, err := turnByID(ctx, a.db, id)
		if err != nil {
			return err
		}
		switch {
		case t == nil || t.State == turnFinished:
			a.forgetAccepted(id)
		case t.ended():
			a.stopRun(id, withdrawal{t.Body})
		}
	}
	return nil
}

// requeue puts a turn back that is in a given state.
func (a *Agent) requeue(ctx context.Context, id string, from turnState) error {
	_, err := a.db.ExecContext(ctx, `UPDATE turns SET state = 'queued' WHERE turn_id = ? AND state = ?`, id, from)
	if err != nil {
		return fmt.Errorf("queueing turn %s again: %w", id, err)
	}
	return nil
}

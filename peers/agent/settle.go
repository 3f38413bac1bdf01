package agent

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// settleTurn stores what came of a run of the harness.
func (a *Agent) settleTurn(ctx context.Context, id string, box *toolbox, outcome harness.Outcome, failure error) error {
	return a.inTx(ctx, func(tx *sql.Tx) error {
		t, err := turnByID(ctx, tx, id)
		if err != nil || t == nil || t.ended() {
			return err
		}
		if t.State == turnWithdrawn {
			t.State, t.DeadlineAt = turnQueued, time.Time{}
			return saveTurn(ctx, tx, t)
		}
		e, err := entryByID(ctx, tx, t.EventID)
		if err != nil {
			return err
		}
		switch {
		case failure != nil:
			return a.settleFailure(ctx, tx, t, e, failure)
		case outcome.State == harness.Accepted:
			return a.settleAccepted(ctx, tx, t, e)
		}
		return a.settleFinished(ctx, tx, t, e, box, outcome)
	})
}

// settleAccepted keeps a turn open that a program works on in its own time,
// unless it has already done what ends a turn.
func (a *Agent) settleAccepted(ctx context.Context, tx *sql.Tx, t *turn, e *entry) error {
	if endsTurn(e) || e != nil && e.Decision.Policy == attention.PolicyMustNotRespond {
		return a.finish(ctx, tx, t, e, "", nil)
	}
	t.State = turnAccepted
	if err := saveTurn(ctx, tx, t); err != nil {
		return err
	}
	return a.recordTurn(ctx, tx, t, "accepted", "", nil)
}

// endsTurn reports whether what was done about an event ends its turn.
func endsTurn(e *entry) bool {
	return e == nil || e.Replied || !e.open() || e.Disposition == attention.DispositionDeferred
}

// settleFinished ends a turn whose model has ended it. Text that ends a turn
// which owes an answer and sent none is the answer.
func (a *Agent) settleFinished(ctx context.Context, tx *sql.Tx, t *turn, e *entry, box *toolbox, outcome harness.Outcome) error {
	if e != nil && e.open() && !e.Replied && e.Decision.Policy == attention.PolicyMustRespond &&
		e.Disposition != attention.DispositionDeferred && !attention.MeansSilence(outcome.FinalText) {
		text := outcome.FinalText
		if outcome.Truncated {
			text += "\n\n[Cut here: the model's answer was as long as it may be.]"
		}
		if err := a.sendFinalText(ctx, tx, t, e, text); err != nil {
			return err
		}
	}
	if signal := box.pendingSignal(); e != nil && e.open() && !e.Replied && signal != "" {
		if err := a.dispose(ctx, tx, e, attention.DispositionAcknowledged, "signal "+signal); err != nil {
			return err
		}
	}
	return a.finish(ctx, tx, t, e, "", func(r *turnRecord) {
		u := outcome.Usage
		r.Model, r.InputTokens, r.OutputTokens, r.ToolCalls = u.Model, u.InputTokens, u.OutputTokens, u.ToolCalls
	})
}

func (a *Agent) sendFinalText(ctx context.Context, tx *sql.Tx, t *turn, e *entry, text string) error {
	standing, err := a.standing(ctx, tx, e, text)
	if err != nil {
		return err
	}
	if r := attention.PermitMessage(standing); r.Refused() {
		return a.recordAbout(ctx, tx, uniqueKey("refusal", e.Seq), e, protocol.Refusal{
			Event: "refusal", EventID: e.EventID, Agent: a.id, Tool: "final_text", Reason: r.Reason,
		})
	}
	_, err = a.queueReply(ctx, tx, e, "text", replyKey(e), protocol.ChatReply{
		Text: fitReply(text), Visibility: visibilityOf(e), Directedness: string(attention.DirectedAmbient),
	})
	t.Outbound = true
	return err
}

// fitReply cuts a final text to what one message may hold, and says so: nobody
// is left to shorten it.
func fitReply(text string) string {
	if len(text) <= maxReply {
		return text
	}
	const note = "\n\n[The rest was too long for a message.]"
	return strings.ToValidUTF8(text[:maxReply-len(note)], "") + note
}

// finish ends a turn well and gives its event the disposition that is due.
func (a *Agent) finish(ctx context.Context, tx *sql.Tx, t *turn, e *entry, reason string, more func(*turnRecord)) error {
	duration := time.Since(t.StartedAt).Milliseconds()
	err := a.endTurn(ctx, tx, t, turnFinished, reason, func(r *turnRecord) {
		r.DurationMS = duration
		if more != nil {
			more(r)
		}
	})
	if err != nil || e == nil || endsTurn(e) {
		return err
	}
	switch {
	case !e.DeadlineAt.IsZero(): // another agent has it; it may be offered again
		return nil
	case e.Disposition == attention.DispositionClaimed && t.Mode != attention.ModeNotify && e.Decision.Reason == "claim_granted" && !e.Acted:
		return a.dispose(ctx, tx, e, attention.DispositionIgnored, "claimed, and not answered")
	case e.Disposition == attention.DispositionClaimed:
		return a.watchClaimed(ctx, tx, t, e)
	case e.Decision.Policy == attention.PolicyMustRespond:
		return a.fail(ctx, tx, e, "the turn ended without an answer")
	case e.Decision.Policy == attention.PolicyAckOnly:
		return a.dispose(ctx, tx, e, attention.DispositionAcknowledged, "seen")
	}
	return a.dispose(ctx, tx, e, attention.DispositionIgnored, "no answer was needed")
}

// watchClaimed gives a claimed event that no other turn will take up a
// deadline: a promise must end.
func (a *Agent) watchClaimed(ctx context.Context, tx *sql.Tx, t *turn, e *entry) error {
	_, err := tx.ExecContext(ctx, `UPDATE events SET deadline_at = ?1 WHERE seq = ?2
		AND NOT EXISTS (SELECT 1 FROM turns WHERE event_id = ?3 AND turn_id <> ?4 AND state IN ('queued','running','accepted','withdrawn'))`,
		time.Now().Add(a.opts.Deadline).UnixMicro(), e.Seq, e.EventID, t.ID)
	if err != nil {
		return fmt.Errorf("storing the deadline of %s: %w", e.EventID, err)
	}
	return nil
}

// settleFailure decides what follows from a turn that did not end well: again,
// later, or not at all. A turn that sent something is never run again.
func (a *Agent) settleFailure(ctx context.Context, tx *sql.Tx, t *turn, e *entry, failure error) error {
	acted := t.Outbound || e != nil && (e.Acted || endsTurn(e))
	if !acted && errors.Is(failure, harness.ErrMode) {
		return a.decideAgain(ctx, tx, t, e)
	}
	again := a.retryAt(t, failure)
	stopped := errors.Is(failure, errStopping) || errors.Is(failure, harness.ErrStopped) || errors.Is(failure, context.Canceled)
	switch {
	case !acted && stopped:
		t.State, t.DeadlineAt = turnQueued, time.Time{}
		return errors.Join(saveTurn(ctx, tx, t), a.recordTurn(ctx, tx, t, "interrupted", "the agent stopped", nil))
	case !acted && errors.Is(failure, harness.ErrTemporary) && t.Failures+1 < a.opts.MaxTries && again.Before(t.DeadlineAt):
		t.State, t.Failures, t.NotBefore = turnQueued, t.Failures+1, again
		return errors.Join(saveTurn(ctx, tx, t), a.recordTurn(ctx, tx, t, "interrupted", cut(failure.Error(), 500), nil))
	}
	reason := cut(failure.Error(), 500)
	if err := a.endTurn(ctx, tx, t, turnFailed, reason, nil); err != nil {
		return err
	}
	if e == nil || e.Replied || !e.open() || e.Disposition == attention.DispositionDeferred {
		return nil
	}
	if stopped {
		reason = "the agent stopped after the turn had acted"
	}
	if errors.Is(failure, harness.ErrUnreached) {
		return a.failTelling(ctx, tx, e, reason, a.id.Name()+" could not be reached, so this message was not delivered to it.")
	}
	return a.fail(ctx, tx, e, reason)
}

// failTurn settles a failure of a turn that no goroutine is at, if it is still in
// that state.
func (a *Agent) failTurn(ctx context.Context, id string, in turnState, failure error) error {
	return a.inTx(ctx, func(tx *sql.Tx) error {
		t, err := turnByID(ctx, tx, id)
		if err != nil || t == nil || t.State != in {
			return err
		}
		e, err := entryByID(ctx, tx, t.EventID)
		if err != nil {
			return err
		}
		return a.settleFailure(ctx, tx, t, e, failure)
	})
}

// retryAt is when a turn that failed for now may run again: after a pause that
// doubles, and no sooner than whoever failed it wants to be asked.
func (a *Agent) retryAt(t *turn, failure error) time.Time {
	pause := a.opts.FirstRetry << t.Failures
	var later *harness.LaterError
	if errors.As(failure, &later) {
		pause = max(pause, later.After)
	}
	return time.Now().Add(pause)
}

// decideAgain gives an event back to the mailbox whose mode the harness no
// longer takes.
func (a *Agent) decideAgain(ctx context.Context, tx *sql.Tx, t *turn, e *entry) error {
	if err := a.endTurn(ctx, tx, t, turnCancelled, harness.ErrMode.Error(), nil); err != nil || e == nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `UPDATE events SET stage = ?, turn_id = '' WHERE seq = ? AND disposition = ''`, stageStored, e.Seq)
	if err != nil {
		return fmt.Errorf("giving %s back to the mailbox: %w", e.EventID, err)
	}
	return nil
}

// fail ends an event that got no answer. Whoever was owed one is told once.
func (a *Agent) fail(ctx context.Context, tx *sql.Tx, e *entry, reason string) error {
	return a.failTelling(ctx, tx, e, reason, "I could not answer this message. Please send it again, or ask somebody else.")
}

// failTelling is fail with the words of the notice.
func (a *Agent) failTelling(ctx context.Context, tx *sql.Tx, e *entry, reason, notice string) error {
	if e.Decision.Policy != attention.PolicyMustRespond {
		return a.dispose(ctx, tx, e, attention.DispositionIgnored, reason)
	}
	if !e.open() {
		return nil
	}
	if err := a.dispose(ctx, tx, e, attention.DispositionFailed, reason); err != nil {
		return err
	}
	if e.Content.Author.Kind != "human" || e.Chat == protocol.Topic(protocol.PeerBroker) {
		return nil // two programs would talk about it for ever
	}
	return a.sendNotice(ctx, tx, e, noticeFailed, notice)
}

// passDeadlines ends accepted turns and open events whose time has passed, and
// returns when the next deadline is.
func (a *Agent) passDeadlines(ctx context.Context) (next time.Time, err error) {
	now := time.Now()
	late, err := turns(ctx, a.db, `WHERE state = 'accepted' AND deadline_at <= ?`, now.UnixMicro())
	if err != nil {
		return next, err
	}
	for _, t := range late {
		a.stopRun(t.ID, errDeadline)
		failure := errDeadline
		if t.Body != "" {
			failure = errors.New("error: " + t.Body) // the program's own, after which nothing came
		}
		if err := a.failTurn(ctx, t.ID, turnAccepted, failure); err != nil {
			return next, err
		}
	}
	expired, err := entries(ctx, a.db, `WHERE deadline_at > 0 AND deadline_at <= ?`, now.UnixMicro())
	if err != nil {
		return next, err
	}
	for _, e := range expired {
		if err := a.inTx(ctx, func(tx *sql.Tx) error { return a.expire(ctx, tx, e.EventID) }); err != nil {
			return next, err
		}
	}
	var soonestUS sql.NullInt64
	err = a.db.QueryRowContext(ctx, `SELECT min(at) FROM (SELECT min(deadline_at) AS at FROM events WHERE deadline_at > 0
		UNION ALL SELECT min(deadline_at) FROM turns WHERE state = 'accepted')`).Scan(&soonestUS)
	if err != nil {
		return next, fmt.Errorf("looking for the next deadline: %w", err)
	}
	return fromMicros(soonestUS.Int64), nil
}

func (a *Agent) expire(ctx context.Context, tx *sql.Tx, id string) error {
	e, err := entryByID(ctx, tx, id)
	if err != nil || e == nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `UPDATE events SET deadline_at = 0 WHERE seq = ?`, e.Seq); err != nil {
		return fmt.Errorf("storing that the deadline of %s has passed: %w", id, err)
	}
	switch {
	case e.Replied:
		return nil
	case e.Disposition == attention.DispositionDeferred:
		return a.comeBack(ctx, tx, e)
	}
	return a.fail(ctx, tx, e, errDeadline.Error())
}

// recoverTurns decides, before anything runs, on the turns that the last run
// of the program left behind.
func (a *Agent) recoverTurns(ctx context.Context) error {
	return a.inTx(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, `UPDATE turns SET state = 'queued' WHERE state = 'withdrawn'`); err != nil {
			return err
		}
		// No turn pays for the time in which the program did not run.
		if _, err := tx.ExecContext(ctx, `UPDATE turns SET deadline_at = 0 WHERE state = 'queued'`); err != nil {
			return err
		}
		list, err := turns(ctx, tx, `WHERE state = 'running'`)
		if err != nil {
			return err
		}
		for _, t := range list {
			e, err := entryByID(ctx, tx, t.EventID)
			if err != nil {
				return err
			}
			if err := a.settleFailure(ctx, tx, t, e, errStopping); err != nil {
				return err
			}
		}
		return nil
	})
}

package turns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/tools"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// maxFailure bounds what is recorded of a failure, in bytes.
const maxFailure = 500

// settle stores what came of a run of the harness.
func (r *Runner) settle(ctx context.Context, id string, box *tools.Toolbox, outcome harness.Outcome, failure error) error {
	accepted := failure == nil && outcome.State == harness.Accepted
	gone := ""
	err := r.box.InTx(ctx, func(tx *mailbox.Tx) error {
		t, err := tx.Turn(id)
		switch {
		case err != nil || t == nil:
			return err
		case t.State == mailbox.TurnWithdrawn:
			gone = "it begins anew"
			return requeue(tx, t)
		case t.State != mailbox.TurnRunning:
			gone = "it was cancelled"
			return nil
		}
		e, err := tx.Entry(t.EventID)
		switch {
		case err != nil:
			return err
		case failure != nil:
			return r.fail(tx, t, e, failure)
		case accepted:
			return settleAccepted(tx, t, e)
		}
		return r.settleFinished(tx, t, e, box, outcome)
	})
	if err == nil && accepted && gone != "" { // it was stopped while the program took it
		r.harness.Cancel(id, gone)
	}
	return err
}

// settleAccepted keeps a turn open that a program works on in its own time, unless it
// has already done what ends a turn.
func settleAccepted(tx *mailbox.Tx, t *mailbox.Turn, e *mailbox.Entry) error {
	if e == nil || e.Settled() || e.Decision.Policy == attention.PolicyMustNotRespond {
		return tx.Finish(t, e, mailbox.Cost{})
	}
	return tx.MoveTurn(t, mailbox.TurnAccepted, "", mailbox.Cost{})
}

// settleFinished ends a turn whose model has ended it. Text that ends a turn which
// owes an answer and sent none is the answer.
func (r *Runner) settleFinished(tx *mailbox.Tx, t *mailbox.Turn, e *mailbox.Entry, box *tools.Toolbox, outcome harness.Outcome) error {
	if e != nil && !e.Settled() && e.Decision.Policy == attention.PolicyMustRespond && !attention.MeansSilence(outcome.FinalText) {
		answer := outcome.FinalText
		if outcome.Truncated {
			answer += "\n\n[Cut here: the model's answer was as long as it may be.]"
		}
		if err := sendFinalText(tx, e, answer); err != nil {
			return err
		}
	}
	if signal := box.Pending(); e != nil && signal != "" {
		if err := tx.Move(e, mailbox.Acknowledge, "signal "+string(signal)); err != nil {
			return err
		}
	}
	u := outcome.Usage
	return tx.Finish(t, e, mailbox.Cost{Model: u.Model, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, ToolCalls: u.ToolCalls})
}

// sendFinalText answers an event with a final text, as far as policy permits. One that
// is too long is cut, and says so: nobody is left to shorten it.
func sendFinalText(tx *mailbox.Tx, e *mailbox.Entry, answer string) error {
	standing, err := tx.Standing(e, answer)
	if err != nil {
		return err
	}
	if refusal := attention.PermitMessage(standing); refusal.Refused() {
		return tx.Refusal(e, e.EventID, "final_text", refusal.Reason)
	}
	const note = "\n\n[The rest was too long for a message.]"
	if len(answer) > tools.MaxReply {
		answer = text.Prefix(answer, tools.MaxReply-len(note)) + note
	}
	_, err = tx.Reply(e, mailbox.SentText, mailbox.ReplyKey(e), protocol.ChatReply{
		Text: answer, Visibility: e.Visibility(), Directedness: string(attention.DirectedAmbient),
	})
	return err
}

// fail decides what follows from a turn that did not end well: again, later, or not at
// all. A turn that sent something is never run again.
func (r *Runner) fail(tx *mailbox.Tx, t *mailbox.Turn, e *mailbox.Entry, failure error) error {
	settled := e == nil || e.Settled()
	acted := t.Outbound || e != nil && settled
	if !acted && errors.Is(failure, harness.ErrMode) {
		return tx.DecideAgain(t, e, harness.ErrMode.Error())
	}
	reason := text.Prefix(failure.Error(), maxFailure)
	again := r.retryAt(t, failure)
	stopped := errors.Is(failure, ErrStopping) || errors.Is(failure, harness.ErrStopped) || errors.Is(failure, context.Canceled)
	switch {
	case !acted && stopped:
		t.Deadline = time.Time{}
		return tx.MoveTurn(t, mailbox.TurnQueued, "the agent stopped", mailbox.Cost{})
	case !acted && errors.Is(failure, harness.ErrTemporary) && t.Failures+1 < r.opts.MaxTries && again.Before(t.Deadline):
		t.Failures, t.NotBefore = t.Failures+1, again
		return tx.MoveTurn(t, mailbox.TurnQueued, reason, mailbox.Cost{})
	}
	if err := tx.MoveTurn(t, mailbox.TurnFailed, reason, mailbox.Cost{}); err != nil || settled {
		return err
	}
	if stopped {
		reason = "the agent stopped after the turn had acted"
	}
	if errors.Is(failure, harness.ErrUnreached) {
		name := protocol.PeerID(r.opts.Self.ID).Name()
		return tx.FailTelling(e, reason, name+" could not be reached, so this message was not delivered to it.")
	}
	return tx.Fail(e, reason)
}

// failIn is fail for a turn that no goroutine is at, if it is still in a state.
func (r *Runner) failIn(ctx context.Context, id string, in mailbox.TurnState, failure error) error {
	return r.inTurn(ctx, id, in, func(tx *mailbox.Tx, t *mailbox.Turn) error {
		e, err := tx.Entry(t.EventID)
		if err != nil {
			return err
		}
		return r.fail(tx, t, e, failure)
	})
}

// retryAt returns when a turn that failed for now may run again: after a pause that
// doubles, and no sooner than whoever failed it wants to be asked.
func (r *Runner) retryAt(t *mailbox.Turn, failure error) time.Time {
	pause := r.opts.FirstRetry << t.Failures
	var later *harness.LaterError
	if errors.As(failure, &later) {
		pause = max(pause, later.After)
	}
	return time.Now().Add(pause)
}

// passDeadlines ends accepted turns and open events whose time has passed, and returns
// when the next deadline is.
func (r *Runner) passDeadlines(ctx context.Context) (next time.Time, err error) {
	now, v := time.Now(), r.box.View(ctx)
	late, err := v.Late(now)
	if err != nil {
		return next, err
	}
	for _, t := range late {
		r.stop(t.ID, errDeadline)
		failure := errDeadline
		if t.Body != "" {
			failure = errors.New("error: " + t.Body)
		}
		if err := r.failIn(ctx, t.ID, mailbox.TurnAccepted, failure); err != nil {
			return next, err
		}
	}
	expired, err := v.Expired(now)
	if err != nil {
		return next, err
	}
	for _, id := range expired {
		if err := r.box.InTx(ctx, func(tx *mailbox.Tx) error { return tx.Expire(id, errDeadline.Error()) }); err != nil {
			return next, err
		}
	}
	return v.NextDeadline()
}

// Recover decides, before Run, on the turns that the last run of the program left
// behind. No turn pays for the time in which the program did not run.
func (r *Runner) Recover(ctx context.Context) error {
	return r.box.InTx(ctx, func(tx *mailbox.Tx) error {
		interrupted, err := tx.Recover()
		for _, t := range interrupted {
			e, err := tx.Entry(t.EventID)
			if err != nil {
				return err
			}
			if err := r.fail(tx, t, e, ErrStopping); err != nil {
				return err
			}
		}
		return err
	})
}

// errUnready is the reason for events whose harness never became ready.
var errUnready = errors.New("the harness was not ready in time")

// giveUpWaiting ends the events and turns that have waited for the harness as long as
// an answer may take: whoever was owed an answer is told. The time before this program
// ran does not count, nor does that before the harness went away.
func (r *Runner) giveUpWaiting(ctx context.Context) error {
	now := time.Now()
	if r.downSince.IsZero() {
		r.downSince = now
	}
	before := now.Add(-r.opts.Attention.Deadline)
	if r.downSince.After(before) {
		return nil
	}
	v := r.box.View(ctx)
	for _, state := range []mailbox.State{mailbox.Stored, mailbox.Held} {
		list, err := v.InState(state, 100)
		if err != nil {
			return err
		}
		for _, e := range list {
			if e.Received.After(before) {
				continue
			}
			if err := r.box.InTx(ctx, func(tx *mailbox.Tx) error { return r.endUnready(tx, e.EventID, state) }); err != nil {
				return fmt.Errorf("ending %s, for which the harness was not ready: %w", e.EventID, err)
			}
		}
	}
	waiting, err := v.TurnsIn(mailbox.TurnQueued)
	if err != nil {
		return err
	}
	for _, t := range waiting {
		if t.FirstAt.After(before) || t.NotBefore.After(before) {
			continue
		}
		if err := r.failIn(ctx, t.ID, mailbox.TurnQueued, errUnready); err != nil {
			return fmt.Errorf("ending the turn %s, for which the harness was not ready: %w", t.ID, err)
		}
	}
	return nil
}

// endUnready ends one event. If nothing was decided on it, the decision is that for a
// harness which takes everything.
func (r *Runner) endUnready(tx *mailbox.Tx, id string, in mailbox.State) error {
	e, err := tx.Entry(id)
	if err != nil || e == nil || e.State != in {
		return err
	}
	if in == mailbox.Stored {
		if err := r.decide(tx, e, harness.Capabilities{Injection: harness.AllInjection}); err != nil {
			return err
		}
	}
	return tx.Fail(e, errUnready.Error())
}

package turns

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/tools"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/rs/zerolog"
)

// ReasonTurnEnded is why a decision is cancelled that a turn left open, for the people of its chat. What
// ended the turn may be words of a program: the log has them.
const ReasonTurnEnded = "its turn ended"

// maxFailure bounds what is recorded of a failure, in bytes.
const maxFailure = 500

// settle stores what came of a run of the harness.
func (r *Runner) settle(ctx context.Context, id string, box *tools.Toolset, outcome harness.Outcome, failure error) error {
	accepted := failure == nil && outcome.State == harness.Accepted
	return r.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		t := tx.Turn(id)
		if !errors.Is(failure, ErrStopping) {
			tx.CancelDecisions(id, ReasonTurnEnded)
		}
		if accepted && (t == nil || t.State != mailbox.TurnRunning) { // it was stopped while the program took it
			r.harness.Cancel(id, errWithdrawn.Error())
		}
		switch {
		case t == nil:
		case t.State == mailbox.TurnWithdrawn:
			requeue(tx, t)
		case t.State != mailbox.TurnRunning:
		case failure != nil:
			r.fail(tx, t, failure)
		case accepted:
			settleAccepted(tx, t)
		default:
			r.settleFinished(tx, t, box, outcome)
		}
	})
}

// settleAccepted keeps a turn open that a program works on in its own time, unless it
// has already done what ends a turn.
func settleAccepted(tx *mailbox.Tx, t *mailbox.Turn) {
	e := tx.Entry(t.EventID)
	if e == nil || e.Settled() || e.Decision.Policy == attention.PolicyMustNotRespond {
		tx.Finish(t, e, mailbox.Cost{})
	} else {
		tx.MoveTurn(t, mailbox.TurnAccepted, "", mailbox.Cost{})
	}
}

// errNotPublic ends a turn whose answer holds nothing that a person may see.
var errNotPublic = errors.New("the model answered with thoughts, tool calls as text or a copy of the prompt alone")

// settleFinished ends a turn whose model has ended it. Text that ends a turn which
// owes an answer and sent none is the answer. If it holds nothing for people, the turn
// runs once more, and the model is told why.
func (r *Runner) settleFinished(tx *mailbox.Tx, t *mailbox.Turn, box *tools.Toolset, outcome harness.Outcome) {
	e := tx.Entry(t.EventID)
	answer := attention.VisibleText(outcome.FinalText)
	owes := e != nil && !e.Settled() && e.Decision.Policy == attention.PolicyMustRespond
	switch {
	case owes && answer == "" && strings.TrimSpace(outcome.FinalText) != "":
		failure := errNotPublic
		if t.Body == "" {
			t.Body, failure = attention.NothingVisible, fmt.Errorf("%w: %w", harness.ErrTemporary, errNotPublic)
		}
		r.fail(tx, t, failure)
		return
	case owes && !attention.MeansSilence(answer):
		if outcome.Truncated {
			answer += "\n\n[Cut here: the model's answer was as long as it may be.]"
		}
		sendFinalText(tx, e, answer)
	}
	if signal := box.Pending(); e != nil && signal != "" {
		tx.Move(e, mailbox.Acknowledge, "signal "+string(signal))
	}
	u := outcome.Usage
	tx.Finish(t, e, mailbox.Cost{Model: u.Model, InputTokens: u.InputTokens, CachedTokens: u.CachedTokens, OutputTokens: u.OutputTokens, USD: u.USD, ToolCalls: u.ToolCalls})
	tx.OnCommit(func() {
		if owes && e.State == mailbox.Failed {
			r.failures.record(r.opts.Log, t.ID, "it ended without an answer")
		} else {
			r.failures.reset(r.opts.Log)
		}
	})
}

// sendFinalText answers an event with a final text, as far as policy permits. One that
// is too long is cut, and says so: nobody is left to shorten it.
func sendFinalText(tx *mailbox.Tx, e *mailbox.Entry, answer string) {
	if standing := tx.ReplyContext(e, answer); attention.PermitMessage(standing).Refused() {
		reason := attention.PermitMessage(standing).Reason
		tx.RecordRefusal(e, e.EventID, "final_text", reason)
		if standing.Repeats { // what it says here it has said: that is no failure to tell another agent of
			tx.Move(e, mailbox.Fail, reason)
		}
		return
	}
	const note = "\n\n[The rest was too long for a message.]"
	if len(answer) > tools.MaxReply {
		answer = text.Prefix(answer, tools.MaxReply-len(note)) + note
	}
	tx.Reply(e, mailbox.SentText, mailbox.ReplyKey(e), protocol.ChatReply{
		Text: answer, Visibility: e.Visibility(), Directedness: string(attention.MessageDirectedness(answer, "")),
	})
}

// fail decides what follows from a turn that did not end well: again, later, or not at
// all. A turn that sent something is never run again.
func (r *Runner) fail(tx *mailbox.Tx, t *mailbox.Turn, failure error) {
	e := tx.Entry(t.EventID)
	settled := e == nil || e.Settled()
	acted := t.Outbound || e != nil && settled
	reason := text.Prefix(failure.Error(), maxFailure)
	again := r.retryAt(t, failure)
	stopped := errors.Is(failure, ErrStopping) || errors.Is(failure, harness.ErrStopped) || errors.Is(failure, context.Canceled)
	switch {
	case !acted && errors.Is(failure, harness.ErrModeUnsupported):
		tx.DecideAgain(t, e, harness.ErrModeUnsupported.Error())
		return
	case !acted && stopped:
		t.Deadline = time.Time{}
		tx.MoveTurn(t, mailbox.TurnQueued, "the agent stopped", mailbox.Cost{})
		return
	case !acted && errors.Is(failure, harness.ErrTemporary) && t.Failures+1 < r.opts.MaxAttempts && again.Before(t.Deadline):
		t.Failures, t.NotBefore = t.Failures+1, again
		tx.MoveTurn(t, mailbox.TurnQueued, reason, mailbox.Cost{})
		return
	}
	t.Body = reason
	tx.MoveTurn(t, mailbox.TurnFailed, reason, mailbox.Cost{})
	if !stopped {
		tx.OnCommit(func() { r.failures.record(r.opts.Log, t.ID, reason) })
	}
	switch {
	case settled:
	case stopped:
		tx.GiveUp(e, "the agent stopped after the turn had acted")
	default:
		tx.GiveUpWithNotice(e, reason, r.failureNotice(failure))
	}
}

// failureNotice is what the people of a chat read of a failure.
func (r *Runner) failureNotice(failure error) string {
	told, known := errors.AsType[*harness.UserError](failure)
	switch {
	case known:
		return told.Message
	case errors.Is(failure, harness.ErrUnreachable):
		return protocol.PeerID(r.opts.Self.ID).Name() + " could not be reached, so this message was not delivered to it."
	case errors.Is(failure, harness.ErrBudget):
		return "I could not finish an answer within what one turn may take. Please ask for less at once."
	case errors.Is(failure, harness.ErrPermanent):
		return "I cannot answer as I am set up. Whoever runs me has to mend that; sending this again does not help."
	default:
		return mailbox.NotAnswered
	}
}

// failures keeps the log of an agent short whose turns fail again and again: each
// reason is told when it is new, and then counted.
type failures struct {
	mu     sync.Mutex // guards the fields below
	reason string
	count  int
}

// record tells of a failed turn: the first of its reason, the tenth, the hundredth and so on.
func (f *failures) record(log *zerolog.Logger, turnID, reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if reason != f.reason {
		f.reason, f.count = reason, 0
	}
	if f.count++; f.count == 1 || isPowerOfTen(f.count) {
		log.Warn().Str("turn", turnID).Str("reason", reason).Int("times", f.count).Msg("turn failed")
	}
}

// reset tells that a turn ended well after others had failed.
func (f *failures) reset(log *zerolog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count > 0 {
		log.Info().Str("reason", f.reason).Int("times", f.count).Msg("turns end well again")
	}
	f.reason, f.count = "", 0
}

func isPowerOfTen(n int) bool {
	for n%10 == 0 && n > 1 {
		n /= 10
	}
	return n == 1
}

// retryAt returns when a turn that failed for now may run again: after a pause that
// doubles, and no sooner than whoever failed it wants to be asked.
func (r *Runner) retryAt(t *mailbox.Turn, failure error) time.Time {
	pause := r.opts.FirstRetry << t.Failures
	if later, ok := errors.AsType[*harness.RetryLaterError](failure); ok {
		pause = max(pause, later.After)
	}
	return time.Now().Add(pause)
}

// handleDeadlines ends accepted turns and open events whose time has passed, and makes events of
// the reminders that are due.
func (r *iteration) handleDeadlines() {
	now := time.Now()
	for _, t := range r.OverdueTurns(now) {
		r.stop(t.ID, errDeadline)
		failure := errDeadline
		if t.Body != "" {
			failure = errors.New("error: " + t.Body)
		}
		r.inTurn("ending the turn "+t.ID, t.ID, mailbox.TurnAccepted, func(tx *mailbox.Tx, t *mailbox.Turn) { r.fail(tx, t, failure) })
	}
	for _, e := range r.ExpiredEvents(now) {
		r.inTx("ending "+e.EventID, func(tx *mailbox.Tx) { tx.Expire(e.EventID, errDeadline.Error()) })
	}
	for _, id := range mailbox.DueReminders(r.View, now) {
		r.inTx("reminding of "+id, func(tx *mailbox.Tx) { mailbox.FireReminder(tx, id) })
		r.opts.Failpoint("reminded")
	}
	if mailbox.ObligationsDue(r.View, now) {
		r.inTx("seeing to obligations", mailbox.RunObligations)
	}
	if mailbox.NeedsSync(r.View) {
		r.inTx("telling the broker of obligations", mailbox.SyncObligations)
	}
	r.schedule(r.NextDeadline())
}

// Recover decides, before Run, on the turns that the last run of the program left
// behind. No turn pays for the time in which the program did not run.
func (r *Runner) Recover(ctx context.Context) error {
	return r.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		mailbox.RecheckObligations(tx)
		for _, t := range tx.Recover() {
			r.fail(tx, t, ErrStopping)
		}
	})
}

// errUnready begins the reason for events whose harness never became ready.
var errUnready = errors.New("the harness was not ready in time")

// failUnready ends the events and turns that have waited for the harness as long as
// an answer may take: whoever was owed an answer is told. The time before this program
// ran does not count, nor does that before the harness went away. What has no decision
// yet gets that for a harness which takes everything.
func (r *iteration) failUnready() {
	now := time.Now()
	if r.downSince.IsZero() {
		r.downSince = now
	}
	before := now.Add(-r.opts.Attention.Deadline)
	if r.downSince.After(before) {
		return
	}
	r.caps = harness.Capabilities{Injection: harness.AllInjection}
	for _, e := range append(r.InState(mailbox.Stored, 100), r.InState(mailbox.Held, 100)...) {
		if !e.ReceivedAt.After(before) {
			r.inEntry("ending "+e.EventID+", for which the harness was not ready", e, r.endUnready)
		}
	}
	for _, t := range r.TurnsIn(mailbox.TurnQueued) {
		if !t.FirstAt.After(before) && !t.NotBefore.After(before) {
			r.inTurn("ending the turn "+t.ID+", for which the harness was not ready", t.ID, mailbox.TurnQueued,
				func(tx *mailbox.Tx, t *mailbox.Turn) { r.fail(tx, t, r.notReady) })
		}
	}
}

// endUnready ends one event, after a decision.
func (r *iteration) endUnready(tx *mailbox.Tx, e *mailbox.Entry) {
	if e.State == mailbox.Stored {
		r.decide(tx, e)
	}
	tx.GiveUp(e, r.notReady.Error())
}

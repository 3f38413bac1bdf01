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
	"hubbub/peers/agent/mailbox/decisions"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/agent/mailbox/reminders"
	"hubbub/peers/agent/tools"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/rs/zerolog"
)

// ReasonTurnEnded is the reason shown in chats for decisions that are cancelled because their
// turn ended. The actual reason may quote a program; it is in the log.
const ReasonTurnEnded = "its turn ended"

// maxFailure bounds the recorded bytes of a failure.
const maxFailure = 500

// settle stores the outcome of a run of the harness. If the turn has already answered its event,
// a restart ends it without another run, so its end need not survive a power cut.
func (r *Runner) settle(ctx context.Context, id string, box *tools.Toolset, outcome harness.Outcome,
	failure error) error {
	accepted := failure == nil && outcome.State == harness.Accepted
	answer := tools.VisibleText(outcome.FinalText, outcome.Tools...) // takes seconds for a strange text
	cost := costOf(&outcome.Usage)
	inTx := r.mailbox.InTx
	if failure == nil && r.mailbox.HasAnswered(ctx, id) {
		inTx = r.mailbox.InTxUnsynced
	}
	return inTx(ctx, func(tx *mailbox.Tx) {
		t := tx.Turn(id)
		if !errors.Is(failure, ErrStopping) && (t == nil || t.State != mailbox.TurnWithdrawn) {
			decisions.Cancel(tx, id, ReasonTurnEnded)
		}
		if accepted && (t == nil || t.State != mailbox.TurnRunning) { // it was stopped while the program accepted it
			r.harness.Cancel(id, ErrWithdrawn.Error())
		}
		switch {
		case t == nil:
		case t.State == mailbox.TurnWithdrawn:
			tx.AddCost(t, cost)
			requeue(tx, t)
		case t.State != mailbox.TurnRunning:
			tx.AddCost(t, cost)
		case failure != nil:
			r.fail(tx, t, failure, cost)
		case accepted:
			settleAccepted(tx, t, cost)
		default:
			r.settleFinished(tx, t, box, outcome, answer)
		}
	})
}

// costOf returns the cost of a run, whether it succeeded or failed.
func costOf(u *harness.Usage) protocol.TurnCost {
	return protocol.TurnCost{
		Model:        u.Model,
		InputTokens:  u.InputTokens,
		CachedTokens: u.CachedTokens,
		OutputTokens: u.OutputTokens,
		USD:          u.USD,
		ToolCalls:    u.ToolCalls,
	}
}

// settleAccepted keeps a turn open that a program works on asynchronously, unless its event is
// already settled or its author was asked what they mean.
func settleAccepted(tx *mailbox.Tx, t *mailbox.Turn, cost protocol.TurnCost) {
	e := tx.Entry(t.EventID)
	if e == nil || e.Settled() || lifecycle.AwaitsClarification(&tx.View, e) ||
		e.Decision.Policy == attention.PolicyMustNotRespond {
		lifecycle.Finish(tx, t, e, cost)
	} else {
		tx.MoveTurn(t, mailbox.TurnAccepted, "", cost)
	}
}

// errNotPublic fails a turn whose answer has nothing that people may see.
var errNotPublic = errors.New("the model's answer consists of thoughts, tool calls as text or a copy of the prompt")

// errSilent repeats a turn that must answer and did nothing.
var errSilent = fmt.Errorf("%w: the turn ended without an answer", harness.ErrTemporary)

// silentAdvice tells a model why its turn runs again.
const silentAdvice = "You ended your turn without an answer, and a person waits for one. Answer now, or say plainly " +
	"that you cannot, and why. Do not repeat what you have done already."

// settleFinished ends a turn whose model has finished, with the visible part of its final text. If
// the turn must answer and has sent nothing, that is the answer. If it is empty or means silence, and the
// turn did nothing for a person who waits, it runs again, with an explanation for the model. A sentence that
// means silence in both runs, such as "No action needed.", is the answer.
func (r *Runner) settleFinished(tx *mailbox.Tx, t *mailbox.Turn, box *tools.Toolset, outcome harness.Outcome,
	answer string) {
	e, cost := tx.Entry(t.EventID), costOf(&outcome.Usage)
	owes := e != nil && !e.Settled() && e.Decision.Policy == attention.PolicyMustRespond
	waits := owes && box.Pending() == "" && leavesPersonWaiting(&tx.View, t, e)
	silent := answer == "" || attention.MeansSilence(answer)
	switch {
	case owes && answer == "" && strings.TrimSpace(outcome.FinalText) != "":
		failure := errNotPublic
		if t.Body == "" {
			t.Body, failure = attention.NothingVisible, fmt.Errorf("%w: %w", harness.ErrTemporary, errNotPublic)
		}
		r.fail(tx, t, failure, cost)
		return
	case waits && silent && t.Body == "":
		t.Body = silentAdvice
		r.fail(tx, t, errSilent, cost)
		return
	case e != nil && !e.Settled() && (owes || !t.Outbound && e.Decision.SaysFinalText()) &&
		(!silent || waits && attention.IsSilentSentence(answer)):
		if outcome.Truncated {
			answer += "\n\n[The model's answer was cut here: it reached its maximum length.]"
		}
		sendFinalText(tx, e, answer)
	}
	if signal := box.Pending(); e != nil && signal != "" {
		tx.Move(e, mailbox.Acknowledge, "signal "+string(signal))
	}
	lifecycle.Finish(tx, t, e, cost)
	tx.OnCommit(func() {
		if owes && e.State == mailbox.Failed {
			r.failures.record(r.opts.Log, t.ID, "it ended without an answer")
		} else {
			r.failures.reset(r.opts.Log)
		}
	})
}

// leavesPersonWaiting reports whether a turn without a text did nothing else for the person who wrote
// its event, and the event does not return automatically.
func leavesPersonWaiting(v *mailbox.View, t *mailbox.Turn, e *mailbox.Entry) bool {
	return !t.Outbound && !e.Claimed && !e.FromAgent() && !e.Decision.Obliges &&
		obligations.OfReturn(v, e) == nil && v.Questions(e.EventID) == 0 && !lifecycle.AwaitsClarification(v, e)
}

// sendFinalText answers an event with a final text, if the policy permits it. A text that is too
// long is cut, with a note.
func sendFinalText(tx *mailbox.Tx, e *mailbox.Entry, answer string) {
	if reply := obligations.ReplyContext(&tx.View, e, answer); attention.PermitMessage(reply).Refused() {
		reason := attention.PermitMessage(reply).Reason
		tx.RecordRefusal(e, e.EventID, "final_text", reason)
		if reply.Repeats { // the agent repeats itself; do not notify the other agent
			tx.Move(e, mailbox.Fail, reason)
			tx.ReportEnd(e)
		}
		return
	}
	const note = "\n\n[The rest was too long for a message.]"
	if len(answer) > tools.MaxReply {
		answer = text.Prefix(answer, tools.MaxReply-len(note)) + note
	}
	tx.Reply(e, mailbox.SentText, mailbox.ReplyKey(e), protocol.ChatReply{Text: answer})
}

// fail decides whether a failed turn runs again, now or later, or ends. A turn that has sent
// something never runs again. cost is that of the run that failed, if one did.
func (r *Runner) fail(tx *mailbox.Tx, t *mailbox.Turn, failure error, cost protocol.TurnCost) {
	e := tx.Entry(t.EventID)
	settled := e == nil || e.Settled()
	acted := t.Outbound || e != nil && settled
	reason := text.Prefix(failure.Error(), maxFailure)
	again := r.retryAt(t, failure)
	stopped := errors.Is(failure, ErrStopping) || errors.Is(failure, harness.ErrStopped) ||
		errors.Is(failure, context.Canceled)
	switch {
	case !acted && errors.Is(failure, harness.ErrModeUnsupported):
		lifecycle.DecideAgain(tx, t, e, harness.ErrModeUnsupported.Error(), cost)
		if e != nil && e.ClaimGranted() { // the rules would offer it again
			e.Decision = attention.AfterClaim(e.Decision, &attention.Capabilities{})
			tx.Decide(e)
			r.assign(tx, e)
		}
		return
	case !acted && stopped:
		t.Deadline, t.InterruptedAt = time.Time{}, time.Now()
		tx.MoveTurn(t, mailbox.TurnQueued, "the agent stopped", cost)
		return
	case !acted && errors.Is(failure, harness.ErrTemporary) && t.Failures+1 < r.opts.MaxAttempts &&
		again.Before(t.Deadline):
		t.Failures, t.NotBefore = t.Failures+1, again
		tx.MoveTurn(t, mailbox.TurnQueued, reason, cost)
		return
	}
	t.Body = reason
	tx.MoveTurn(t, mailbox.TurnFailed, reason, cost)
	if !stopped {
		tx.OnCommit(func() { r.failures.record(r.opts.Log, t.ID, reason) })
	}
	switch {
	case settled:
	case stopped:
		lifecycle.GiveUp(tx, e, "the agent stopped after the turn had acted")
	default:
		lifecycle.GiveUpWithNotice(tx, e, reason, r.failureNotice(failure))
	}
}

// failureNotice returns the notice about a failure for the people of a chat.
func (r *Runner) failureNotice(failure error) string {
	told, known := errors.AsType[*harness.UserError](failure)
	switch {
	case known:
		return told.Message
	case errors.Is(failure, harness.ErrUnreachable):
		return protocol.PeerID(r.opts.Self.ID).Name() +
			" could not be reached, so this message was not delivered to it."
	case errors.Is(failure, errDeadline), errors.Is(failure, harness.ErrTimeout):
		return lifecycle.NotInTime
	case errors.Is(failure, harness.ErrBudget):
		return "I could not finish an answer within the limits of one turn. Please ask for less at once."
	case errors.Is(failure, harness.ErrPermanent):
		return "I'm misconfigured and can't answer. Please tell whoever runs me; sending this again won't help."
	default:
		return lifecycle.NotAnswered
	}
}

// failures limits log entries about failing turns: each new reason is logged, and then counted.
type failures struct {
	mu     sync.Mutex // guards the fields below
	reason string
	count  int
}

// record logs a failed turn: the first with a reason, then the tenth, the hundredth and so on.
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

// reset logs that turns succeed again.
func (f *failures) reset(log *zerolog.Logger) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count > 0 {
		log.Info().Str("reason", f.reason).Int("times", f.count).Msg("turns succeed again")
	}
	f.reason, f.count = "", 0
}

func isPowerOfTen(n int) bool {
	for n%10 == 0 && n > 1 {
		n /= 10
	}
	return n == 1
}

// retryAt returns when a turn with a temporary failure may run again: after a delay that doubles,
// and not before the time that the failure requests.
func (r *Runner) retryAt(t *mailbox.Turn, failure error) time.Time {
	pause := r.opts.FirstRetry << t.Failures
	if later, ok := errors.AsType[*harness.RetryLaterError](failure); ok {
		pause = max(pause, later.After)
	}
	return time.Now().Add(pause)
}

// handleDeadlines ends accepted turns and events whose deadlines have passed, and fires due
// reminders and obligations.
func (r *iteration) handleDeadlines() {
	now := time.Now()
	next := r.NextDeadline()
	if !next.IsZero() && !next.After(now) {
		r.handleDue(now)
		next = r.NextDeadline()
	}
	r.schedule(next)
	if obligations.NeedsSync(r.View) {
		r.inTx("sending obligations to the broker", obligations.Sync)
	}
}

// handleDue ends the turns and events that are overdue, and fires the due reminders and obligations.
func (r *iteration) handleDue(now time.Time) {
	for _, t := range r.OverdueTurns(now) {
		r.stop(t.ID, errDeadline)
		failure := errDeadline
		if t.Body != "" {
			failure = errors.New("error: " + t.Body)
		}
		r.inTurn("ending the turn "+t.ID, t.ID, mailbox.TurnAccepted,
			func(tx *mailbox.Tx, t *mailbox.Turn) { r.fail(tx, t, failure, protocol.TurnCost{}) })
	}
	for _, e := range r.ExpiredEvents(now) {
		r.inTx("ending "+e.EventID, func(tx *mailbox.Tx) { lifecycle.Expire(tx, e.EventID, errDeadline.Error()) })
	}
	for _, id := range reminders.Due(r.View, now) {
		r.inTx("firing the reminder "+id, func(tx *mailbox.Tx) { reminders.Fire(tx, id) })
		r.opts.Failpoint("reminded")
	}
	if obligations.Due(r.View, now) {
		r.inTx("processing obligations", obligations.Run)
	}
}

// Recover handles, before Run, the turns of the program's last run. The time during which the
// program did not run does not count against turns.
func (r *Runner) Recover(ctx context.Context) error {
	return r.mailbox.InTx(ctx, func(tx *mailbox.Tx) {
		obligations.Recheck(tx)
		for _, t := range tx.Recover() {
			r.fail(tx, t, ErrStopping, protocol.TurnCost{})
		}
	})
}

// errUnready begins the reason of events whose harness was never ready.
var errUnready = errors.New("the harness was not ready in time")

// failUnready ends the events and turns that have waited for the harness longer than an answer
// may take. Authors who wait for answers are notified. The time is counted from the start of the
// program and from when the harness stopped being ready. Undecided events get a decision for a
// harness that supports everything.
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
				func(tx *mailbox.Tx, t *mailbox.Turn) { r.fail(tx, t, r.notReady, protocol.TurnCost{}) })
		}
	}
}

// endUnready decides on an event if necessary, and ends it.
func (r *iteration) endUnready(tx *mailbox.Tx, e *mailbox.Entry) {
	if e.State == mailbox.Stored {
		r.decide(tx, e)
	}
	lifecycle.GiveUp(tx, e, r.notReady.Error())
}

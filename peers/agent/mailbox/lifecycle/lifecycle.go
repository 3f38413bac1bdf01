package lifecycle

import (
	"strings"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// NotAnswered tells an author who waits for an answer that none will come.
const NotAnswered = "I could not answer this message. Please send it again, or ask somebody else."

// NotInTime tells them that no answer came in time.
const NotInTime = "I did not finish an answer to this message in time. Please send it again, or ask for less at once."

// notAnsweredAgent is NotAnswered for an agent, which would otherwise send its message again and
// again.
const notAnsweredAgent = "I could not answer this message. Ask somebody else, or go on without it."

// GiveUp ends an event without an answer, unless it can be escalated. An author who waits for an
// answer is notified once.
func GiveUp(tx *mailbox.Tx, e *mailbox.Entry, reason string) {
	GiveUpWithNotice(tx, e, reason, NotAnswered)
}

// GiveUpWithNotice is like GiveUp, with the text of the notice.
func GiveUpWithNotice(tx *mailbox.Tx, e *mailbox.Entry, reason, notice string) {
	if e.Decision.Policy != attention.PolicyMustRespond {
		tx.Move(e, mailbox.Ignore, reason)
		return
	}
	if obligations.OfReturn(&tx.View, e) != nil { // the obligation stays open and escalates separately
		tx.Move(e, mailbox.Ignore, reason)
		return
	}
	// its author was asked for a clarification
	if o := obligations.Of(&tx.View, e); o != nil && o.State == attention.ObligationPaused {
		tx.Move(e, mailbox.Acknowledge, reason)
		return
	}
	if !e.Open() || !e.Decision.Obliges && Escalate(tx, e, reason, notice) {
		return
	}
	tx.Move(e, mailbox.Fail, reason)
	if !collab.IsEscalationQuestion(e.Origin.QuestionID) { // the agent that asked escalates further
		NotifyFailure(tx, e, notice+unansweredNotice(tx, e))
	}
	tx.ReportEnd(e)
}

// NotifyFailure notifies an author who waits for an answer of its failure, once.
func NotifyFailure(tx *mailbox.Tx, e *mailbox.Entry, notice string) {
	if e.Decision.Policy != attention.PolicyMustRespond || e.FromAgent() && !mayNotify(&tx.View, e) {
		return
	}
	for _, general := range []string{NotAnswered, NotInTime} {
		if after, ok := strings.CutPrefix(notice, general); ok && e.FromAgent() {
			notice = notAnsweredAgent + after
		}
	}
	tx.SendNotice(e, mailbox.NoticeFailed, notice)
}

// mayNotify reports whether the agent that wrote an event may be notified of its failure. It may
// not after a person was called into the exchange, or if it only repeats itself: two programs
// could notify each other forever.
func mayNotify(v *mailbox.View, e *mailbox.Entry) bool {
	x := v.Exchange(e)
	return x.Next(time.Now()) == attention.ExchangeAllow &&
		(len(x.Received) < 2 || !attention.IsRepeat(x.Received[0], x.Received[1:]))
}

// Finish ends a turn successfully and settles its event. e may be nil.
func Finish(tx *mailbox.Tx, t *mailbox.Turn, e *mailbox.Entry, cost protocol.TurnCost) {
	cost.DurationMS = time.Since(t.StartedAt).Milliseconds()
	tx.MoveTurn(t, mailbox.TurnFinished, "", cost)
	switch {
	case e == nil || e.Settled():
	case !e.DeadlineAt.IsZero(): // another agent has claimed it; it may be offered again
	case e.Claimed && t.Mode != attention.ModeNotify && e.Decision.Reason == "claim_granted" && !e.Acted:
		tx.Move(e, mailbox.Ignore, "claimed, and not answered")
	case e.Claimed && wasEdited(tx, e):
		tx.Move(e, mailbox.Supersede, "edited")
	case e.Claimed:
		// a claimed event must end some time
		if len(tx.Turns(`WHERE event_id = ? AND `+mailbox.LiveCondition, e.EventID)) == 0 {
			startDeadline(tx, e)
		}
	case e.Decision.Policy == attention.PolicyMustRespond:
		GiveUp(tx, e, "the turn ended without an answer")
	case e.Decision.Policy == attention.PolicyAckOnly:
		tx.Move(e, mailbox.Acknowledge, "seen")
	default:
		tx.Move(e, mailbox.Ignore, "no answer was needed")
	}
}

// wasEdited reports whether an edit that is an event of its own takes the place of an event.
func wasEdited(tx *mailbox.Tx, e *mailbox.Entry) bool {
	return len(tx.Events(`WHERE source_id = ? AND chat = ? AND seq > ? AND kind = 'edit' LIMIT 1`, e.SourceID, e.Chat,
		e.Seq)) > 0
}

// clarificationTime is how long an unclear event stays open.
const clarificationTime = 24 * time.Hour

// AskClarification asks the author of an unclear event what they mean. The event stays open, and
// ends as ignored if nothing explains it. For an event with an obligation, it does nothing: the
// obligation asks its author separately.
func AskClarification(tx *mailbox.Tx, e *mailbox.Entry) {
	if obligations.Of(&tx.View, e) != nil { // it asks its author itself
		return
	}
	tx.SendNotice(e, mailbox.NoticeUnclear, "I do not understand this. Could you say what you mean?")
	e.DeadlineAt = time.Now().Add(clarificationTime)
	tx.Save(e)
}

// HandleExplanation ends the unclear events of an author who writes again or edits.
func HandleExplanation(tx *mailbox.Tx, e *mailbox.Entry) {
	if e.Decision.Policy != attention.PolicyMustRespond ||
		e.Content.Event != protocol.EventMessage && e.Content.Event != protocol.EventEdit {
		return
	}
	// filter by state, which matches few rows, rather than by author
	for _, old := range tx.Events(`WHERE +chat = ? AND thread = ? AND +author = ? AND seq < ? AND state = 'turned'
		AND EXISTS (SELECT 1 FROM sent WHERE key = '`+mailbox.NoticeUnclear+`:' || events.event_id) AND NOT EXISTS
		(SELECT 1 FROM turns t WHERE t.turn_id = events.turn_id AND `+mailbox.LiveCondition+`)`, e.Chat,
		e.Content.Chat.ThreadID, e.Content.Author.ID, e.Seq) {
		old.DeadlineAt = time.Time{}
		tx.Move(old, mailbox.Supersede, "explained by "+e.EventID)
	}
}

// AwaitsClarification reports whether the author of an event was asked what they mean.
func AwaitsClarification(v *mailbox.View, e *mailbox.Entry) bool {
	return v.SentAs(mailbox.NoticeUnclear+":"+e.EventID) != nil
}

// FinishAccepted ends the turn of an event that an asynchronous program works on, once its event
// is settled or its author was asked what they mean.
func FinishAccepted(tx *mailbox.Tx, t *mailbox.Turn, e *mailbox.Entry) {
	if t != nil && t.State == mailbox.TurnAccepted && (e.Settled() || AwaitsClarification(&tx.View, e)) {
		Finish(tx, t, e, protocol.TurnCost{})
	}
}

// startDeadline sets the deadline of an event that is in no turn.
func startDeadline(tx *mailbox.Tx, e *mailbox.Entry) {
	e.DeadlineAt = time.Now().Add(tx.Options().Attention.Deadline)
	tx.Save(e)
}

// Expire handles the deadline of an event: a deferred event is redelivered, any other ends.
func Expire(tx *mailbox.Tx, id, reason string) {
	e := tx.Entry(id)
	if e == nil || e.DeadlineAt.IsZero() || e.DeadlineAt.After(time.Now()) {
		return
	}
	e.DeadlineAt = time.Time{}
	if e.State == mailbox.Deferred {
		redeliver(tx, e)
	} else if AwaitsClarification(&tx.View, e) {
		tx.Move(e, mailbox.Ignore, "it was not explained")
	} else {
		GiveUpWithNotice(tx, e, reason, NotInTime)
	}
}

// DecideAgain returns an event for a new decision because the harness no longer supports its
// mode. e may be nil.
func DecideAgain(tx *mailbox.Tx, t *mailbox.Turn, e *mailbox.Entry, reason string, cost protocol.TurnCost) {
	tx.MoveTurn(t, mailbox.TurnCancelled, reason, cost)
	if e != nil {
		e.TurnID = ""
		tx.Move(e, mailbox.Reopen, reason)
	}
}

// StopThread stops the turns in the thread of a stop word and supersedes their events and the
// promised ones. A stop word from an agent only affects that agent's events. Events in the
// compose window are shown together with the stop word.
func StopThread(tx *mailbox.Tx, stop *mailbox.Entry) {
	const reason = "stopped on request"
	author := stop.Content.Author
	for _, t := range tx.Turns(`WHERE +thread_key = ?1 AND (author = ?2 OR ?3 = 'human') AND chat = ?4 AND mode IN ('immediate', 'buffered') AND `+mailbox.LiveCondition,
		stop.ThreadKey(), author.ID, author.Kind, stop.Chat) {
		tx.CancelTurn(t, reason)
		if e := tx.Entry(t.EventID); e != nil {
			tx.Move(e, mailbox.Supersede, reason)
		}
	}
	for _, e := range tx.Events(`WHERE +conversation = ? AND +thread = ? AND +chat = ? AND deadline_at > 0 AND (+author = ? OR ? = 'human')`,
		stop.Content.Chat.ID, stop.Content.Chat.ThreadID, stop.Chat, author.ID, author.Kind) {
		if e.Promised() {
			tx.Move(e, mailbox.Supersede, reason)
		}
	}
}

// StopChat stops the turns of a chat that a person stopped, and supersedes its open events and the
// answers to questions that were asked there. What was written after the stop, once the chat was
// started again, stays open.
func StopChat(tx *mailbox.Tx, stop *mailbox.Entry) {
	for _, t := range tx.Turns(`WHERE chat = ? AND `+mailbox.LiveCondition, stop.Chat) {
		tx.CancelTurn(t, mailbox.ReasonChatStopped)
	}
	for _, e := range tx.Events(`WHERE (chat = ?1 OR EXISTS (SELECT 1 FROM turns t
		WHERE t.turn_id = events.turn_id AND t.chat = ?1)) AND seq < ?2 AND `+mailbox.OpenCondition, stop.Chat, stop.Seq) {
		tx.Move(e, mailbox.Supersede, mailbox.ReasonChatStopped)
	}
}

// SettleDone settles the open events of a message that a person marked as done or stopped, or of
// the message that the agent's marked answer is for. A queued answer counts.
func SettleDone(tx *mailbox.Tx, reaction *mailbox.Entry) {
	c := &reaction.Content
	if c.ReplyTo == nil || c.ReplyTo.SourceID == "" {
		return
	}
	says, settle := "already done, according to ", mailbox.Acknowledge
	if c.Signal == protocol.SignalStop {
		says, settle = "stopped by ", mailbox.Supersede
	}
	reason := says + c.Author.Kind + ":" + attention.HeaderValue(c.Author.ID)
	for _, e := range tx.Events(`WHERE chat = ?1 AND event_id <> ?3 AND `+mailbox.OpenCondition+` AND (source_id = ?2
		OR event_id IN (SELECT event_id FROM sent WHERE chat = ?1 AND source_id = ?2 AND source_id <> ''))`,
		reaction.Chat, c.ReplyTo.SourceID, reaction.EventID) {
		for _, t := range tx.Turns(`WHERE event_id = ? AND `+mailbox.LiveCondition, e.EventID) {
			tx.CancelTurn(t, reason)
		}
		tx.Move(e, settle, reason)
	}
}

// Bounds of deferrals. A deferred event is redelivered to a model. An asynchronous program keeps
// the event and gets no second delivery.
const (
	MaxDeferrals = 5                  // of one event; then it must be answered, declined or failed
	maxDefer     = 7 * 24 * time.Hour // before redelivery
	// times Options.DeferFor, a day by default: for a program to settle what it deferred
	asyncDeferFactor = 96
)

// deferDuration returns how long an event is deferred: until the given time or, if that is zero,
// for first, which doubles at every deferral.
func deferDuration(until time.Time, deferrals int, first time.Duration, now time.Time) time.Duration {
	rest := first << min(deferrals, MaxDeferrals)
	if !until.IsZero() {
		rest = until.Sub(now)
	}
	return min(max(rest, time.Second), maxDefer)
}

// Defer defers an event until a time, or for Options.DeferFor if it is zero. An event that is deferred
// already does not change.
func Defer(tx *mailbox.Tx, e *mailbox.Entry, until time.Time, reason string) {
	if _, ok := mailbox.Next(e.State, mailbox.Defer); !ok {
		return
	}
	now := time.Now()
	rest := deferDuration(until, e.Deferrals, tx.Options().DeferFor, now)
	if tx.Options().Async {
		rest = max(rest, asyncDeferFactor*tx.Options().DeferFor)
	}
	e.DeadlineAt, e.Deferrals = now.Add(rest), e.Deferrals+1
	tx.Move(e, mailbox.Defer, reason)
}

// redeliver queues a deferred event for the model again, with its edits. An event that a program
// deferred and never settled ends.
func redeliver(tx *mailbox.Tx, e *mailbox.Entry) {
	switch {
	case tx.HasLeft(e):
		tx.Move(e, mailbox.Ignore, "asked to leave after it was deferred")
	case escalateFurther(tx, e):
	case tx.Options().Async:
		GiveUp(tx, e, "deferred and never settled")
	default:
		tx.Requeue(e)
	}
}

package mailbox

import (
	"time"

	"hubbub/peers/attention"
	"hubbub/protocol"
)

// Move changes the state of an event as the table says, and records the
// disposition if that changed. Where the table has no entry, it does nothing. It
// stores the rest of the status, too.
func (tx *Tx) Move(e *Entry, c Cause, reason string) error {
	to, ok := Next(e.State, c)
	if !ok {
		return nil
	}
	before := e.Disposition()
	if c == Claim {
		e.Claimed = true
	} else if to == Deferred || e.State == Deferred {
		e.Claimed = false
	}
	if e.State = to; to == Answered || !e.Open() {
		e.DeadlineAt = time.Time{}
	}
	if err := tx.Save(e); err != nil {
		return err
	}
	d := e.Disposition()
	if d == before || d == "" {
		return nil
	}
	if err := tx.m.opts.Broker.Disposed(tx, e, d, reason); err != nil {
		return err
	}
	return tx.Record(uniqueKey("disposition", e.Seq), e, protocol.Disposition{
		Event: "disposition", EventID: e.EventID, Agent: tx.m.id, Disposition: string(d), Reason: reason,
	})
}

// Fail ends an event that got no answer. Whoever was owed one is told once.
func (tx *Tx) Fail(e *Entry, reason string) error {
	return tx.FailTelling(e, reason, "I could not answer this message. Please send it again, or ask somebody else.")
}

// FailTelling is Fail with the words of the notice.
func (tx *Tx) FailTelling(e *Entry, reason, notice string) error {
	if e.Decision.Policy != attention.PolicyMustRespond {
		return tx.Move(e, Ignore, reason)
	}
	if !e.Open() {
		return nil
	}
	if err := tx.Move(e, Fail, reason); err != nil {
		return err
	}
	if e.Content.Author.Kind != string(attention.AuthorHuman) || e.FromBroker() {
		return nil // two programs would talk about it for ever
	}
	return tx.Notice(e, NoticeFailed, notice)
}

// Finish ends a turn well and gives its event the disposition that is due. e may be
// nil.
func (tx *Tx) Finish(t *Turn, e *Entry, cost Cost) error {
	cost.DurationMS = time.Since(t.StartedAt).Milliseconds()
	if err := tx.MoveTurn(t, TurnFinished, "", cost); err != nil || e == nil || e.Settled() {
		return err
	}
	switch {
	case !e.DeadlineAt.IsZero(): // another agent has it; it may be offered again
		return nil
	case e.Claimed && t.Mode != attention.ModeNotify && e.Decision.Reason == "claim_granted" && !e.Acted:
		return tx.Move(e, Ignore, "claimed, and not answered")
	case e.Claimed:
		return tx.watchClaimed(t, e)
	case e.Decision.Policy == attention.PolicyMustRespond:
		return tx.Fail(e, "the turn ended without an answer")
	case e.Decision.Policy == attention.PolicyAckOnly:
		return tx.Move(e, Acknowledge, "seen")
	}
	return tx.Move(e, Ignore, "no answer was needed")
}

// FinishAccepted ends the turn of an event that a program works on in its own time,
// once it has done what ends a turn.
func (tx *Tx) FinishAccepted(t *Turn, e *Entry) error {
	if t == nil || t.State != TurnAccepted || !e.Settled() {
		return nil
	}
	return tx.Finish(t, e, Cost{})
}

// watchClaimed gives a claimed event that no other turn will take up a deadline: a
// promise must end.
func (tx *Tx) watchClaimed(t *Turn, e *Entry) error {
	others, err := tx.turns(`WHERE event_id = ? AND turn_id <> ? AND `+isLive, e.EventID, t.ID)
	if err != nil || len(others) > 0 {
		return err
	}
	return tx.WaitFor(e)
}

// WaitFor gives an event that no turn is at a deadline, at which it ends.
func (tx *Tx) WaitFor(e *Entry) error {
	e.DeadlineAt = time.Now().Add(tx.m.opts.Attention.Deadline)
	return tx.Save(e)
}

// Expire does what is due at an event's deadline: what was deferred comes back, all
// else ends.
func (tx *Tx) Expire(id, reason string) error {
	e, err := tx.Entry(id)
	if err != nil || e == nil || e.DeadlineAt.IsZero() || e.DeadlineAt.After(time.Now()) {
		return err
	}
	e.DeadlineAt = time.Time{}
	if e.State == Deferred {
		return tx.comeBack(e)
	}
	return tx.Fail(e, reason)
}

// Expired returns the ids of the events whose deadline has passed.
func (v View) Expired(now time.Time) (ids []string, err error) {
	list, err := v.entries(`WHERE deadline_at > 0 AND deadline_at <= ?`, timeColumn{&now})
	for _, e := range list {
		ids = append(ids, e.EventID)
	}
	return ids, err
}

// NextDeadline returns the earliest deadline of an event or of an accepted turn, the
// zero time if there is none.
func (v View) NextDeadline() (at time.Time, err error) {
	err = v.q.QueryRowContext(v.ctx, `SELECT coalesce(min(at), 0) FROM (SELECT min(deadline_at) AS at FROM events WHERE deadline_at > 0
		UNION ALL SELECT min(deadline_at) FROM turns WHERE state = 'accepted')`).Scan(timeColumn{&at})
	return at, err
}

// DecideAgain gives an event back whose mode the harness no longer takes.
func (tx *Tx) DecideAgain(t *Turn, e *Entry, reason string) error {
	if err := tx.MoveTurn(t, TurnCancelled, reason, Cost{}); err != nil || e == nil {
		return err
	}
	e.TurnID = ""
	return tx.Move(e, Reopen, reason)
}

// StopPlace stops what runs or waits in the place of a stop word, and supersedes it,
// also what was deferred; an agent's stop word stops only what that agent began.
// What is still in the compose window goes to the model together with the stop
// word.
func (tx *Tx) StopPlace(stop *Entry) error {
	const reason = "stopped on request"
	author := stop.Content.Author
	list, err := tx.turns(`WHERE place = ?1 AND (author = ?2 OR ?3 = 'human') AND chat = ?4 AND mode IN ('immediate', 'buffered') AND `+isLive,
		stop.Place(), author.ID, author.Kind, stop.Chat)
	if err != nil {
		return err
	}
	var ends []*Entry
	for _, t := range list {
		e, err := tx.Entry(t.EventID)
		if err != nil {
			return err
		}
		if err := tx.cancel(t, reason); err != nil {
			return err
		}
		if e != nil && e.State != Answered { // an answer that is on its way counts
			ends = append(ends, e)
		}
	}
	deferred, err := tx.entries(`WHERE conversation = ? AND thread = ? AND chat = ? AND state = 'deferred' AND (author = ? OR ? = 'human')`,
		stop.Content.Chat.ID, stop.Content.Chat.ThreadID, stop.Chat, author.ID, author.Kind)
	if err != nil {
		return err
	}
	for _, e := range append(ends, deferred...) {
		if err := tx.Move(e, Supersede, reason); err != nil {
			return err
		}
	}
	return nil
}

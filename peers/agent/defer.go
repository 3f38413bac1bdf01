package agent

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"hubbub/peers/attention"

	"github.com/oklog/ulid/v2"
)

// Bounds of putting an event off. A model gets a deferred event back; a program
// that works in its own time has it, and gets no second delivery.
const (
	maxDeferrals = 5                  // of one event; then it is answered, declined or failed
	longestRest  = 7 * 24 * time.Hour // before it comes back
	programRests = 96                 // of Options.DeferFor, by default a day: for a program to settle what it deferred
)

// restFor says how long a deferred event rests: until its eta where that is a
// time (RFC 3339) or a duration ("45m"), else for first, doubled at every
// deferral. It is pure.
func restFor(eta string, deferrals int, first time.Duration, now time.Time) time.Duration {
	rest := first << min(deferrals, maxDeferrals)
	if at, err := time.Parse(time.RFC3339, eta); err == nil {
		rest = at.Sub(now)
	} else if d, err := time.ParseDuration(eta); err == nil {
		rest = d
	}
	return min(max(rest, time.Second), longestRest)
}

// permitDeferral refuses to put off what was put off too often.
func permitDeferral(e *entry) attention.Refusal {
	if e == nil || e.Deferrals < maxDeferrals || e.Disposition == attention.DispositionDeferred {
		return attention.Refusal{}
	}
	return attention.Refusal{
		Reason: "deferred_too_often",
		Advice: fmt.Sprintf("This event was put off %d times. Answer it now, or say plainly that you cannot and why.", e.Deferrals),
	}
}

// putOff gives an event the disposition deferred, once, and says when it comes
// back. The turn that did it is not run again after a crash.
func (a *Agent) putOff(ctx context.Context, tx *sql.Tx, e *entry, eta, reason string) error {
	if e.Disposition == attention.DispositionDeferred {
		return nil
	}
	now := time.Now()
	rest := restFor(eta, e.Deferrals, a.opts.DeferFor, now)
	if a.ownTime() {
		rest = max(rest, programRests*a.opts.DeferFor)
	}
	e.DeadlineAt, e.Deferrals, e.Acted = now.Add(rest), e.Deferrals+1, true
	_, err := tx.ExecContext(ctx, `UPDATE events SET deadline_at = ?, deferrals = ?, acted = 1 WHERE seq = ?`, micros(e.DeadlineAt), e.Deferrals, e.Seq)
	if err != nil {
		return fmt.Errorf("storing when %s comes back: %w", e.EventID, err)
	}
	return a.dispose(ctx, tx, e, attention.DispositionDeferred, reason)
}

// comeBack gives a deferred event to the model once more: the same event, the
// next attempt, with what was edited since. One that a program deferred, and
// never settled, ends.
func (a *Agent) comeBack(ctx context.Context, tx *sql.Tx, e *entry) error {
	var s attention.Standing
	if err := a.standingPlace(ctx, tx, e, &s); err != nil {
		return err
	}
	switch {
	case s.Left:
		return a.dispose(ctx, tx, e, attention.DispositionIgnored, "asked to leave since it was deferred")
	case a.ownTime():
		return a.fail(ctx, tx, e, "deferred, and never settled")
	}
	t, err := a.turnAgain(ctx, tx, e)
	if err != nil {
		return err
	}
	e.Disposition, e.Acted, e.DeadlineAt, e.TurnID = "", false, time.Time{}, t.ID
	_, err = tx.ExecContext(ctx, `UPDATE events SET disposition = '', disposed_at = 0, acted = 0, deadline_at = 0, turn_id = ? WHERE seq = ?`, t.ID, e.Seq)
	if err != nil {
		return fmt.Errorf("bringing back %s: %w", e.EventID, err)
	}
	return nil
}

// turnAgain queues another turn of an event, with all its fragments and the
// attempts counted on.
func (a *Agent) turnAgain(ctx context.Context, tx *sql.Tx, e *entry) (*turn, error) {
	before, err := turnByID(ctx, tx, e.TurnID)
	if err != nil {
		return nil, err
	}
	home, err := a.homeOf(ctx, tx, e)
	if err != nil {
		return nil, err
	}
	t := &turn{
		ID: "turn_" + ulid.Make().String(), EventID: e.EventID, Merged: []string{e.EventID}, Chat: home, Place: e.place(),
		Author: e.Content.Author.ID, Mode: e.Decision.Injection, State: turnQueued, Seq: e.Seq, Rank: rankNormal, FirstAt: e.Received, NotBefore: time.Now(),
	}
	if before != nil {
		t.Attempt, t.Merged = before.Attempt, before.Merged
	}
	return t, saveTurn(ctx, tx, t)
}

// forgetDeferred supersedes what the agent has put off in the place of a stop
// word: for a person everything, for an agent what that agent said.
func (a *Agent) forgetDeferred(ctx context.Context, tx *sql.Tx, stop *entry) error {
	author := stop.Content.Author
	list, err := entries(ctx, tx, `WHERE conversation = ? AND thread = ? AND chat = ? AND disposition = 'deferred' AND (author = ? OR ? = 'human')`,
		stop.Content.Chat.ID, stop.Content.Chat.ThreadID, stop.Chat, author.ID, author.Kind)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := a.dispose(ctx, tx, e, attention.DispositionSuperseded, "stopped on request"); err != nil {
			return err
		}
	}
	return nil
}

// deferralNotes tells the model which event came back, and what else it has put
// off in the conversation, as header lines.
func (a *Agent) deferralNotes(ctx context.Context, tx *sql.Tx, e *entry) ([]string, error) {
	var notes []string
	if e.Deferrals > 0 {
		notes = append(notes, fmt.Sprintf("deferred_before: %d of at most %d times", e.Deferrals, maxDeferrals))
	}
	list, err := entries(ctx, tx, `WHERE conversation = ? AND chat = ? AND disposition = 'deferred' AND seq <> ? ORDER BY seq LIMIT 20`,
		e.Content.Chat.ID, e.Chat, e.Seq)
	for _, other := range list {
		notes = append(notes, "deferred_by_you: "+other.EventID)
	}
	return notes, err
}

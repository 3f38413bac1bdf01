package mailbox

import "time"

// Bounds of putting an event off. A model gets a deferred event back; a program
// that works in its own time has it, and gets no second delivery.
const (
	MaxDeferrals = 5                  // of one event; then it is answered, declined or failed
	longestRest  = 7 * 24 * time.Hour // before it comes back
	programRests = 96                 // of Options.DeferFor, by default a day: for a program to settle what it deferred
)

// restFor returns how long a deferred event rests: until its eta if that is a time
// (RFC 3339) or a duration ("45m"), else for first, doubled at every deferral.
func restFor(eta string, deferrals int, first time.Duration, now time.Time) time.Duration {
	rest := first << min(deferrals, MaxDeferrals)
	if at, err := time.Parse(time.RFC3339, eta); err == nil {
		rest = at.Sub(now)
	} else if d, err := time.ParseDuration(eta); err == nil {
		rest = d
	}
	return min(max(rest, time.Second), longestRest)
}

// PutOff defers an event and sets when it comes back. An event that is deferred
// already stays as it is.
func (tx *Tx) PutOff(e *Entry, eta, reason string) {
	if _, ok := Next(e.State, Defer); !ok {
		return
	}
	now := time.Now()
	rest := restFor(eta, e.Deferrals, tx.m.opts.DeferFor, now)
	if tx.m.opts.OwnTime {
		rest = max(rest, programRests*tx.m.opts.DeferFor)
	}
	e.DeadlineAt, e.Deferrals = now.Add(rest), e.Deferrals+1
	tx.Move(e, Defer, reason)
}

// comeBack gives a deferred event to the model once more: the same event, the next
// attempt, with what was edited since. One that a program deferred, and never
// settled, ends.
func comeBack(tx *Tx, e *Entry) {
	switch {
	case tx.place(e).gone():
		tx.Move(e, Ignore, "asked to leave since it was deferred")
	case tx.m.opts.OwnTime:
		tx.GiveUp(e, "deferred, and never settled")
	default:
		tx.Again(e)
	}
}

// DeferredBeside returns the other deferred events of an event's conversation, at
// most 20.
func (v *View) DeferredBeside(e *Entry) []*Entry {
	return v.entries(`WHERE conversation = ? AND chat = ? AND state = 'deferred' AND seq <> ? ORDER BY seq LIMIT 20`, e.Content.Chat.ID, e.Chat, e.Seq)
}

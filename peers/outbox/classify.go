package outbox

import (
	"errors"
	"fmt"
	"time"

	"hubbub/protocol/retry"
	"hubbub/protocol/text"
)

// Retry returns the error of an attempt that must be repeated after the given delay,
// such as a server's retry_after. Zero or less means the usual backoff.
func Retry(after time.Duration, err error) error { return &retryError{after, true, err} }

// Later is Retry with a delay that the receiver did not ask for: it is never longer than
// Options.MaxBackoff, and Hurry ends it if it is called after the attempt.
func Later(after time.Duration, err error) error { return &retryError{after, false, err} }

// Permanent returns the error of an attempt whose repetition would fail as well: the
// item becomes a dead letter.
func Permanent(err error) error { return &permanentError{err} }

// Drop returns the error of an attempt that need not be repeated, because nobody misses
// the item: it is settled as dropped, and is not a dead letter.
func Drop(err error) error { return &dropError{err} }

// Unknown returns the error of an attempt that may or may not have had its effect: the
// item is settled as unknown and not repeated.
func Unknown(err error) error { return &unknownError{err} }

type retryError struct {
	after time.Duration
	paced bool
	err   error
}
type permanentError struct{ err error }
type dropError struct{ err error }
type unknownError struct{ err error }

func (e *retryError) Error() string     { return reason(e.err) }
func (e *permanentError) Error() string { return reason(e.err) }
func (e *dropError) Error() string      { return reason(e.err) }
func (e *unknownError) Error() string   { return reason(e.err) }
func (e *retryError) Unwrap() error     { return e.err }
func (e *permanentError) Unwrap() error { return e.err }
func (e *dropError) Unwrap() error      { return e.err }
func (e *unknownError) Unwrap() error   { return e.err }

// A classified error, such as *peer.UndeliveredError, says itself what follows: a needless
// item is dropped, a permanently failed one is a dead letter. Wrapping it with Retry
// overrules it.
type classified interface {
	error
	Permanent() bool
	Droppable() bool
}

// WillRetry reports whether an item stays open after an attempt that ended with err: there
// will be another attempt, unless the item is too old.
func WillRetry(err error) bool {
	v := (&Options{}).decide(Item{ExpiresAt: time.Unix(1<<40, 0)}, err, false, time.Time{}, 0)
	return v.state == StatePending
}

// A decision is what follows from one attempt: a new state, and for a pending
// item the time before which it is not attempted again.
type decision struct {
	state     State
	notBefore time.Time
	fixed     bool // the delay was named by Retry, so Hurry does not shorten it
	explicit  bool // the delay was named by Retry or Later, so a Hurry during the attempt does not shorten it
	cause     error
}

// decide returns the verdict on an attempt that ended with err. interrupted is true if
// the outbox itself cut off the attempt. random is in [0,1).
func (o *Options) decide(item Item, err error, interrupted bool, now time.Time, random float64) decision {
	var again *retryError
	var permanent *permanentError
	var drop *dropError
	var unknown *unknownError
	var known classified
	delay, paced, named := o.backoff(item.Attempt, random), false, false
	switch {
	case err == nil:
		return decision{state: StateSent}
	case errors.As(err, &unknown):
		return decision{state: StateUnknown, cause: err}
	case errors.As(err, &permanent):
		return decision{state: StateDead, cause: err}
	case errors.As(err, &drop):
		return decision{state: StateDropped, cause: err}
	case errors.As(err, &again):
		if again.after > 0 {
			delay, paced, named = again.after, again.paced, true
		}
		if !paced {
			delay = min(delay, o.MaxBackoff)
		}
	case errors.As(err, &known) && known.Droppable():
		return decision{state: StateDropped, cause: err}
	case errors.As(err, &known) && known.Permanent():
		return decision{state: StateDead, cause: err}
	case interrupted && o.OnInterrupted == SettleUnknown:
		return decision{state: StateUnknown, cause: fmt.Errorf("the attempt was cut off: %w", err)}
	}
	next := now.Add(delay)
	if !next.Before(item.ExpiresAt) {
		return decision{state: StateDead, cause: fmt.Errorf("given up %s after it was queued, at attempt %d: %w",
			item.ExpiresAt.Sub(item.EnqueuedAt).Round(time.Second), item.Attempt, err)}
	}
	return decision{state: StatePending, notBefore: next, fixed: paced, explicit: named, cause: err}
}

// expired returns the verdict on an item that became too old while it waited.
func expired(item Item) decision {
	last := item.Error
	if last == "" {
		last = "it was never attempted"
	}
	return decision{state: StateDead, cause: fmt.Errorf("given up %s after it was queued: %s",
		item.ExpiresAt.Sub(item.EnqueuedAt).Round(time.Second), last)}
}

// backoff returns the delay after an attempt that failed.
func (o *Options) backoff(attempt int, random float64) time.Duration {
	return retry.Backoff{Min: o.MinBackoff, Max: o.MaxBackoff}.At(attempt, random)
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return text.Prefix(err.Error(), maxError)
}

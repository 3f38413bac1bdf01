package outbox

import (
	"errors"
	"fmt"
	"time"

	"hubbub/protocol/retry"
	"hubbub/protocol/text"
)

// Retry makes the error of an attempt that shall be repeated after the given
// delay (a server's retry_after, for example); zero or less means the usual
// backoff.
func Retry(after time.Duration, err error) error { return &retryError{after, true, err} }

// Later is Retry with a delay that nobody asked for: Hurry ends it, if it is called
// after the attempt, and it is never longer than Options.MaxBackoff.
func Later(after time.Duration, err error) error { return &retryError{after, false, err} }

// Permanent makes the error of an attempt that no repetition can mend: the item
// becomes a dead letter.
func Permanent(err error) error { return &permanentError{err} }

// Drop makes the error of an attempt that nobody needs to have repeated, because
// nobody misses what was to be sent: the item is settled as dropped, and is no
// dead letter.
func Drop(err error) error { return &dropError{err} }

// Unknown makes the error of an attempt that may have had its effect and may
// not: the item is settled as unknown and not repeated.
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

// A classified error says by itself what follows from it, as *peer.Undelivered
// does: what is needless is dropped, what is permanent is a dead letter. Retry
// around it overrules it.
type classified interface {
	error
	Permanent() bool
	Needless() bool
}

// Open reports whether the error of an attempt leaves the item open: there will be
// another attempt, unless the item is too old.
func Open(err error) bool {
	v := (&Options{}).judge(Item{ExpiresAt: time.Unix(1<<40, 0)}, err, false, time.Time{}, 0)
	return v.state == StatePending
}

// A verdict is what follows from one attempt: a new state, and for a pending
// item the time before which it is not attempted again.
type verdict struct {
	state     State
	notBefore time.Time
	paced     bool // the delay was asked for by Retry: Hurry does not shorten it
	named     bool // the delay was asked for by Retry or Later: a Hurry before does not shorten it
	cause     error
}

// judge decides what follows from an attempt that ended with err. interrupted
// says that the outbox itself cut the attempt off. random is in [0,1).
func (o *Options) judge(item Item, err error, interrupted bool, now time.Time, random float64) verdict {
	var again *retryError
	var permanent *permanentError
	var drop *dropError
	var unknown *unknownError
	var known classified
	delay, paced, named := o.pause(item.Attempt, random), false, false
	switch {
	case err == nil:
		return verdict{state: StateSent}
	case errors.As(err, &unknown):
		return verdict{state: StateUnknown, cause: err}
	case errors.As(err, &permanent):
		return verdict{state: StateDead, cause: err}
	case errors.As(err, &drop):
		return verdict{state: StateDropped, cause: err}
	case errors.As(err, &again):
		if again.after > 0 {
			delay, paced, named = again.after, again.paced, true
		}
		if !paced {
			delay = min(delay, o.MaxBackoff)
		}
	case errors.As(err, &known) && known.Needless():
		return verdict{state: StateDropped, cause: err}
	case errors.As(err, &known) && known.Permanent():
		return verdict{state: StateDead, cause: err}
	case interrupted && o.OnInterrupted == GiveUpUnknown:
		return verdict{state: StateUnknown, cause: fmt.Errorf("the attempt was cut off: %w", err)}
	}
	next := now.Add(delay)
	if !next.Before(item.ExpiresAt) {
		return verdict{state: StateDead, cause: fmt.Errorf("given up %s after it was queued, at attempt %d: %w",
			item.ExpiresAt.Sub(item.EnqueuedAt).Round(time.Second), item.Attempt, err)}
	}
	return verdict{state: StatePending, notBefore: next, paced: paced, named: named, cause: err}
}

// expired is the verdict on an item whose time ran out while it waited.
func expired(item Item) verdict {
	last := item.Error
	if last == "" {
		last = "it was never attempted"
	}
	return verdict{state: StateDead, cause: fmt.Errorf("given up %s after it was queued: %s",
		item.ExpiresAt.Sub(item.EnqueuedAt).Round(time.Second), last)}
}

// pause returns the delay after an attempt that failed.
func (o *Options) pause(attempt int, random float64) time.Duration {
	return retry.Backoff{Min: o.MinBackoff, Max: o.MaxBackoff}.At(attempt, random)
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return text.Prefix(err.Error(), maxError)
}

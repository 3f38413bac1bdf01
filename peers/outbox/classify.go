package outbox

import (
	"errors"
	"fmt"
	"time"

	"hubbub/protocol/retry"
	"hubbub/protocol/text"
)

// Retry returns the error of an attempt that must be repeated after a delay, such as the
// retry_after of a server. Zero or less means the usual backoff.
func Retry(after time.Duration, err error) error { return &retryError{after, true, err} }

// Later is Retry with a delay that the receiver did not request. It is never longer than
// Options.MaxBackoff, and RetryNow ends it after the attempt.
func Later(after time.Duration, err error) error { return &retryError{after, false, err} }

// Permanent returns the error of an attempt that would fail again: the item becomes a dead
// letter.
func Permanent(err error) error { return &permanentError{err} }

// Drop returns the error of an attempt that need not be repeated, because nobody needs the item
// any more. The item is settled as dropped and is not a dead letter.
func Drop(err error) error { return &dropError{err} }

// Unknown returns the error of an attempt that may have had its effect. The item is settled as
// unknown and not repeated.
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

// A classified error, such as *peer.UndeliveredError, decides what follows: a droppable item is
// dropped, a permanent failure becomes a dead letter. Wrapping it with Retry overrides it.
type classified interface {
	error
	Permanent() bool
	Droppable() bool
}

// WillRetry reports whether an item stays open after an attempt that ended with err. There will
// be another attempt unless the item expires.
func WillRetry(err error) bool {
	v := (&Options{}).decide(Item{ExpiresAt: time.Unix(1<<40, 0)}, err, false, time.Time{}, 0)
	return v.state == StatePending
}

// A decision is the result of one attempt: a new state and, for a pending item, the earliest time
// of the next attempt.
type decision struct {
	state     State
	notBefore time.Time
	fixed     bool // Retry named the delay, so RetryNow does not shorten it
	explicit  bool // Retry or Later named the delay, so a RetryNow during the attempt does not shorten it
	cause     error
}

// decide returns the decision on an attempt that ended with err. interrupted is true if the
// outbox itself ended the attempt. random is in [0,1).
func (o *Options) decide(item Item, err error, interrupted bool, now time.Time, random float64) decision {
	var again *retryError
	var permanent *permanentError
	var drop *dropError
	var unknown *unknownError
	var known classified
	delay, paced, named := o.retryDelay(item.Attempt, random), false, false
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

// expired returns the decision on an item that expired while it waited.
func expired(item Item) decision {
	last := item.Error
	if last == "" {
		last = "it was never attempted"
	}
	return decision{state: StateDead, cause: fmt.Errorf("given up %s after it was queued: %s",
		item.ExpiresAt.Sub(item.EnqueuedAt).Round(time.Second), last)}
}

// retryDelay returns the delay after a failed attempt.
func (o *Options) retryDelay(attempt int, random float64) time.Duration {
	return retry.Backoff{Min: o.MinBackoff, Max: o.MaxBackoff}.At(attempt, random)
}

func reason(err error) string {
	if err == nil {
		return ""
	}
	return text.Prefix(err.Error(), maxError)
}

package outbox

import "time"

// ErrCrash stops an outbox as a kill would: nothing more is written.
var ErrCrash = errCrash

// CrashWith calls at for every point between two effects; the outbox stops where it
// returns ErrCrash.
func (o *Outbox) CrashWith(at func(point string) error) { o.crash = at }

// Backoff exposes the delay after an attempt.
func (o *Outbox) Backoff(attempt int, random float64) time.Duration {
	return o.opts.retryDelay(attempt, random)
}

// SelectUnsent is the query of an outbox that has nothing to do.
const SelectUnsent = selectUnsent

// Package retry waits between attempts.
//
// Guarantees: a wait ends early when its context does, and says so; a backoff
// doubles from its first to its longest delay and never leaves these bounds;
// delays are drawn at random, so that those who failed together do not come
// back together.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d and reports whether it did: false means that ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A Backoff gives the delays between attempts that fail in a row.
type Backoff struct {
	Min time.Duration // the first delay, and the shortest
	Max time.Duration // the longest
}

// After returns the delay after the given number of failures in a row, which
// counts from 1: between one and two steps, where the step doubles with each
// failure.
func (b Backoff) After(failures int) time.Duration { return b.At(failures, rand.Float64()) }

// At is After with the random number, in [0,1), given.
func (b Backoff) At(failures int, random float64) time.Duration {
	step := b.Min
	for i := 1; i < failures && step < b.Max/2; i++ {
		step *= 2
	}
	step = max(min(step, b.Max/2), b.Min)
	return min(step+time.Duration(random*float64(step)), b.Max)
}

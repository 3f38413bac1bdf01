// Package retry waits between attempts.
//
// Guarantees: a wait ends early when its context ends. A backoff doubles from its shortest to its
// longest delay and stays within these bounds. Delays are random, so clients that failed together
// do not retry together.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d. It returns false if ctx ended first.
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

// A Backoff computes the delays between consecutive failures.
type Backoff struct {
	Min time.Duration // the first delay, and the shortest
	Max time.Duration // the longest
}

// After returns the delay after the given number of consecutive failures, starting at 1. The
// delay is between one and two steps, and the step doubles with each failure.
func (b Backoff) After(failures int) time.Duration { return b.At(failures, rand.Float64()) }

// At is like After, with a given random number in [0,1).
func (b Backoff) At(failures int, random float64) time.Duration {
	step := b.Min
	for i := 1; i < failures && step < b.Max/2; i++ {
		step *= 2
	}
	step = max(min(step, b.Max/2), b.Min)
	return min(step+time.Duration(random*float64(step)), b.Max)
}

package harness

import (
	"context"
	"math/rand/v2"
	"time"
)

// A Clock is where a harness takes its time from. The zero Clock is the wall's.
type Clock struct {
	NowFunc   func() time.Time
	SleepFunc func(ctx context.Context, d time.Duration) error // returns ctx's cause when it ends first
}

// Now returns the time.
func (c Clock) Now() time.Time {
	if c.NowFunc != nil {
		return c.NowFunc()
	}
	return time.Now()
}

// Sleep waits for d, or until ctx ends and then returns its cause.
func (c Clock) Sleep(ctx context.Context, d time.Duration) error {
	if c.SleepFunc != nil {
		return c.SleepFunc(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Backoff returns how long to wait before try number n (from 1 for the first
// repetition): from lowest, doubled each time up to highest, less a random
// part of at most half.
func Backoff(n int, lowest, highest time.Duration) time.Duration {
	d := lowest
	for i := 1; i < n && d < highest; i++ {
		d *= 2
	}
	d = min(d, highest)
	return d - rand.N(d/2+1)
}

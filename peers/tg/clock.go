package tg

import (
	"context"
	"math/rand/v2"
	"time"
)

// backoff is the pause after the given number of failures: it doubles from 1 s
// to 60 s, with jitter.
func backoff(failures int) time.Duration { return backoffUpTo(failures, time.Minute) }

func backoffUpTo(failures int, most time.Duration) time.Duration {
	step := time.Second << min(max(failures-1, 0), 10)
	step = min(step, most)
	return step/2 + rand.N(step/2+1)
}

// sleep waits; false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// wake makes a loop look again. It never blocks.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

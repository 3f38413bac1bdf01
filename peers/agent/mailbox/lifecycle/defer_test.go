package lifecycle

import (
	"testing"
	"time"
)

func TestDeferDelay_FollowsItsRequest(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	const first = 15 * time.Minute
	for _, c := range []struct {
		until     time.Duration // from now; 0 if it is not said
		deferrals int
		want      time.Duration
	}{
		{0, 0, 15 * time.Minute},
		{0, 1, 30 * time.Minute},
		{0, 4, 4 * time.Hour},
		{0, 5, 8 * time.Hour},
		{0, 9, 8 * time.Hour},
		{45 * time.Minute, 3, 45 * time.Minute},
		{-time.Hour, 0, time.Second},
		{10 * time.Millisecond, 0, time.Second},
		{2000 * time.Hour, 0, 7 * 24 * time.Hour},
	} {
		var until time.Time
		if c.until != 0 {
			until = now.Add(c.until)
		}
		if got := deferDuration(until, c.deferrals, first, now); got != c.want {
			t.Errorf("until %v after %d deferrals it rests %v; want %v", c.until, c.deferrals, got, c.want)
		}
	}
}

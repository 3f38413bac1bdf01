package lifecycle

import (
	"testing"
	"time"
)

func TestHowLongADeferredEventRests(t *testing.T) {
	now := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	const first = 15 * time.Minute
	for _, c := range []struct {
		eta       string
		deferrals int
		want      time.Duration
	}{
		{"", 0, 15 * time.Minute},
		{"", 1, 30 * time.Minute},
		{"", 4, 4 * time.Hour},
		{"", 5, 8 * time.Hour},
		{"", 9, 8 * time.Hour},
		{"after lunch", 0, 15 * time.Minute},
		{"45m", 3, 45 * time.Minute},
		{"2026-06-01T14:00:00Z", 3, 2 * time.Hour},
		{"2026-06-01T11:00:00Z", 0, time.Second},
		{"-5m", 0, time.Second},
		{"10ms", 0, time.Second},
		{"2000h", 0, 7 * 24 * time.Hour},
		{"2027-06-01T14:00:00Z", 0, 7 * 24 * time.Hour},
	} {
		if got := deferDuration(c.eta, c.deferrals, first, now); got != c.want {
			t.Errorf("until %q after %d deferrals it rests %v; want %v", c.eta, c.deferrals, got, c.want)
		}
	}
}

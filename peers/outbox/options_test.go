package outbox

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestWhatHoldsWithoutOptions: the bounds that the documentation names.
func TestWhatHoldsWithoutOptions(t *testing.T) {
	want := Options{
		MinBackoff: time.Second, MaxBackoff: time.Minute, MaxAge: 24 * time.Hour, MaxPending: 10_000, MaxPerDestination: 2_500, MaxBody: 4 << 20,
		Parallel: 16, AttemptTimeout: 2 * time.Minute, StopTimeout: 5 * time.Second, Poll: 5 * time.Second,
		Retention: 7 * 24 * time.Hour, DeadRetention: 30 * 24 * time.Hour,
	}
	beside := cmpopts.IgnoreFields(Options{}, "OnSettled", "AfterSettled", "Now", "Jitter", "Log")
	hooks := cmpopts.IgnoreUnexported(Options{})
	if diff := cmp.Diff(want, (*Options)(nil).withDefaults(), beside, hooks); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	small := (&Options{MaxPending: 3, MinBackoff: time.Hour}).withDefaults()
	if small.MaxPerDestination != 1 || small.MaxBackoff != time.Hour {
		t.Errorf("small ones give %d for a destination and %v at most", small.MaxPerDestination, small.MaxBackoff)
	}
}

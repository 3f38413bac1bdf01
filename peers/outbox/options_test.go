package outbox

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestOptions_HaveTheDocumentedDefaults(t *testing.T) {
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

// TestNextState_AfterAnAttempt covers each kind of error, up to the moment at which an item is
// too old.
func TestNextState_AfterAnAttempt(t *testing.T) {
	why, begun := errors.New("why"), time.Unix(1_000_000, 0)
	now := begun.Add(time.Hour)
	again := func(after time.Duration, paced, named bool) decision {
		return decision{state: StatePending, notBefore: now.Add(after), fixed: paced, explicit: named}
	}
	for name, c := range map[string]struct {
		err         error
		interrupted bool
		expires     time.Duration // from now
		want        decision
		cause       string
	}{
		"sent":                       {nil, false, time.Hour, decision{state: StateSent}, ""},
		"sent although cut off":      {nil, true, time.Hour, decision{state: StateSent}, ""},
		"failed":                     {why, false, time.Hour, again(4*time.Second, false, false), "why"},
		"cut off":                    {why, true, time.Hour, decision{state: StateUnknown}, "the attempt was cut off: why"},
		"cut off, and told to wait":  {Retry(time.Minute, why), true, time.Hour, again(time.Minute, true, true), "why"},
		"cut off for good":           {Permanent(why), true, time.Hour, decision{state: StateDead}, "why"},
		"told to wait for long":      {Retry(30*time.Minute, why), false, time.Hour, again(30*time.Minute, true, true), "why"},
		"waits by itself for long":   {Later(30*time.Minute, why), false, time.Hour, again(10*time.Second, false, true), "why"},
		"waits as ever":              {Later(0, why), false, time.Hour, again(4*time.Second, false, false), "why"},
		"is soon too old":            {why, false, 4*time.Second + 1, again(4*time.Second, false, false), "why"},
		"is too old by then":         {why, false, 4 * time.Second, decision{state: StateDead}, "given up 1h0m4s after it was queued, at attempt 3: why"},
		"is told to wait beyond age": {Retry(time.Hour, why), false, time.Hour, decision{state: StateDead}, "given up 2h0m0s after it was queued, at attempt 3: why"},
		"is not needed":              {Drop(why), false, time.Hour, decision{state: StateDropped}, "why"},
		"is not known":               {Unknown(why), false, time.Hour, decision{state: StateUnknown}, "why"},
	} {
		o := (&Options{OnInterrupted: SettleUnknown, MaxBackoff: 10 * time.Second}).withDefaults()
		item := Item{Attempt: 3, EnqueuedAt: begun, ExpiresAt: now.Add(c.expires)}
		got := o.decide(item, c.err, c.interrupted, now, 0)
		if cause := reason(got.cause); cause != c.cause || c.err != nil && !errors.Is(got.cause, why) {
			t.Errorf("%s: because of %q; want %q", name, cause, c.cause)
		}
		if got.cause = nil; got != c.want {
			t.Errorf("%s: %+v; want %+v", name, got, c.want)
		}
	}
	o := (*Options)(nil).withDefaults() // cut off, it is sent again
	if got := o.decide(Item{Attempt: 1, ExpiresAt: now.Add(time.Hour)}, why, true, now, 0); got.state != StatePending || !got.notBefore.Equal(now.Add(time.Second)) {
		t.Errorf("cut off, and to be sent again: %+v", got)
	}
}

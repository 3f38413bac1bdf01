package bus

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleDetector_FindsEndOfTraffic checks traffic at intervals: after much of it, one idle period begins.
func TestIdleDetector_FindsEndOfTraffic(t *testing.T) {
	var l idleDetector
	frames := uint64(0)
	for i, step := range []struct {
		frames uint64 // since the last look
		want   bool
	}{
		{5, false}, {5, false}, {5, false}, {5, false}, {5, false}, // nothing worth it
		{100_000, false}, {50, true}, {0, false}, // traffic, and its end
		{5000, false}, {0, false}, {0, false}, {0, true}, {0, false}, // not twice within the pause
		{99, false}, {99, false}, {99, false}, {99, false}, {99, false}, {99, false}, {99, false}, {99, false}, {99, false}, {99, false},
		{99, true}, // little by little
	} {
		frames += step.frames
		if got := l.becameIdle(frames, 0); got != step.want {
			t.Errorf("look %d, %d frames more: %t; want %t", i, step.frames, got, step.want)
		}
	}
}

// TestIdleDetector_CountsBytesOfSlowPeers uses few frames, but many bytes that wait for slow peers:
// once they do not wait any more, one idle period begins.
func TestIdleDetector_CountsBytesOfSlowPeers(t *testing.T) {
	var l idleDetector
	for i, step := range []struct {
		waiting int64
		want    bool
	}{
		{idleMinBytes - 1, false}, {0, false}, {0, false}, {0, false}, {0, false}, // not worth it
		{idleMinBytes, false}, {idleMinBytes, false}, {idleMinBytes - 1, true}, {0, false}, {0, false}, {0, false}, {0, false}, {0, false},
		{idleMinBytes, false}, {0, true},
	} {
		if got := l.becameIdle(0, step.waiting); got != step.want {
			t.Errorf("look %d, %d bytes wait: %t; want %t", i, step.waiting, got, step.want)
		}
	}
}

// TestOnIdle_IsCalledAfterTraffic checks that the function is called when the
// traffic of a bus has ended.
func TestOnIdle_IsCalledAfterTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		idlePeriods := 0
		srv := New(nil, &Options{OnIdle: func() { idlePeriods++ }})
		srv.metrics.frames.Store(idleMinFrames)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := srv.run(ctx, nil); err != nil {
			t.Fatal(err)
		}
		if idlePeriods != 1 {
			t.Errorf("%d idle periods; want 1", idlePeriods)
		}
	})
}

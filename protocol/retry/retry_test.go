package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestBackoff_DoublesWithinBounds(t *testing.T) {
	b := Backoff{Min: time.Second, Max: time.Minute}
	for _, tt := range []struct {
		failures int
		random   float64
		want     time.Duration
	}{
		{0, 0, time.Second}, {1, 0, time.Second}, {1, 0.5, 1500 * time.Millisecond}, {2, 0, 2 * time.Second}, {4, 0.25, 10 * time.Second},
		{6, 0, 30 * time.Second}, {6, 0.999999, 59_999_970 * time.Microsecond}, {1 << 40, 0, 30 * time.Second},
	} {
		if got := b.At(tt.failures, tt.random); got != tt.want {
			t.Errorf("At(%d, %v) = %v, want %v", tt.failures, tt.random, got, tt.want)
		}
	}
	for failures := range 100 {
		if got := b.After(failures); got < b.Min || got > b.Max {
			t.Fatalf("After(%d) = %v leaves the bounds", failures, got)
		}
	}
	if got := (Backoff{Min: time.Second, Max: time.Second}).At(3, 0.9); got != time.Second {
		t.Errorf("equal bounds give %v", got)
	}
}

func TestSleep_EndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !Sleep(t.Context(), time.Minute) || time.Since(began) != time.Minute {
			t.Errorf("a whole sleep took %v", time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if Sleep(ctx, time.Minute) || time.Since(began) != time.Second {
			t.Errorf("a sleep whose context ended took %v", time.Since(began))
		}
	})
}

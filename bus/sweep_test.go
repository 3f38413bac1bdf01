package bus

import (
	"context"
	"regexp"
	"runtime"
	"testing"
	"time"
)

// TestALockThatIsHeldStopsThePulse has somebody keep the lock of the sessions, as
// in a deadlock: systemd's watchdog must hear nothing more.
func TestALockThatIsHeldStopsThePulse(t *testing.T) {
	pulses := make(chan int)
	count := 0
	srv := New(nil, &Options{Pulse: func() { count++; pulses <- count }})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeOn(ctx, nil) }()
	for want := 1; want <= 3; want++ {
		if got := <-pulses; got != want {
			t.Fatalf("pulse %d; want %d", got, want)
		}
	}
	srv.mu.Lock()
	waits := regexp.MustCompile(`(?s)goroutine \d+ \[sync\.Mutex\.Lock[^\n]*\n[^\n]*\n(?:[^\n]+\n)*hubbub/bus\.\(\*Server\)\.sweepLoop`)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for buf := make([]byte, 1<<20); !waits.Match(buf[:runtime.Stack(buf, true)]); {
		select {
		case got := <-pulses: // one may have been under way
			if got > 4 {
				t.Fatal("the pulse goes on although the sessions cannot be asked")
			}
		case <-ticker.C:
		}
	}
	srv.mu.Unlock()
	<-pulses
	go func() { // the sweep may be about to tell of another
		for range pulses {
		}
	}()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(pulses)
}

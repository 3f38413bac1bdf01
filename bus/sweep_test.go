package bus

import (
	"context"
	"regexp"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/timetest"
	"hubbub/protocol/wire"
)

// TestSession_IsFreedAfterItsEnd lets a peer receive a message and leave.
// Nobody asks for its topic again, and still nothing keeps the session.
func TestSession_IsFreedAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := New(nil, nil)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- srv.run(ctx, nil) }()
		gone := connectAndLeave(t, srv)
		synctest.Wait()
		timetest.Advance(2 * idleCheckSweeps * (100 * time.Millisecond))
		runtime.GC()
		if gone.Value() != nil {
			t.Error("a session that has ended is still in memory")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// connectAndLeave connects a peer, sends it one message from itself, and leaves.
func connectAndLeave(t *testing.T, srv *Server) weak.Pointer[session] {
	near, far := wire.Pipe(nil)
	srv.start(near, "test", nil)
	write := func(method, params string) {
		if err := far.Write(jsonrpc.AppendRequestText(nil, `"x"`, method, params)); err != nil {
			t.Fatal(err)
		}
	}
	write("initialize", `{"clientId":"cli:x"}`)
	write("subscribe", `{"topic":"t"}`)
	write("sendMessage", `{"topic":"t","payload":{"messageId":"m","type":"agent_event","from":"cli:x","timestamp":"2026-02-17T12:00:00Z","content":{}}}`)
	synctest.Wait()
	if srv.metrics.accepted.Load() != 1 || len(srv.sessions.all()) != 1 {
		t.Fatalf("%d messages, %d sessions; want one of each", srv.metrics.accepted.Load(), len(srv.sessions.all()))
	}
	gone := weak.Make(srv.sessions.all()[0])
	far.Close(wire.CloseNormal, "")
	return gone
}

// TestSweep_StopsCallingOnSweepWhenBlocked holds the lock of the sessions, as in a
// deadlock: systemd's watchdog must get no more reports.
func TestSweep_StopsCallingOnSweepWhenBlocked(t *testing.T) {
	sweeps := make(chan int)
	count := 0
	srv := New(nil, &Options{OnSweep: func() { count++; sweeps <- count }})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeOn(ctx, nil) }()
	for want := 1; want <= 3; want++ {
		if got := <-sweeps; got != want {
			t.Fatalf("sweep %d; want %d", got, want)
		}
	}
	srv.sessions.mu.Lock()
	waits := regexp.MustCompile(`(?s)goroutine \d+ \[sync\.Mutex\.Lock[^\n]*\n[^\n]*\n(?:[^\n]+\n)*hubbub/bus\.\(\*Server\)\.sweepLoop`)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for buf := make([]byte, 1<<20); !waits.Match(buf[:runtime.Stack(buf, true)]); {
		select {
		case got := <-sweeps: // one may have been under way
			if got > 4 {
				t.Fatal("the sweep goes on although the sessions are locked")
			}
		case <-ticker.C:
		}
	}
	srv.sessions.mu.Unlock()
	<-sweeps
	go func() { // the sweep may be about to report another
		for range sweeps {
		}
	}()
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(sweeps)
}

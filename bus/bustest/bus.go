package bustest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"hubbub/activitylog/write"
	"hubbub/bus"
	"hubbub/protocol/defaults"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// Options are the options of the bus, for tests that must not import package bus.
type Options = bus.Options

// A Bus is a bus that runs as long as the test.
type Bus struct {
	Log  string // path of the activity log, empty for none
	opts bus.Options
	addr string

	mu      sync.Mutex // guards the fields below
	server  *bus.Server
	log     *write.Writer
	cancel  context.CancelFunc
	done    chan struct{}
	stopped bool
	streams sync.WaitGroup
}

// Start runs a bus with an activity log and a listener on loopback. No other program can take its
// address during a Restart.
func Start(t testing.TB, opts *bus.Options) *Bus {
	t.Helper()
	b := newBus(opts)
	b.Log = filepath.Join(t.TempDir(), "activity.db")
	b.start(t, FreeAddress(t))
	t.Cleanup(b.Stop)
	return b
}

// StartInMemory runs a bus without a log and without a listener, for synctest. Unless opts says
// otherwise, it checks timeouts only once a second, because hours may pass in a bubble.
func StartInMemory(t testing.TB, opts *bus.Options) *Bus {
	t.Helper()
	b := newBus(opts)
	defaults.Set(&b.opts.SweepInterval, time.Second)
	b.start(t, "")
	t.Cleanup(b.Stop)
	return b
}

// StartLogged is StartInMemory with an activity log.
func StartLogged(t testing.TB, opts *bus.Options) *Bus {
	t.Helper()
	b := newBus(opts)
	b.Log = filepath.Join(t.TempDir(), "activity.db")
	b.start(t, "")
	t.Cleanup(b.Stop)
	return b
}

// StartForExample runs a bus with a listener and without a log, for testable
// examples; Stop ends it.
func StartForExample() *Bus {
	b := newBus(nil)
	b.start(exampleTB{}, "127.0.0.1:0")
	return b
}

// A testReporter is the part of testing.TB that start uses.
type testReporter interface {
	Errorf(format string, a ...any)
	Fatalf(format string, a ...any)
}

// exampleTB replaces testing.TB in an example.
type exampleTB struct{}

func (exampleTB) Errorf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }
func (exampleTB) Fatalf(format string, a ...any) { panic(fmt.Sprintf(format, a...)) }

func newBus(opts *bus.Options) *Bus {
	b := &Bus{}
	if opts != nil {
		b.opts = *opts
	}
	return b
}

func (b *Bus) start(t testReporter, addr string) {
	ctx, cancel := context.WithCancel(context.Background())
	var log bus.Log
	logDone := make(chan struct{})
	logCtx, endLog := context.WithCancel(context.Background())
	if b.Log != "" {
		w := write.NewWriter(b.Log, &write.Options{Bus: b.opts.Name})
		b.log, log = w, w
		go func() {
			defer close(logDone)
			if err := w.Run(logCtx); err != nil {
				t.Errorf("the activity log ended: %v", err)
			}
		}()
	} else {
		close(logDone)
	}
	var listener net.Listener
	if addr != "" {
		var err error
		if listener, err = listen(addr); err != nil {
			t.Fatalf("listening for the bus: %v", err)
		}
		b.addr = listener.Addr().String()
	}
	server := bus.New(log, &b.opts)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.ServeOn(ctx, listener); err != nil {
			t.Errorf("the bus ended: %v", err)
		}
		endLog()
		<-logDone
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.server, b.cancel, b.done, b.stopped = server, cancel, done, false
}

// listen listens at an address that only this bus uses. A child process of another test may hold the
// socket that was there before, until it runs its program. listen waits at most a minute for that.
func listen(addr string) (net.Listener, error) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		l, err := net.Listen("tcp", addr)
		if !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return l, err
		}
	}
}

// URL returns the address of the bus's WebSocket. A Restart keeps it.
func (b *Bus) URL() string { return "ws://" + b.addr }

// Server returns the running bus.
func (b *Bus) Server() *bus.Server {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.server
}

// Stop stops the bus and waits for its end.
func (b *Bus) Stop() {
	b.mu.Lock()
	b.stopped = true
	cancel, done := b.cancel, b.done
	b.mu.Unlock()
	cancel()
	<-done
	b.streams.Wait()
}

// Restart stops the bus and starts a new one at the same address.
func (b *Bus) Restart(t testing.TB) {
	t.Helper()
	b.Stop()
	b.start(t, b.addr)
}

// errStopped is the error of Dial while the bus is stopped.
var errStopped = errors.New("the bus of this test is stopped")

// Dial connects in memory. It is a peer.DialFunc.
func (b *Bus) Dial(context.Context) (jsonrpc.Stream, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return nil, errStopped
	}
	ours, theirs := wire.Pipe(nil)
	server := b.server
	b.streams.Go(func() { server.ServeStream(theirs, "in memory", nil) })
	return ours, nil
}

// Sync waits until everything so far is in the activity log.
func (b *Bus) Sync(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), defaultTimeout)
	defer cancel()
	if err := b.log.Sync(ctx); err != nil {
		t.Fatalf("waiting for the activity log: %v", err)
	}
}

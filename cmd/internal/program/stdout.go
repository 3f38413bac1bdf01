package program

import (
	"errors"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"
)

// A stdoutWriter is the standard output of a command. It knows whether the stream hangs, because its
// reader was stopped or a person paused the terminal.
type stdoutWriter struct {
	file     *os.File
	began    atomic.Pointer[time.Time] // of the current Write; nil without one
	onBroken func()                    // see Env.OnBrokenPipe; may be nil
}

// Write is for one goroutine at a time.
func (w *stdoutWriter) Write(p []byte) (int, error) {
	now := time.Now()
	w.began.Store(&now)
	defer w.began.Store(nil)
	n, err := w.file.Write(p)
	if w.onBroken != nil && errors.Is(err, syscall.EPIPE) {
		w.onBroken()
	}
	return n, err
}

// Fd returns the descriptor, for the test whether this is a terminal.
func (w *stdoutWriter) Fd() uintptr { return w.file.Fd() }

// blocked reports whether a Write has been running for at least d.
func (w *stdoutWriter) blocked(d time.Duration) bool {
	began := w.began.Load()
	return began != nil && time.Since(*began) >= d
}

// OnBrokenPipe calls f at each write to a standard output that nothing reads any more, as in
// `hubbub demo | head`. Otherwise, the first such write ends the process by SIGPIPE, before it has
// stopped its programs and removed its files. Call it before the first write.
func (e *Env) OnBrokenPipe(f func()) {
	if w, ok := e.Stdout.(*stdoutWriter); ok {
		w.onBroken = f
		// With a channel for it, SIGPIPE no longer ends the process: writes return EPIPE. Nothing reads the channel.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
}

package program

import (
	"os"
	"sync/atomic"
	"time"
)

// A stdoutWriter is the standard output of a command. It knows whether the stream hangs, because its
// reader was stopped or a person paused the terminal.
type stdoutWriter struct {
	file  *os.File
	began atomic.Pointer[time.Time] // of the current Write; nil without one
}

// Write is for one goroutine at a time.
func (w *stdoutWriter) Write(p []byte) (int, error) {
	now := time.Now()
	w.began.Store(&now)
	defer w.began.Store(nil)
	return w.file.Write(p)
}

// Fd returns the descriptor, for the test whether this is a terminal.
func (w *stdoutWriter) Fd() uintptr { return w.file.Fd() }

// blocked reports whether a Write has been running for at least d.
func (w *stdoutWriter) blocked(d time.Duration) bool {
	began := w.began.Load()
	return began != nil && time.Since(*began) >= d
}

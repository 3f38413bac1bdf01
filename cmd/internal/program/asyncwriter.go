package program

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The bounds of an asyncWriter.
const (
	maxQueuedLines = 1024
	maxQueuedBytes = 1 << 20
	writePatience  = 20 * time.Millisecond  // how long Write waits for the stream
	stallMemory    = 10 * time.Second       // how long Write does not wait after a slow write
	flushTimeout   = 500 * time.Millisecond // how long the end of the program waits for the stream
)

// An asyncWriter writes lines to a stream that may hang or be gone, without delaying or
// failing its caller. While the stream works, a line has been written when Write returns.
// Otherwise lines wait in a bounded queue. Lines that do not fit, and lines that the stream
// refuses, are dropped and counted. Its methods may be called from any goroutine.
type asyncWriter struct {
	to io.Writer

	mu        sync.Mutex // guards the fields below
	queue     []queuedLine
	bytes     int         // in the queue
	draining  bool        // a goroutine writes the queue
	slowUntil time.Time   // until then, Write does not wait
	dropped   int         // lines since the last report
	reported  int         // dropped lines of the report that is being written
	reporting bool        // report is running: it must not wait for its own goroutine
	report    func(n int) // logs that n lines were dropped; may be nil
}

type queuedLine struct {
	text    []byte
	written chan struct{} // closed when the stream has taken or refused the line
}

// reportDropped sets the function that is called when the stream works again after lines
// were dropped. The function may write to w.
func (w *asyncWriter) reportDropped(report func(n int)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report = report
}

// Write queues one line and waits briefly until it is written. It never fails.
func (w *asyncWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	if len(w.queue) >= maxQueuedLines || len(w.queue) > 0 && w.bytes+len(p) > maxQueuedBytes {
		w.dropped++
		w.mu.Unlock()
		return len(p), nil
	}
	line := queuedLine{text: bytes.Clone(p), written: make(chan struct{})}
	w.queue = append(w.queue, line)
	w.bytes += len(p)
	if !w.draining {
		w.draining = true
		go w.drain()
	}
	wait := !w.reporting && time.Now().After(w.slowUntil)
	w.mu.Unlock()
	if wait && !line.wait(writePatience) {
		w.mu.Lock()
		w.slowUntil = time.Now().Add(stallMemory)
		w.mu.Unlock()
	}
	return len(p), nil
}

// wait reports whether the line is written within d.
func (l queuedLine) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-l.written:
		return true
	case <-timer.C:
		return false
	}
}

// drain writes the queue until it is empty.
func (w *asyncWriter) drain() {
	for {
		line, ok := w.next()
		if !ok {
			return
		}
		err := w.write(line.text)
		w.mu.Lock()
		w.queue = w.queue[1:]
		w.bytes -= len(line.text)
		if err != nil {
			w.dropped += 1 + w.reported
		}
		w.reported = 0
		w.reporting = err == nil && w.dropped > 0 && len(w.queue) == 0 && w.report != nil
		if w.reporting {
			w.reported, w.dropped = w.dropped, 0
		}
		reporting, n, report := w.reporting, w.reported, w.report
		w.mu.Unlock()
		close(line.written)
		if reporting {
			report(n)
			w.mu.Lock()
			w.reporting = false
			w.mu.Unlock()
		}
	}
}

// next returns the first line of the queue. It reports false, and the caller must end, if the
// queue is empty.
func (w *asyncWriter) next() (queuedLine, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		w.queue, w.draining = nil, false
		return queuedLine{}, false
	}
	return w.queue[0], true
}

// write writes one line, with one call if possible. Another process that shares the stream may
// have made it non-blocking.
func (w *asyncWriter) write(text []byte) error {
	for {
		n, err := w.to.Write(text)
		if !errors.Is(err, syscall.EAGAIN) {
			return err
		}
		text = text[n:]
		time.Sleep(writePatience)
	}
}

// Flush waits until the lines that are queued now are written, for at most d.
func (w *asyncWriter) Flush(d time.Duration) {
	w.mu.Lock()
	if len(w.queue) == 0 {
		w.mu.Unlock()
		return
	}
	last := w.queue[len(w.queue)-1]
	w.mu.Unlock()
	last.wait(d)
}

// A stderrWriter is an asyncWriter to the standard error of this process.
type stderrWriter struct {
	asyncWriter
	fd uintptr
}

// descriptor2 keeps the original file open. If it were collected, its descriptor would be
// closed and given to the next file. A crash would then print its goroutines into that
// file.
var descriptor2 = os.Stderr

// openStderr returns the standard error of this process. Go ends a program by SIGPIPE if
// descriptor 1 or 2 has no reader. Therefore this is a duplicate of descriptor 2, and so is
// os.Stderr from now on.
func openStderr() *stderrWriter {
	w := &stderrWriter{fd: descriptor2.Fd()}
	if fd, err := unix.FcntlInt(w.fd, unix.F_DUPFD_CLOEXEC, 3); err == nil {
		w.fd = uintptr(fd)
		os.Stderr = os.NewFile(w.fd, descriptor2.Name())
	}
	w.to = os.Stderr
	return w
}

// Fd returns the descriptor, for the test whether this is a terminal.
func (w *stderrWriter) Fd() uintptr { return w.fd }

package program

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A hangingStream accepts nothing while it is closed, and refuses lines with
// err if that is set.
type hangingStream struct {
	hanging sync.RWMutex // locked while the stream hangs

	mu    sync.Mutex // guards the fields below
	lines []string
	err   error
}

func (s *hangingStream) Write(p []byte) (int, error) {
	s.hanging.RLock()
	defer s.hanging.RUnlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	s.lines = append(s.lines, string(p))
	return len(p), nil
}

func (s *hangingStream) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *hangingStream) written() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.lines)
}

func newTestWriter(s *hangingStream) *asyncWriter {
	w := &asyncWriter{to: s}
	w.reportDropped(func(n int) { fmt.Fprintf(w, "dropped %d", n) })
	return w
}

func TestAsyncWriter_HasWrittenWhenWriteReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s hangingStream
		w := newTestWriter(&s)
		for i := range 100 {
			fmt.Fprintf(w, "line %d", i)
			if got := s.written(); len(got) != i+1 || got[i] != fmt.Sprintf("line %d", i) {
				t.Fatalf("after line %d the stream has %q", i, got)
			}
		}
	})
}

func TestAsyncWriter_DropsAndCountsWhileTheStreamHangs(t *testing.T) {
	// A mutex does not block durably for synctest, so real time passes here.
	var s hangingStream
	w := newTestWriter(&s)
	s.hanging.Lock()
	from := time.Now()
	for i := range maxQueuedLines + 7 {
		fmt.Fprintf(w, "line %d", i)
	}
	w.Flush(10 * time.Millisecond)
	if took := time.Since(from); took > time.Minute {
		t.Errorf("writing to a stream that hangs took %s", took)
	}
	if got := s.written(); len(got) != 0 {
		t.Errorf("the stream hangs and has %d lines", len(got))
	}
	s.hanging.Unlock()
	await(t, func() bool { return len(s.written()) == maxQueuedLines+1 })
	for i, line := range s.written()[:maxQueuedLines] {
		if line != fmt.Sprintf("line %d", i) {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	if last := s.written()[maxQueuedLines]; last != "dropped 7" {
		t.Errorf("the last line is %q; want the count", last)
	}
}

func TestAsyncWriter_BoundsTheBytesThatWait(t *testing.T) {
	var s hangingStream
	w := newTestWriter(&s)
	s.hanging.Lock()
	for range 5 {
		fmt.Fprint(w, strings.Repeat("x", maxQueuedBytes/2))
	}
	s.hanging.Unlock()
	await(t, func() bool { return slices.Contains(s.written(), "dropped 3") })
}

func TestAsyncWriter_CountsRefusedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // on a busy machine, Write may return before the stream refuses
		var s hangingStream
		w := newTestWriter(&s)
		s.fail(syscall.EPIPE)
		for i := range 3 {
			if n, err := fmt.Fprintf(w, "lost %d", i); n != 6 || err != nil {
				t.Errorf("Write without a reader returns %d, %v", n, err)
			}
		}
		s.fail(nil)
		fmt.Fprint(w, "back")
		synctest.Wait()
		if got := s.written(); !slices.Equal(got, []string{"back", "dropped 3"}) {
			t.Errorf("the stream has %q", got)
		}
	})
}

// TestAsyncWriter_KeepsTheCountOfALostReport lets the stream take one line
// between failures.
func TestAsyncWriter_KeepsTheCountOfALostReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s hangingStream
		w := &asyncWriter{to: &s}
		first := true
		w.reportDropped(func(n int) {
			if first {
				s.fail(syscall.EPIPE)
			}
			first = false
			fmt.Fprintf(w, "dropped %d", n)
		})
		s.fail(syscall.EPIPE)
		fmt.Fprint(w, "lost")
		s.fail(nil)
		fmt.Fprint(w, "back")
		synctest.Wait()
		if w.dropped != 2 {
			t.Errorf("%d lines were dropped; want 2, the line and the report", w.dropped)
		}
		s.fail(nil)
		fmt.Fprint(w, "again")
		synctest.Wait()
		if got := s.written(); !slices.Equal(got, []string{"back", "again", "dropped 2"}) {
			t.Errorf("the stream has %q", got)
		}
	})
}

// await waits until a condition holds.
func await(t *testing.T, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the condition never holds")
		}
	}
}

// A slowStream takes a line in 30 ms.
type slowStream struct{}

func (slowStream) Write(p []byte) (int, error) {
	time.Sleep(30 * time.Millisecond)
	return len(p), nil
}

func TestAsyncWriter_WaitsOnceForASlowStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &asyncWriter{to: slowStream{}}
		from := time.Now()
		for range 100 {
			fmt.Fprint(w, "line")
		}
		if took := time.Since(from); took != writePatience {
			t.Errorf("100 lines took %s; want %s", took, writePatience)
		}
		w.Flush(time.Minute)
		if took := time.Since(from); took != 3*time.Second {
			t.Errorf("all is written after %s; want 3s", took)
		}
	})
}

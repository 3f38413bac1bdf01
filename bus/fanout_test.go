package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// A countedStream is a stream in memory that counts the frames of each flush that sends some.
type countedStream struct {
	input      chan [][]byte // what comes at once
	read       [][]byte      // came and was not read yet
	beforeWait func()

	mu      sync.Mutex
	written int
	flushes []int
}

func (s *countedStream) Read() ([]byte, error) {
	for len(s.read) == 0 {
		s.beforeWait()
		frames, ok := <-s.input
		if !ok {
			return nil, context.Canceled
		}
		s.read = frames
	}
	frame := s.read[0]
	s.read = s.read[1:]
	return frame, nil
}

func (s *countedStream) HasBuffered() bool   { return len(s.read) > 0 }
func (s *countedStream) BeforeWait(f func()) { s.beforeWait = f }
func (s *countedStream) Buffered() int       { return 0 }
func (s *countedStream) Close(int, string)   {}

func (s *countedStream) Write([]byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written++
	return nil
}

func (s *countedStream) Flush() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written > 0 {
		s.flushes = append(s.flushes, s.written)
		s.written = 0
	}
}

// connect serves a stream as a peer.
func (s *countedStream) connect(t *testing.T, srv *Server, id, pattern string) {
	t.Helper()
	s.input = make(chan [][]byte)
	go srv.ServeStream(s, "memory", nil)
	s.input <- [][]byte{
		fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":%q}}`, id),
		fmt.Appendf(nil, `{"jsonrpc":"2.0","id":2,"method":"subscribe","params":{"topic":%q}}`, pattern),
	}
	synctest.Wait()
	s.flushes = nil
}

// TestFanOut_CoalescesWhatCameAtOnce: messages that their sender sent together reach each of many
// subscribers together, within bounds. A single message is sent in slices.
func TestFanOut_CoalescesWhatCameAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		messages, together, subscribers, size int
		wantFlushes                           func(n int) bool
	}{
		"one":                               {1, 1, 200, 100, func(n int) bool { return n == 1 }},
		"eight, one after the other":        {8, 1, 200, 100, func(n int) bool { return n == 8 }},
		"eight at once":                     {8, 8, 200, 100, func(n int) bool { return n == 1 }},
		"two, then two":                     {4, 2, 200, 100, func(n int) bool { return n == 2 }},
		"thirty, of more than is held":      {30, 30, 200, 1000, func(n int) bool { return n > 2 && n < 10 }},
		"eight at once, in one slice":       {8, 8, 64, 100, func(n int) bool { return n == 1 }},
		"eight at once, each of a megabyte": {8, 8, 200, 500_000, func(n int) bool { return n == 8 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				srv, ended := New(nil, nil), make(chan error, 1)
				go func() { ended <- srv.ServeOn(ctx, nil) }()
				synctest.Wait()
				subscribers := make([]*countedStream, c.subscribers)
				for i := range subscribers {
					subscribers[i] = &countedStream{}
					subscribers[i].connect(t, srv, fmt.Sprintf("agent:%d", i), "news")
				}
				sender := &countedStream{}
				sender.connect(t, srv, "cli:sender", "none")
				for n := 0; n < c.messages; n += c.together {
					var frames [][]byte
					for i := range c.together {
						frames = append(frames, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"sendMessage","params":{"topic":"news","payload":`+
							`{"messageId":"m%[1]d","type":"agent_event","from":"cli:sender","timestamp":"2026-08-11T00:00:00Z","content":{"text":%q}}}}`,
							10+n+i, strings.Repeat("x", c.size)))
					}
					sender.input <- frames
					synctest.Wait()
				}
				for i, s := range subscribers {
					frames := 0
					for _, n := range s.flushes {
						frames += n
					}
					if frames != c.messages || !c.wantFlushes(len(s.flushes)) {
						t.Fatalf("subscriber %d got %d messages in %d parts: %v", i, frames, len(s.flushes), s.flushes)
					}
				}
				stop()
				for _, s := range append(subscribers, sender) {
					close(s.input)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol/timetest"
)

// A countedStream is a stream in memory that counts the frames of each flush that sends some.
type countedStream struct {
	input      chan [][]byte // what comes at once
	read       [][]byte      // came and was not read yet
	beforeWait func()

	mu      sync.Mutex
	written int
	flushes []int
	calls   []string // the ids of the requests that were written
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

func (s *countedStream) Write(frame []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written++
	if rest, ok := strings.CutPrefix(string(frame), answerHead); ok && strings.Contains(rest, `"method"`) {
		id, _, _ := strings.Cut(rest, ",")
		s.calls = append(s.calls, id)
	}
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

// fanOut starts a bus with a sender and subscribers of the topic news.
func fanOut(t *testing.T, log Log, count int) (sender *countedStream, subscribers []*countedStream, stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	srv, ended := New(log, nil), make(chan error, 1)
	go func() { ended <- srv.ServeOn(ctx, nil) }()
	synctest.Wait()
	subscribers = make([]*countedStream, count)
	for i := range subscribers {
		subscribers[i] = &countedStream{}
		subscribers[i].connect(t, srv, fmt.Sprintf("agent:%d", i), "news")
	}
	sender = &countedStream{}
	sender.connect(t, srv, "cli:sender", "none")
	return sender, subscribers, func() {
		cancel()
		for _, s := range append(subscribers, sender) {
			close(s.input)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// sendFrames returns requests to send that many messages.
func sendFrames(from, topic string, id, count, size int) (frames [][]byte) {
	for i := range count {
		frames = append(frames, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"sendMessage","params":{"topic":%q,"payload":`+
			`{"messageId":"m%[1]d","type":"agent_event","from":%[3]q,"timestamp":"2026-08-11T00:00:00Z","content":{"text":%[4]q}}}}`,
			id+i, topic, from, strings.Repeat("x", size)))
	}
	return frames
}

// A busyLog makes everyone who appends wait while it is busy.
type busyLog struct {
	each time.Duration // each time

	mu sync.Mutex
	kept
}

func (l *busyLog) TryAppend(wait time.Duration, rows ...activitylog.Row) bool {
	if wait < l.each {
		time.Sleep(max(wait, 0))
		return false
	}
	l.Append(rows...)
	return true
}

func (l *busyLog) Append(rows ...activitylog.Row) {
	time.Sleep(l.each)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.Append(rows...)
}

// TestFanOut_CoalescesWhatCameAtOnce checks that messages that their sender sent together reach
// each of many subscribers together, within bounds. A single message is sent in slices.
func TestFanOut_CoalescesWhatCameAtOnce(t *testing.T) {
	for name, c := range map[string]struct {
		messages, together, subscribers, size int
		wantFlushes                           func(n int) bool
	}{
		"one":                               {1, 1, 200, 100, func(n int) bool { return n == 1 }},
		"eight, one after the other":        {8, 1, 200, 100, func(n int) bool { return n == 8 }},
		"eight at once":                     {8, 8, 200, 100, func(n int) bool { return n == 1 }},
		"two, then two":                     {4, 2, 200, 100, func(n int) bool { return n == 2 }},
		"thirty, of more than is held":      {30, 30, 200, 2000, func(n int) bool { return n > 2 && n < 10 }},
		"eight at once, in one slice":       {8, 8, 64, 100, func(n int) bool { return n == 1 }},
		"eight at once, each of a megabyte": {8, 8, 200, 500_000, func(n int) bool { return n == 8 }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sender, subscribers, stop := fanOut(t, nil, c.subscribers)
				for n := 0; n < c.messages; n += c.together {
					sender.input <- sendFrames("cli:sender", "news", 10+n, c.together, c.size)
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
			})
		})
	}
}

// TestFanOut_StaysTogetherWhileLogIsBusy uses a log that makes publishers wait. Messages that
// were sent together still reach each subscriber together, unless that would take long. So do
// their answers to the sender. The log has each end of a delivery before the end of its message,
// and before what the subscriber does next.
func TestFanOut_StaysTogetherWhileLogIsBusy(t *testing.T) {
	for name, c := range map[string]struct {
		busy     time.Duration // for each append
		together bool
	}{
		"not at all": {0, true},
		"shortly":    {2 * time.Millisecond, true},
		"very long":  {300 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &busyLog{}
				sender, subscribers, stop := fanOut(t, log, 200)
				log.each = c.busy
				sender.input <- sendFrames("cli:sender", "news", 10, 8, 100)
				timetest.Advance(20 * time.Second)
				for i, s := range subscribers {
					if len(s.calls) != 8 || (len(s.flushes) == 1) != c.together {
						t.Fatalf("subscriber %d got %d messages in %v", i, len(s.calls), s.flushes)
					}
					var frames [][]byte
					for _, id := range s.calls {
						frames = append(frames, []byte(answerHead+id+answerTail))
					}
					s.calls = nil
					s.input <- append(frames, sendFrames(fmt.Sprintf("agent:%d", i), "other", 100, 1, 10)...)
				}
				timetest.Advance(5 * time.Second)
				answers := 0
				for _, n := range sender.flushes {
					answers += n
				}
				// One part, or a few if subscribers that end different messages interrupt each other.
				if answers != 8 || len(sender.flushes) > 4 {
					t.Errorf("the sender got its answers in parts: %v", sender.flushes)
				}
				checkOrder(t, log.rows, 8, 200)
				stop()
			})
		})
	}
}

// checkOrder checks the rows of the messages of cli:sender, which agents process before they send one
// of their own.
func checkOrder(t *testing.T, rows []activitylog.Row, messages, subscribers int) {
	t.Helper()
	ended, finished := map[string]int{}, map[string]int{} // by message, by agent
	done := 0
	for _, r := range rows {
		of := len(r.MessageID) == len("m10")
		switch {
		case r.Event == activitylog.ProcessFinish && of:
			ended[r.MessageID]++
			finished[r.Actor]++
		case r.Event == activitylog.SendFinish && of:
			done++
			if ended[r.MessageID] != subscribers {
				t.Errorf("%s is finished after %d of its deliveries", r.MessageID, ended[r.MessageID])
			}
		case r.Event == activitylog.SendStart && strings.HasPrefix(r.Actor, "agent:") && finished[r.Actor] != messages:
			t.Errorf("%s sends after it has processed %d messages", r.Actor, finished[r.Actor])
		}
	}
	if done != messages {
		t.Errorf("%d messages are finished", done)
	}
}

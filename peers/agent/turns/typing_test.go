package turns

import (
	"fmt"
	"testing"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/protocol"
)

// TestTypingSince_StartsAtTheFirstSign checks that signs within ten seconds belong together, that
// old ones are forgotten, and that at most a thousand people are tracked.
func TestTypingSince_StartsAtTheFirstSign(t *testing.T) {
	begin := time.Unix(1780315200, 0)
	sign := func(who string, after time.Duration) *mailbox.Entry {
		e := &mailbox.Entry{Chat: "tg:1", ReceivedAt: begin.Add(after)}
		e.Content.Chat, e.Content.Author = &protocol.Chat{ID: "1"}, &protocol.Author{ID: who}
		return e
	}
	r := &Runner{opts: Options{ComposeCap: time.Minute}}
	seen := func(what, who string, from, until time.Duration) {
		t.Helper()
		s := r.typing(sign(who, 0))
		if !s.from.Equal(begin.Add(from)) || !s.until().Equal(begin.Add(until)) {
			t.Errorf("%s: from %v until %v, want %v and %v", what, s.from.Sub(begin), s.until().Sub(begin), from, until)
		}
	}
	if s := r.typing(sign("77", 0)); s != (typingSpan{}) {
		t.Errorf("before anybody typed: %+v", s)
	}
	r.HandleTyping(sign("77", 0))
	seen("a sign", "77", 0, 10*time.Second)
	r.HandleTyping(sign("77", 10*time.Second))
	seen("another in time", "77", 0, 20*time.Second)
	r.HandleTyping(sign("77", 20*time.Second+time.Millisecond))
	seen("one after a pause", "77", 20*time.Second+time.Millisecond, 30*time.Second+time.Millisecond)
	if s := r.typing(sign("78", 0)); s != (typingSpan{}) {
		t.Errorf("of somebody else: %+v", s)
	}
	if s := r.typing(sign("77", 0)); !s.since(s.from) || !s.since(s.from.Add(1)) || s.since(s.from.Add(-1)) {
		t.Errorf("since %v", s.from)
	}
	end := 30*time.Second + time.Millisecond
	r.HandleTyping(sign("78", end+time.Minute))
	if len(r.tracker.spans) != 2 {
		t.Errorf("%d are remembered a minute later", len(r.tracker.spans))
	}
	r.HandleTyping(sign("78", end+time.Minute+1))
	if len(r.tracker.spans) != 1 {
		t.Errorf("%d are remembered after that", len(r.tracker.spans))
	}
	now := end + time.Minute + 2
	for i := range 1001 {
		r.HandleTyping(sign(fmt.Sprint("p", i), now))
	}
	if len(r.tracker.spans) != 1000 {
		t.Errorf("%d are remembered, want 1000", len(r.tracker.spans))
	}
	r.HandleTyping(sign("78", now+time.Second)) // a tracked person's sign still counts
	seen("among many", "78", end+time.Minute, now+11*time.Second)
}

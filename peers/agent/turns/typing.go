package turns

import (
	"sync"
	"time"

	"hubbub/peers/agent/mailbox"
)

// typingLasts is how long a typing indicator is valid unless it is renewed or the message arrives.
// maxTyping bounds the number of typing people that are tracked.
const (
	typingLasts = 10 * time.Second
	maxTyping   = 1000
)

// A typingSpan is a time span during which somebody typed without a long pause.
type typingSpan struct{ from, last time.Time }

// since reports whether the typing had started by the given time.
func (s typingSpan) since(at time.Time) bool { return !s.from.After(at) }

func (s typingSpan) until() time.Time { return s.last.Add(typingLasts) }

// A typingTracker tracks who is typing where. It starts empty after a restart.
type typingTracker struct {
	mu    sync.Mutex // guards spans
	spans map[string]typingSpan
}

// fragmentKey identifies the fragments of one author in one thread.
func fragmentKey(e *mailbox.Entry) string {
	return string(e.Chat) + "\x00" + e.ThreadKey() + "\x00" + e.Content.Author.ID
}

// HandleTyping notes that the author of e is typing. It delays their waiting fragments, by at
// most Options.ComposeCap. e is not an event.
func (r *Runner) HandleTyping(e *mailbox.Entry) {
	t := &r.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, s := range t.spans {
		if e.ReceivedAt.Sub(s.until()) > r.opts.ComposeCap {
			delete(t.spans, key)
		}
	}
	s, known := t.spans[fragmentKey(e)]
	switch {
	case !known && len(t.spans) >= maxTyping:
		return
	case !known || e.ReceivedAt.After(s.until()):
		s.from = e.ReceivedAt
	}
	s.last = e.ReceivedAt
	if t.spans == nil {
		t.spans = map[string]typingSpan{}
	}
	t.spans[fragmentKey(e)] = s
}

// typing returns the typing span for the author and thread of an event.
func (r *Runner) typing(e *mailbox.Entry) typingSpan {
	r.tracker.mu.Lock()
	defer r.tracker.mu.Unlock()
	return r.tracker.spans[fragmentKey(e)]
}

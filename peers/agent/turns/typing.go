package turns

import (
	"sync"
	"time"

	"hubbub/peers/agent/mailbox"
)

// typingLasts is how long a sign that a person is typing holds, unless it is renewed or what
// they typed comes; maxTyping is how many people who type are remembered: those beyond are not.
const (
	typingLasts = 10 * time.Second
	maxTyping   = 1000
)

// A typingSpan is a time in which somebody typed without a longer pause.
type typingSpan struct{ from, last time.Time }

// since reports whether the typing had begun at a time.
func (s typingSpan) since(at time.Time) bool { return !s.from.After(at) }

func (s typingSpan) until() time.Time { return s.last.Add(typingLasts) }

// typists remembers who typed lately and where. After a restart nobody did.
type typists struct {
	mu    sync.Mutex // guards spans
	spans map[string]typingSpan
}

// fragmentKey names where fragments of one author come together.
func fragmentKey(e *mailbox.Entry) string {
	return string(e.Chat) + "\x00" + e.ThreadKey() + "\x00" + e.Content.Author.ID
}

// HandleTyping notes that the author of e, which is no event, is typing: fragments of theirs that
// wait go on waiting, at most for Options.ComposeCap.
func (r *Runner) HandleTyping(e *mailbox.Entry) {
	t := &r.typists
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

// typing returns who typed lately.
func (r *Runner) typing(e *mailbox.Entry) typingSpan {
	r.typists.mu.Lock()
	defer r.typists.mu.Unlock()
	return r.typists.spans[fragmentKey(e)]
}

package tg

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"hubbub/peers/tg/botapi"
)

// typing shows in Telegram that agents work. Telegram forgets the sign after
// 5 s, so it is renewed every 4 s as long as an agent says so: one word of the agent
// lasts TypingHold, all of them together at most 5 minutes, and its reply ends it.
type typing struct {
	b    *Bridge
	wake chan struct{}

	mu   sync.Mutex
	busy map[typist]typingSpan
}

// A typist is one agent in one place.
type typist struct {
	chat   int64
	agent  string
	thread int
}

type typingSpan struct {
	telegram     int64
	since, until time.Time
}

func newTyping(b *Bridge) *typing {
	return &typing{b: b, wake: make(chan struct{}, 1), busy: map[typist]typingSpan{}}
}

// maxTypists bounds the table: more than this many at once are not shown.
const maxTypists = 1000

// set begins or prolongs an agent's sign; a reply without any content ends it.
func (t *typing) set(c *chat, r *reply) {
	if !r.content.Typing {
		t.clear(c.key, r.agent)
		return
	}
	if !c.present || c.stopped {
		return
	}
	thread, err := strconv.Atoi(r.content.ThreadID)
	if err != nil {
		thread = t.b.threadFor(context.Background(), &outgoing{content: r.content})
	}
	who := typist{c.key, r.agent, thread}
	now := time.Now()
	t.mu.Lock()
	span, known := t.busy[who]
	if !known {
		if len(t.busy) >= maxTypists {
			t.mu.Unlock()
			return
		}
		span = typingSpan{telegram: c.telegram, since: now}
	}
	span.until = now.Add(t.b.opts.TypingHold)
	if most := span.since.Add(typingCap); span.until.After(most) {
		span.until = most
	}
	t.busy[who] = span
	t.mu.Unlock()
	if !known {
		wake(t.wake)
	}
}

// clear ends an agent's signs in a chat.
func (t *typing) clear(chat int64, agent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typist, _ typingSpan) bool { return who.chat == chat && who.agent == agent })
}

// loop renews the signs.
func (t *typing) loop(ctx context.Context) error {
	for {
		var renew <-chan time.Time
		if t.show(ctx) {
			renew = time.After(typingRefresh)
		}
		select {
		case <-renew:
		case <-t.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// show sends every sign once; false when there is none.
func (t *typing) show(ctx context.Context) bool {
	now := time.Now()
	t.mu.Lock()
	maps.DeleteFunc(t.busy, func(_ typist, span typingSpan) bool { return !span.until.After(now) })
	places := map[[2]int64]bool{}
	for who, span := range t.busy {
		places[[2]int64{span.telegram, int64(who.thread)}] = true
	}
	t.mu.Unlock()
	for _, place := range slices.SortedFunc(maps.Keys(places), func(a, b [2]int64) int { return int(a[0] - b[0]) }) {
		if held, err := t.b.heldUntil(ctx, place[0]); err != nil || held.After(now) {
			continue
		}
		if !t.b.limiter.Allow() {
			break // sends come first
		}
		params := map[string]any{"chat_id": place[0], "action": "typing"}
		if place[1] != 0 {
			params["message_thread_id"] = place[1]
		}
		var refused *botapi.Error
		err := t.b.call(ctx, "sendChatAction", params, nil)
		if errors.As(err, &refused) && refused.Code == http.StatusTooManyRequests {
			t.b.heed(ctx, place[0], refused)
			break
		}
	}
	return len(places) > 0
}

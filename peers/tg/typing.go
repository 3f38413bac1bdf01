package tg

import (
	"cmp"
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
// lasts TypingHold, all of them at most 5 minutes, and its reply ends it.
type typing struct {
	out  *outbound
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
	shown        time.Time // when its sign was last sent
}

// A typingPlace is where Telegram shows a sign, whoever types there.
type typingPlace struct {
	telegram int64
	thread   int
}

func newTyping(out *outbound) *typing {
	return &typing{out: out, wake: make(chan struct{}, 1), busy: map[typist]typingSpan{}}
}

// maxTypists bounds the table: more than this many at once are not shown.
const maxTypists = 1000

// set starts or prolongs an agent's sign; a reply without any content ends it.
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
		thread = t.out.threadFor(context.Background(), &outgoing{content: r.content})
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
	span.until = now.Add(t.out.opts.TypingHold)
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
		if next, busy := t.show(ctx); busy {
			renew = time.After(next)
		}
		select {
		case <-renew:
		case <-t.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// show sends the signs that are due, the one that was missing longest first, and
// returns how long the next look can wait; false when nobody types.
func (t *typing) show(ctx context.Context) (next time.Duration, busy bool) {
	now := time.Now()
	shown := t.lastShown(now)
	oldestFirst := func(a, b typingPlace) int {
		return cmp.Or(shown[a].Compare(shown[b]), cmp.Compare(a.telegram, b.telegram), cmp.Compare(a.thread, b.thread))
	}
	for _, place := range slices.SortedFunc(maps.Keys(shown), oldestFirst) {
		if wait := shown[place].Add(typingRefresh).Sub(now); wait > 0 {
			return wait, true
		}
		if held, err := t.out.heldUntil(ctx, place.telegram); err != nil || held.After(now) {
			continue
		}
		if !t.out.limiter.Allow() {
			return typingPause, true // sends come first
		}
		t.note(place, now)
		params := map[string]any{"chat_id": place.telegram, "action": "typing"}
		if place.thread != 0 {
			params["message_thread_id"] = place.thread
		}
		var refused *botapi.Error
		err := t.out.call(ctx, "sendChatAction", params, nil)
		if errors.As(err, &refused) && refused.Code == http.StatusTooManyRequests {
			t.out.heed(ctx, place.telegram, refused)
			break
		}
	}
	return typingRefresh, len(shown) > 0
}

// lastShown returns the places where somebody types, each with the time of its
// last sign. One who begins to type there has none yet: the reply before it ended
// the sign of the others too.
func (t *typing) lastShown(now time.Time) map[typingPlace]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	shown := map[typingPlace]time.Time{}
	for who, span := range t.busy {
		place := typingPlace{span.telegram, who.thread}
		last, known := shown[place]
		switch {
		case !span.until.After(now):
			delete(t.busy, who)
		case !known, span.shown.Before(last):
			shown[place] = span.shown
		}
	}
	return shown
}

// note records when the sign of a place was last sent.
func (t *typing) note(place typingPlace, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for who, span := range t.busy {
		if span.telegram == place.telegram && who.thread == place.thread {
			span.shown = now
			t.busy[who] = span
		}
	}
}

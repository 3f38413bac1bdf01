package tg

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"
)

// typing shows in Telegram that agents work. Telegram forgets the sign after
// 5 s, so it is renewed every 4 s from the agent's first word of it until its reply, its
// word that it ends or its leaving the bus, for at most 5 minutes. Where the bus does not
// tell who leaves, one word of the agent lasts TypingHold.
type typing struct {
	out     *outbound
	wake    chan struct{}
	watches func() bool // the bus tells who leaves

	mu    sync.Mutex
	busy  map[typist]typingSpan
	shown map[typingPlace]time.Time // when the sign of a place was last sent, if somebody types there
}

// A typist is one agent in one place.
type typist struct {
	typingPlace
	chat  int64
	agent string
}

// A typingPlace is where Telegram shows a sign, whoever types there.
type typingPlace struct {
	telegram int64
	thread   int
}

type typingSpan struct{ since, until time.Time }

// maxTypists bounds the table: more than this many at once are not shown.
const maxTypists = 1000

// set starts or prolongs an agent's sign; a reply without any content ends it.
func (t *typing) set(ctx context.Context, c *chat, r *reply) {
	if !r.content.Typing {
		t.clear(c.key, r.agent)
		return
	}
	if c.silent() {
		return
	}
	who := typist{typingPlace{c.telegram, threadFor(store.On(ctx, t.out.db), &r.content)}, c.key, r.agent}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	span, known := t.busy[who]
	if !known {
		if len(t.busy) >= maxTypists {
			return
		}
		span.since = now
		delete(t.shown, who.typingPlace) // the reply before ended the sign of the others there too
		wake(t.wake)
	}
	span.until = span.since.Add(typingCap)
	if !t.watches() {
		span.until = now.Add(min(t.out.opts.TypingHold, span.until.Sub(now)))
	}
	t.busy[who] = span
}

// clear ends an agent's signs in a chat.
func (t *typing) clear(chat int64, agent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typist, _ typingSpan) bool { return who.chat == chat && who.agent == agent })
}

// left ends the signs of an agent that left the bus.
func (t *typing) left(p protocol.Presence) {
	if p.State != protocol.PresenceLeft {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typist, _ typingSpan) bool { return who.agent == string(p.Peer) })
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
	shown, tx := t.lastShown(now), store.On(ctx, t.out.db)
	oldestFirst := func(a, b typingPlace) int {
		return cmp.Or(shown[a].Compare(shown[b]), cmp.Compare(a.telegram, b.telegram), cmp.Compare(a.thread, b.thread))
	}
	for _, place := range slices.SortedFunc(maps.Keys(shown), oldestFirst) {
		if wait := shown[place].Add(typingRefresh).Sub(now); wait > 0 {
			return wait, true
		}
		if held := t.out.heldUntil(tx, place.telegram); tx.Err() != nil || held.After(now) {
			continue
		}
		if !t.out.limiter.Allow() {
			return typingPause, true // sends come first
		}
		t.mu.Lock()
		t.shown[place] = now
		t.mu.Unlock()
		params := map[string]any{"chat_id": place.telegram, "action": "typing"}
		if place.thread != 0 {
			params["message_thread_id"] = place.thread
		}
		err := t.out.call(ctx, "sendChatAction", params, nil)
		if refused, ok := errors.AsType[*botapi.Error](err); ok && refused.Code == http.StatusTooManyRequests {
			t.out.heed(ctx, place.telegram, refused)
			break
		}
	}
	return typingRefresh, len(shown) > 0
}

// lastShown returns the places where somebody types, each with the time of its
// last sign, and forgets the others.
func (t *typing) lastShown(now time.Time) map[typingPlace]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	shown := map[typingPlace]time.Time{}
	for who, span := range t.busy {
		if span.until.After(now) {
			shown[who.typingPlace] = t.shown[who.typingPlace]
		} else {
			delete(t.busy, who)
		}
	}
	t.shown = maps.Clone(shown)
	return shown
}

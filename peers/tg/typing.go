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
	"hubbub/peers/tg/markdown"
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

	mu      sync.Mutex
	busy    map[typist]typingSpan
	shown   map[typingPlace]time.Time // when the sign of a place was last sent, if somebody types there
	plain   map[typingPlace]bool      // does not take drafts
	without bool                      // the server knows no drafts
	drawing chan struct{}             // closed when the draft has come that is on its way; nil if none is
	drawnIn int64                     // the chat to which it is
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

type typingSpan struct {
	since, until time.Time
	draft        string // what is written so far
	about        int    // the message that it answers, whose number the draft has
	drawn        bool   // Telegram shows this draft
}

// A typingSign is what is shown in a place, and when it was last.
type typingSign struct {
	at    time.Time
	draft string
	about int
	drawn bool
}

// due returns when the sign is to be sent again.
func (s *typingSign) due() time.Time {
	if s.draft != "" && !s.drawn {
		return s.at.Add(draftRefresh)
	}
	return s.at.Add(typingRefresh)
}

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
	if _, _, about, ok := parseSource(r.content.InReplyTo); ok && r.content.Draft != "" && c.direct() && !t.plain[who.typingPlace] && !t.without {
		span.draft, span.about, span.drawn = r.content.Draft, about, false
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

// stopped ends all signs in a chat: a person does not want the answer.
func (t *typing) stopped(chat int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typist, _ typingSpan) bool { return who.chat == chat })
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
	soonest := func(a, b typingPlace) int {
		one, other := shown[a], shown[b]
		return cmp.Or(one.due().Compare(other.due()), cmp.Compare(a.telegram, b.telegram), cmp.Compare(a.thread, b.thread))
	}
	for _, place := range slices.SortedFunc(maps.Keys(shown), soonest) {
		sign := shown[place]
		if wait := sign.due().Sub(now); wait > 0 {
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
		err := t.send(ctx, place, &sign)
		if refused, ok := errors.AsType[*botapi.Error](err); ok && refused.Code == http.StatusTooManyRequests {
			t.out.heed(ctx, place.telegram, refused)
			break
		}
	}
	return draftRefresh, len(shown) > 0
}

// send makes the call that shows a sign: the draft, where there is one and Telegram takes it.
func (t *typing) send(ctx context.Context, place typingPlace, sign *typingSign) error {
	params := map[string]any{"chat_id": place.telegram}
	if place.thread != 0 {
		params["message_thread_id"] = place.thread
	}
	drawn := markdown.Render(sign.draft)
	if drawn.Text == "" {
		params["action"] = "typing"
		return t.out.call(ctx, "sendChatAction", params, nil)
	}
	params["draft_id"], params["can_stop"] = sign.about, true
	t.out.word(params, &asText, drawn)
	if !t.begin(place, sign) {
		return nil
	}
	err := t.out.say(ctx, "sendMessageDraft", params, drawn, nil)
	t.drawn(place, sign, err)
	return err
}

// begin notes that a draft is on its way, and reports false if it is not wanted any more.
func (t *typing) begin(place typingPlace, sign *typingSign) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for who, span := range t.busy {
		if who.typingPlace == place && span.draft == sign.draft {
			t.drawing, t.drawnIn = make(chan struct{}), place.telegram
			return true
		}
	}
	return false
}

// settle waits until no draft is on its way to a chat, for at most draftPatience: one that
// came after the answer would stand there for half a minute.
func (t *typing) settle(ctx context.Context, telegram int64) {
	t.mu.Lock()
	drawing, here := t.drawing, t.drawnIn == telegram
	t.mu.Unlock()
	if drawing == nil || !here {
		return
	}
	select {
	case <-drawing:
	case <-time.After(draftPatience):
	case <-ctx.Done():
	}
}

// drawn notes what became of a draft. A server that does not know drafts gets none any more,
// and a chat that does not take them shows the usual sign.
func (t *typing) drawn(place typingPlace, sign *typingSign, err error) {
	code := botapi.Code(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.drawing)
	t.drawing = nil
	refused := code == http.StatusNotFound || code == http.StatusBadRequest || code == http.StatusForbidden
	if refused {
		t.out.log.Info().Err(err).Int64("chat", place.telegram).Msg("draft not shown; the sign of typing is")
		t.without = t.without || code == http.StatusNotFound
		if len(t.plain) < maxTypists {
			t.plain[place] = true
		}
		delete(t.shown, place)
	}
	for who, span := range t.busy {
		switch {
		case who.typingPlace != place:
			continue
		case refused:
			span.draft = ""
		case span.draft == sign.draft:
			span.drawn = err == nil
		}
		t.busy[who] = span
	}
}

// lastShown returns the signs of the places where somebody types, and forgets the others.
func (t *typing) lastShown(now time.Time) map[typingPlace]typingSign {
	t.mu.Lock()
	defer t.mu.Unlock()
	signs, last := map[typingPlace]typingSign{}, map[typingPlace]time.Time{}
	for who, span := range t.busy {
		if !span.until.After(now) {
			delete(t.busy, who)
			continue
		}
		sign, place := signs[who.typingPlace], who.typingPlace
		if last[place] = t.shown[place]; sign.about == 0 || span.about > sign.about {
			sign = typingSign{t.shown[place], span.draft, span.about, span.drawn}
		}
		signs[place] = sign
	}
	t.shown = last
	return signs
}

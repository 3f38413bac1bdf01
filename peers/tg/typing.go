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
	"hubbub/protocol/notify"
)

// typingIndicator shows in Telegram that agents work. Telegram forgets the sign after
// 5 s, so it is renewed every 4 s from the agent's first word of it until its reply, its
// word that it ends or its leaving the bus, for at most 5 minutes. Where the bus does not
// tell who leaves, one word of the agent lasts TypingHold.
type typingIndicator struct {
	out            *outbound
	wake           notify.Signal
	tracksPresence func() bool // the bus tells who leaves

	mu           sync.Mutex
	busy         map[typingKey]typingSpan
	shown        map[typingPlace]time.Time // when the sign of a place was last sent, if somebody types there
	draftless    map[typingPlace]bool      // does not take drafts
	noDrafts     bool                      // the server knows no drafts
	sendingDraft chan struct{}             // closed when the draft has come that is on its way; nil if none is
	draftChat    int64                     // the chat to which it is
}

// A typingKey is one agent in one place.
type typingKey struct {
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
	answers      int    // the message that it answers, whose number the draft has
	sent         bool   // Telegram shows this draft
}

// A typingState is what is shown in a place, and when it was last.
type typingState struct {
	at      time.Time
	draft   string
	answers int
	sent    bool
}

// due returns when the sign is to be sent again.
func (s *typingState) due() time.Time {
	if s.draft != "" && !s.sent {
		return s.at.Add(draftRefresh)
	}
	return s.at.Add(typingRefresh)
}

// maxTypingKeys bounds the table: more than this many at once are not shown.
const maxTypingKeys = 1000

// set starts or prolongs an agent's sign; a reply without any content ends it.
func (t *typingIndicator) set(ctx context.Context, c *chat, r *reply) {
	if !r.content.Typing {
		t.clear(c.key, r.agent)
		return
	}
	if c.isMuted() {
		return
	}
	thread, err := store.Read(ctx, t.out.db, func(tx *store.Tx) int { return threadFor(tx, &r.content) })
	if err != nil {
		t.out.log.Warn().Err(err).Msg("reading the thread of a typing indicator failed; not shown")
		return
	}
	who := typingKey{typingPlace{c.telegram, thread}, c.key, r.agent}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	span, known := t.busy[who]
	if !known {
		if len(t.busy) >= maxTypingKeys {
			return
		}
		span.since = now
		delete(t.shown, who.typingPlace) // the reply before ended the sign of the others there too
		t.wake.Notify()
	}
	if _, _, about, ok := parseSource(r.content.InReplyTo); ok && r.content.Draft != "" && c.isDirect() && !t.draftless[who.typingPlace] && !t.noDrafts {
		span.draft, span.answers, span.sent = r.content.Draft, about, false
		t.wake.Notify()
	}
	span.until = span.since.Add(maxTypingTime)
	if !t.tracksPresence() {
		span.until = now.Add(min(t.out.opts.TypingHold, span.until.Sub(now)))
	}
	t.busy[who] = span
}

// clear ends an agent's signs in a chat.
func (t *typingIndicator) clear(chat int64, agent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typingKey, _ typingSpan) bool { return who.chat == chat && who.agent == agent })
}

// clearChat ends all signs in a chat: a person does not want the answer.
func (t *typingIndicator) clearChat(chat int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typingKey, _ typingSpan) bool { return who.chat == chat })
}

// onPresence ends the signs of an agent that left the bus.
func (t *typingIndicator) onPresence(p protocol.Presence) {
	if p.State != protocol.PresenceLeft {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typingKey, _ typingSpan) bool { return who.agent == string(p.Peer) })
}

// run renews the signs.
func (t *typingIndicator) run(ctx context.Context) error {
	for {
		var renew <-chan time.Time
		if next, busy := t.sendDue(ctx); busy {
			renew = time.After(next)
		}
		select {
		case <-renew:
		case <-t.wake.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// sendDue sends the signs that are due, the one that was missing longest first, and
// returns how long the next look can wait; false when nobody types.
func (t *typingIndicator) sendDue(ctx context.Context) (next time.Duration, busy bool) {
	now := time.Now()
	shown, tx := t.currentStates(now), store.On(ctx, t.out.db)
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
			return typingRetry, true // sends come first
		}
		t.mu.Lock()
		t.shown[place] = now
		t.mu.Unlock()
		err := t.send(ctx, place, &sign)
		if refused, ok := errors.AsType[*botapi.Error](err); ok && refused.Code == http.StatusTooManyRequests {
			t.out.applyRetryAfter(ctx, place.telegram, refused)
			break
		}
	}
	return draftRefresh, len(shown) > 0
}

// send makes the call that shows a sign: the draft, where there is one and Telegram takes it.
func (t *typingIndicator) send(ctx context.Context, place typingPlace, sign *typingState) error {
	params := map[string]any{"chat_id": place.telegram}
	if place.thread != 0 {
		params["message_thread_id"] = place.thread
	}
	drawn := markdown.Render(sign.draft)
	if drawn.Text == "" {
		params["action"] = "typing"
		return t.out.call(ctx, "sendChatAction", params, nil)
	}
	params["draft_id"], params["can_stop"] = sign.answers, true
	t.out.setText(params, &textMethod, drawn)
	if !t.beginDraft(place, sign) {
		return nil
	}
	err := t.out.callWithText(ctx, "sendMessageDraft", params, drawn, nil)
	t.onDraftSent(place, sign, err)
	return err
}

// beginDraft notes that a draft is on its way, and reports false if it is not wanted any more.
func (t *typingIndicator) beginDraft(place typingPlace, sign *typingState) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for who, span := range t.busy {
		if who.typingPlace == place && span.draft == sign.draft {
			t.sendingDraft, t.draftChat = make(chan struct{}), place.telegram
			return true
		}
	}
	return false
}

// awaitDraft waits until no draft is on its way to a chat, for at most maxDraftWait: one that
// came after the answer would stand there for half a minute.
func (t *typingIndicator) awaitDraft(ctx context.Context, telegram int64) {
	t.mu.Lock()
	drawing, here := t.sendingDraft, t.draftChat == telegram
	t.mu.Unlock()
	if drawing == nil || !here {
		return
	}
	select {
	case <-drawing:
	case <-time.After(maxDraftWait):
	case <-ctx.Done():
	}
}

// onDraftSent notes what became of a draft. A server that does not know drafts gets none any more,
// and a chat that does not take them shows the usual sign.
func (t *typingIndicator) onDraftSent(place typingPlace, sign *typingState, err error) {
	code := botapi.Code(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.sendingDraft)
	t.sendingDraft = nil
	refused := code == http.StatusNotFound || code == http.StatusBadRequest || code == http.StatusForbidden
	if refused {
		t.out.log.Info().Err(err).Int64("chat", place.telegram).Msg("draft not shown; the sign of typing is")
		t.noDrafts = t.noDrafts || code == http.StatusNotFound
		if len(t.draftless) < maxTypingKeys {
			t.draftless[place] = true
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
			span.sent = err == nil
		}
		t.busy[who] = span
	}
}

// currentStates returns the signs of the places where somebody types, and forgets the others.
func (t *typingIndicator) currentStates(now time.Time) map[typingPlace]typingState {
	t.mu.Lock()
	defer t.mu.Unlock()
	signs, last := map[typingPlace]typingState{}, map[typingPlace]time.Time{}
	for who, span := range t.busy {
		if !span.until.After(now) {
			delete(t.busy, who)
			continue
		}
		sign, place := signs[who.typingPlace], who.typingPlace
		if last[place] = t.shown[place]; sign.answers == 0 || span.answers > sign.answers {
			sign = typingState{t.shown[place], span.draft, span.answers, span.sent}
		}
		signs[place] = sign
	}
	t.shown = last
	return signs
}

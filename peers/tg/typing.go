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

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"
	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"
	"hubbub/protocol/notify"
)

// A typingIndicator shows in Telegram that agents are working. Telegram's indicator lasts 5s, so
// it is renewed every 4s, for at most 5 minutes: from the agent's first typing message until the
// agent replies, reports that it has stopped, or leaves the bus. If the bus does not report who
// leaves, each typing message lasts TypingHold.
type typingIndicator struct {
	out            *outbound
	wake           notify.Signal
	tracksPresence func() bool // the bus reports who leaves

	mu           sync.Mutex
	busy         map[typingKey]typingSpan
	shown        map[typingPlace]time.Time // when the indicator of an active place was last sent
	draftless    map[typingPlace]bool      // places that refuse drafts
	noDrafts     bool                      // the server does not support drafts
	sendingDraft chan struct{}             // closed when the current draft has been sent; nil if there is none
	draftChat    int64                     // the chat of the current draft
}

// A typingKey identifies an agent that is typing in a place.
type typingKey struct {
	typingPlace
	chat  int64
	agent string
}

// A typingPlace is a chat or topic that has one indicator.
type typingPlace struct {
	telegram int64
	thread   int
}

type typingSpan struct {
	since, until time.Time
	draft        string // the text written so far
	answers      int    // the message that the draft answers; its number is also the draft's
	sent         bool   // Telegram shows this draft
}

// A typingState is the indicator to show in a place, and when it was last sent.
type typingState struct {
	at      time.Time
	draft   string
	answers int
	sent    bool
}

// due returns when the indicator must be sent again.
func (s *typingState) due() time.Time {
	if s.draft != "" && !s.sent {
		return s.at.Add(draftRefresh)
	}
	return s.at.Add(typingRefresh)
}

// maxTypingKeys bounds the number of indicators. Further ones are not shown.
const maxTypingKeys = 1000

// set starts or extends an agent's indicator. A reply without any content ends it.
func (t *typingIndicator) set(ctx context.Context, c *chat, r *bridge.Reply) {
	if !r.Content.Typing {
		t.clear(c.key, r.Agent)
		return
	}
	if c.isMuted() {
		return
	}
	thread, err := store.Read(ctx, t.out.db, func(tx *store.Tx) int { return threadFor(tx, &r.Content) })
	if err != nil {
		t.out.log.Warn().Err(err).Msg("reading the thread of a typing indicator failed; not shown")
		return
	}
	who := typingKey{typingPlace{c.telegram, thread}, c.key, r.Agent}
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	span, known := t.busy[who]
	if !known {
		if len(t.busy) >= maxTypingKeys {
			return
		}
		span.since = now
		delete(t.shown, who.typingPlace) // the last reply ended the indicators of others there too
		t.wake.Notify()
	}
	if _, _, about, ok := parseSource(r.Content.InReplyTo); ok && r.Content.Draft != "" && c.isDirect() &&
		!t.draftless[who.typingPlace] && !t.noDrafts {
		span.draft, span.answers, span.sent = r.Content.Draft, about, false
		t.wake.Notify()
	}
	span.until = span.since.Add(maxTypingTime)
	if !t.tracksPresence() {
		span.until = now.Add(min(t.out.opts.TypingHold, span.until.Sub(now)))
	}
	t.busy[who] = span
}

// clear ends an agent's indicators in a chat.
func (t *typingIndicator) clear(chat int64, agent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typingKey, _ typingSpan) bool { return who.chat == chat && who.agent == agent })
}

// clearChat ends all indicators in a chat, after a person stopped the answer.
func (t *typingIndicator) clearChat(chat int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typingKey, _ typingSpan) bool { return who.chat == chat })
}

// onPresence ends the indicators of an agent that left the bus.
func (t *typingIndicator) onPresence(p protocol.Presence) {
	if p.State != protocol.PresenceLeft {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typingKey, _ typingSpan) bool { return who.agent == string(p.Peer) })
}

// run renews the indicators.
func (t *typingIndicator) run(ctx context.Context) error {
	for next := time.Duration(0); t.wake.Wait(ctx, next); {
		next = t.sendDue(ctx)
	}
	return nil
}

// sendDue sends the indicators that are due, the most overdue first. It returns the time until
// the next one is due, and 0 if no agent is typing.
func (t *typingIndicator) sendDue(ctx context.Context) (next time.Duration) {
	now := time.Now()
	shown := t.currentStates(now)
	soonest := func(a, b typingPlace) int {
		one, other := shown[a], shown[b]
		return cmp.Or(one.due().Compare(other.due()), cmp.Compare(a.telegram, b.telegram),
			cmp.Compare(a.thread, b.thread))
	}
	for _, place := range slices.SortedFunc(maps.Keys(shown), soonest) {
		sign := shown[place]
		if wait := sign.due().Sub(now); wait > 0 {
			return wait
		}
		held, err := store.Read(ctx, t.out.db,
			func(tx *store.Tx) time.Time { return t.out.heldUntil(tx, place.telegram) })
		if err != nil || held.After(now) {
			continue
		}
		if !t.out.limiter.Allow() {
			return typingRetry // replies take precedence
		}
		t.mu.Lock()
		t.shown[place] = now
		t.mu.Unlock()
		err = t.send(ctx, place, &sign)
		if refused, ok := errors.AsType[*botapi.Error](err); ok && refused.Code == http.StatusTooManyRequests {
			t.out.applyRetryAfter(ctx, place.telegram, refused)
			break
		}
	}
	if len(shown) == 0 {
		return 0
	}
	return draftRefresh
}

// send sends an indicator: the draft, if there is one and Telegram accepts drafts.
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

// beginDraft marks a draft as being sent. It reports false if the draft is no longer wanted.
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

// awaitDraft waits until no draft is being sent to a chat, for at most maxDraftWait. A draft that
// arrives after the reply would stay visible for half a minute.
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

// onDraftSent records the outcome of a draft. A server without drafts gets no more of them, and a
// place that refuses drafts shows the usual indicator.
func (t *typingIndicator) onDraftSent(place typingPlace, sign *typingState, err error) {
	code := botapi.Code(err)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.sendingDraft)
	t.sendingDraft = nil
	refused := code == http.StatusNotFound || code == http.StatusBadRequest || code == http.StatusForbidden
	if refused {
		t.out.log.Info().Err(err).Int64("chat", place.telegram).Msg("draft not accepted; showing the typing indicator")
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

// currentStates returns the indicators of the places where agents are typing, and forgets the
// others.
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

package mx

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/notify"

	"maunium.net/go/mautrix"
)

// A typingIndicator shows in rooms that agents are working: from an agent's first typing message
// until its reply, its message that it has stopped, or its leaving the bus, for at most 5 minutes.
type typingIndicator struct {
	out  *outbound
	wake notify.Signal

	mu    sync.Mutex
	busy  map[typingKey]time.Time // until when
	shown map[string]time.Time    // by room: when the indicator was last sent
}

type typingKey struct{ room, agent string }

// maxTypingKeys bounds the number of indicators. Further ones are not shown.
const maxTypingKeys = 1000

// set starts an agent's indicator. A reply without any content ends it.
func (t *typingIndicator) set(c *chat, r *reply) {
	if !r.content.Typing {
		t.clear(c.room, r.agent)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	who := typingKey{c.room, r.agent}
	if _, known := t.busy[who]; known || len(t.busy) >= maxTypingKeys || c.isMuted() {
		return
	}
	t.busy[who] = time.Now().Add(maxTyping)
	t.wake.Notify()
}

// clear ends an agent's indicator in a room.
func (t *typingIndicator) clear(room, agent string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, typingKey{room, agent})
	t.wake.Notify()
}

// onPresence ends the indicators of an agent that left the bus.
func (t *typingIndicator) onPresence(p protocol.Presence) {
	if p.State != protocol.PresenceLeft {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(who typingKey, _ time.Time) bool { return who.agent == string(p.Peer) })
	t.wake.Notify()
}

// run shows and ends the indicators.
func (t *typingIndicator) run(ctx context.Context) error {
	for {
		on, off := t.due(time.Now())
		for _, room := range on {
			t.send(ctx, room, true)
		}
		for _, room := range off {
			t.send(ctx, room, false)
		}
		var renew <-chan time.Time
		if t.any() {
			renew = time.After(typingRefresh)
		}
		select {
		case <-renew:
		case <-t.wake.C():
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *typingIndicator) any() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.shown) > 0
}

// due returns the rooms whose indicators must be sent again, and those where they end.
func (t *typingIndicator) due(now time.Time) (on, off []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.busy, func(_ typingKey, until time.Time) bool { return !until.After(now) })
	active := map[string]bool{}
	for who := range t.busy {
		active[who.room] = true
	}
	for room := range active {
		if last, shown := t.shown[room]; !shown || now.Sub(last) >= typingRefresh {
			t.shown[room] = now
			on = append(on, room)
		}
	}
	for room := range t.shown {
		if !active[room] {
			delete(t.shown, room)
			off = append(off, room)
		}
	}
	return on, off
}

// send sets the bot's indicator in a room. A failure is not repeated.
func (t *typingIndicator) send(ctx context.Context, room string, on bool) {
	body := map[string]any{"typing": on}
	if on {
		body["timeout"] = typingTime.Milliseconds()
	}
	err := t.out.call(ctx, http.MethodPut,
		mautrix.ClientURLPath{"v3", "rooms", room, "typing", string(t.out.bot)}, nil, body, nil)
	if err != nil && ctx.Err() == nil {
		t.out.log.Debug().Err(err).Str("room", room).Msg("typing indicator not accepted by the homeserver")
	}
}

// typeists tells agents which people are typing, so that they wait for what follows. This is not
// stored.
type typeists struct {
	out  *outbound
	peer *peer.Peer
	wake notify.Signal

	mu   sync.Mutex
	here map[typeist]time.Time // when the agents were last told; zero: not yet
}

type typeist struct{ room, user string }

// toldFor is how long agents believe that a person is typing.
const toldFor = 8 * time.Second

// onEphemeral takes the people who are typing in a room, as the homeserver lists them.
func (t *typeists) onEphemeral(room string, list []json.RawMessage) {
	for _, raw := range list {
		var e struct {
			Type    string `json:"type"`
			Content struct {
				Users []string `json:"user_ids"`
			} `json:"content"`
		}
		if json.Unmarshal(raw, &e) != nil || e.Type != "m.typing" {
			continue
		}
		t.mu.Lock()
		maps.DeleteFunc(t.here, func(who typeist, _ time.Time) bool {
			return who.room == room && !slices.Contains(e.Content.Users, who.user)
		})
		for _, user := range e.Content.Users {
			who := typeist{room, user}
			if _, known := t.here[who]; !known && user != string(t.out.bot) && len(t.here) < maxTypingKeys {
				t.here[who] = time.Time{}
			}
		}
		t.mu.Unlock()
		t.wake.Notify()
	}
}

// run tells the agents, again while a person goes on typing.
func (t *typeists) run(ctx context.Context) error {
	for {
		now := time.Now()
		var due []typeist
		t.mu.Lock()
		left := len(t.here)
		for who, last := range t.here {
			if now.Sub(last) >= toldFor {
				t.here[who] = now
				due = append(due, who)
			}
		}
		t.mu.Unlock()
		for _, who := range due {
			t.tell(ctx, who)
		}
		var again <-chan time.Time
		if left > 0 {
			again = time.After(toldFor)
		}
		select {
		case <-again:
		case <-t.wake.C():
		case <-ctx.Done():
			return nil
		}
	}
}

// tell tells the agents of a room that a person is typing.
func (t *typeists) tell(ctx context.Context, who typeist) {
	var content protocol.ChatMessage
	var agents []protocol.PeerID
	var from protocol.PeerID
	err := store.Autocommit(ctx, t.out.db, func(tx *store.Tx) {
		c, known := t.out.load(tx, who.room)
		if !known || c.isMuted() || !t.out.admitsChat(tx, c) {
			return
		}
		from = c.peer()
		for _, a := range t.out.router.Agents(tx, from) {
			if a.Configured {
				agents = append(agents, a.Agent)
			}
		}
		content = protocol.ChatMessage{
			Event: protocol.EventTyping, Chat: t.out.describe(tx, c, ""),
			Author: t.out.authorOf(who.user, t.out.nameOf(tx, c.room, who.user)),
		}
	})
	if err != nil {
		t.out.log.Warn().Err(err).Msg("reading who is typing failed")
		return
	}
	for _, agent := range agents {
		sending, cancel := context.WithTimeout(ctx, toldFor)
		_, _ = t.peer.Send(sending, agent.Topic(), protocol.NewMessage(protocol.TypeChatMessage, from, content))
		cancel() // whoever is absent needs not know
	}
}

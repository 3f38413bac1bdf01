package mx

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/notify"

	"maunium.net/go/mautrix/event"
	"maunium.net/go/mautrix/id"
)

// A typingList has who is typing in which room, each for at most maxTyping. It is not stored.
type typingList struct {
	again time.Duration // interval at which somebody who is still typing is shown again
	// show shows that somebody is typing or, with false, that nobody in the room is typing any more.
	show func(ctx context.Context, who typist, typing bool)
	wake notify.Signal

	mu   sync.Mutex
	list map[typist]typingSpan
}

// A typist is an agent or a user in a room.
type typist struct{ room, name string }

type typingSpan struct{ until, due time.Time }

// maxTypists bounds a typingList. Further ones are not shown.
const maxTypists = 1000

func newTypingList(again time.Duration, show func(ctx context.Context, who typist, typing bool)) *typingList {
	return &typingList{again: again, show: show, wake: notify.New(), list: map[typist]typingSpan{}}
}

// start adds somebody unless the list has them.
func (t *typingList) start(who typist) {
	t.mu.Lock()
	defer t.mu.Unlock()
	span, known := t.list[who]
	if known && !span.until.IsZero() || !known && len(t.list) >= maxTypists {
		return
	}
	t.list[who] = typingSpan{until: time.Now().Add(maxTyping)}
	t.wake.Notify()
}

// end ends the typing of those for whom ended reports true.
func (t *typingList) end(ended func(typist) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for who := range t.list {
		if ended(who) {
			t.list[who] = typingSpan{}
		}
	}
	t.wake.Notify()
}

// run shows who is typing until ctx ends.
func (t *typingList) run(ctx context.Context) error {
	for wait := time.Duration(0); t.wake.Wait(ctx, wait); {
		due, busy := t.due(time.Now())
		for who, typing := range due {
			t.show(ctx, who, typing)
		}
		if wait = 0; busy {
			wait = t.again
		}
	}
	return nil
}

// due returns what must be shown now: true for each typist whose indicator is due, and false for one
// typist of each room in which the last one has stopped. It reports whether anybody is typing.
func (t *typingList) due(now time.Time) (due map[typist]bool, busy bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	due = map[typist]bool{}
	rooms, ended := map[string]bool{}, map[string]typist{}
	for who, span := range t.list {
		if !span.until.After(now) {
			delete(t.list, who)
			ended[who.room] = who
			continue
		}
		if rooms[who.room] = true; !span.due.After(now) {
			due[who] = true
			t.list[who] = typingSpan{span.until, now.Add(t.again)}
		}
	}
	for room, who := range ended {
		if !rooms[room] {
			due[who] = false
		}
	}
	return due, len(t.list) > 0
}

// setTyping starts an agent's indicator. It lasts until the agent replies, reports that it has stopped,
// or leaves the bus. A reply without any content ends it.
func (out *outbound) setTyping(_ context.Context, c *chat, r *bridge.Reply) {
	if who := (typist{c.room, r.Agent}); !r.Content.Typing {
		out.typing.end(func(other typist) bool { return other == who })
	} else if !c.isMuted() {
		out.typing.start(who)
	}
}

// onPresence ends the indicators of an agent that left the bus.
func (out *outbound) onPresence(p protocol.Presence) {
	if p.State == protocol.PresenceLeft {
		out.typing.end(func(who typist) bool { return who.name == string(p.Peer) })
	}
}

// showTyping sets the bot's indicator in a room. A failure is not repeated.
func (out *outbound) showTyping(ctx context.Context, who typist, typing bool) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	if _, err := out.api.UserTyping(ctx, id.RoomID(who.room), typing, typingTime); err != nil && ctx.Err() == nil {
		out.log.Debug().Err(err).Str("room", who.room).Msg("typing indicator not accepted by the homeserver")
	}
}

// onEphemeral takes the people who are typing in a room, as the homeserver lists them.
func (b *Bridge) onEphemeral(room string, list []json.RawMessage) {
	for _, raw := range list {
		var e rawEvent
		var content event.TypingEventContent
		if json.Unmarshal(raw, &e) != nil || e.Type != "m.typing" || json.Unmarshal(e.Content, &content) != nil {
			continue
		}
		b.people.end(func(who typist) bool {
			return who.room == room && !slices.Contains(content.UserIDs, id.UserID(who.name))
		})
		for _, user := range content.UserIDs {
			if user != b.bot {
				b.people.start(typist{room, string(user)})
			}
		}
	}
}

// typingShownFor is how long agents believe that a person is typing.
const typingShownFor = 8 * time.Second

// notifyTyping tells the agents of a room that a person is typing, so that they wait for what follows.
func (b *Bridge) notifyTyping(ctx context.Context, who typist, typing bool) {
	if !typing {
		return // agents notice this without a report
	}
	var content protocol.ChatMessage
	var agents []protocol.PeerID
	var from protocol.PeerID
	err := store.Autocommit(ctx, b.db, func(tx *store.Tx) {
		c, known := b.load(tx, who.room)
		if !known || c.isMuted() || !b.admitsChat(tx, c) {
			return
		}
		from = c.peer()
		for _, a := range b.router.Agents(tx, from) {
			if a.Configured {
				agents = append(agents, a.Agent)
			}
		}
		content = protocol.ChatMessage{
			Event: protocol.EventTyping, Chat: b.describe(tx, c, ""),
			Author: b.authorOf(who.name, b.nameOf(tx, c.room, who.name)),
		}
	})
	if err != nil {
		b.log.Warn().Err(err).Msg("reading who is typing failed")
		return
	}
	for _, agent := range agents {
		sending, cancel := context.WithTimeout(ctx, typingShownFor)
		_, _ = b.peer.Send(sending, agent.Topic(), protocol.NewMessage(protocol.TypeChatMessage, from, content))
		cancel() // an absent agent need not know
	}
}

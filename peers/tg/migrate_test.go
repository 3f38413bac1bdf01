package tg_test

import (
	"slices"
	"testing"
	"time"

	"hubbub/peers/store"
	"hubbub/peers/tg"
	"hubbub/protocol"
)

// TestWhatTheVersionBeforeLeftIsFinished has a database with a chat that waits for
// its agent, one whose agent has not got everything, and sends that were cut off
// before, during and after their request.
func TestWhatTheVersionBeforeLeftIsFinished(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		will, waits := h.dm("Will")
		_, talks := h.dm("Ann")
		if waits.ID != 1001 || talks.ID != 1002 {
			t.Fatalf("the chats are %d and %d", waits.ID, talks.ID)
		}
		db, err := store.Open(h.path, tg.SchemaBefore)
		if err != nil {
			t.Fatal(err)
		}
		at, expires := time.Now().UnixMicro(), time.Now().Add(time.Hour).UnixMicro()
		for _, statement := range []string{
			`INSERT INTO bots (bot, token_hash, me) VALUES (123456, '', '{}')`,
			`INSERT INTO chats (bot, chat, telegram_id, kind, state, request, asked_at, attempts, next_at) VALUES
				(123456, 1001, 1001, 'private', 'waiting', 'req_old', ?1, 3, ?1), (123456, 1002, 1002, 'private', 'assigned', '', 0, 0, 0),
				(123456, 1003, 1003, 'private', 'assigned', '', 0, 0, 0)`,
			`UPDATE chats SET stopped = 1 WHERE chat = 1003`,
			`INSERT INTO requests (request, bot, chat, created_at) VALUES ('req_old', 123456, 1001, ?1)`,
			`INSERT INTO assignments (bot, chat, agent, spawned, configured, since) VALUES
				(123456, 1002, 'agent:lead', 1, 1, ?1), (123456, 1003, 'agent:gone', 1, 1, ?1)`,
			`INSERT INTO events (id, bot, chat, telegram_chat, message, source_id, draft, bus_id, queued, agents, received_at) VALUES
				(1, 123456, 1001, 1001, 7, 'tg:123456:1001:7', '{"content":{"text":"one","chat":{"id":"1001","kind":"dm"}}}', 'm1', 0, '', ?1),
				(2, 123456, 1002, 1002, 8, 'tg:123456:1002:8', '{"content":{"text":"two","chat":{"id":"1002","kind":"dm"}}}', 'm2', 1, '["agent:lead"]', ?1),
				(3, 123456, 1003, 1003, 9, 'tg:123456:1003:9', '{"content":{"text":"three","chat":{"id":"1003","kind":"dm"}}}', 'm3', 1, '["agent:gone"]', ?1)`,
			`INSERT INTO replies (id, bot, chat, agent, key, content, received_at) VALUES (1, 123456, 1002, 'agent:lead', 'k1', '{"text":"a"}', ?1),
				(2, 123456, 1002, 'agent:lead', 'k2', '{"text":"b"}', ?1), (3, 123456, 1002, 'agent:lead', 'k3', '{"text":"c"}', ?1)`,
			`INSERT INTO sends (reply, part, bot, chat, kind, body, state, begun_at, message) VALUES
				(1, 0, 123456, 1002, 'text', '{"text":"was shown"}', 'sent', ?1, 77), (2, 0, 123456, 1002, 'text', '{"text":"perhaps"}', 'sending', ?1, 0),
				(3, 0, 123456, 1002, 'text', '{"text":"waits"}', 'pending', ?1, 0)`,
			`INSERT INTO outbox (queue, destination, key, body, state, attempt, enqueued_at, not_before, expires_at) VALUES
				('agents:123456', 'tg:1002 > agent:lead', 'event:2', CAST('{"event":2}' AS BLOB), 'sending', 1, ?1, ?1, ?2),
				('agents:123456', 'tg:1003 > agent:gone', 'event:3', CAST('{"event":3}' AS BLOB), 'pending', 5, ?1, ?1, ?2),
				('status:123456', 'agent:lead', '9:delivered', CAST('{"chat":1002,"busId":"old","content":{"messageId":"r9","status":"delivered","sourceId":"older"}}' AS BLOB), 'pending', 0, ?1, ?1, ?2),
				('telegram:123456', 'tg:1002', '1.0', CAST('{"reply":1,"part":0}' AS BLOB), 'sending', 1, ?1, ?1, ?2),
				('telegram:123456', 'tg:1002', '2.0', CAST('{"reply":2,"part":0}' AS BLOB), 'sending', 2, ?1, ?1, ?2),
				('telegram:123456', 'tg:1002', '3.0', CAST('{"reply":3,"part":0}' AS BLOB), 'sending', 1, ?1, ?1, ?2)`,
		} {
			args := []any{at, expires}
			if _, err := db.Exec(statement, args...); err != nil {
				_ = db.Close()
				t.Fatalf("%s: %v", statement, err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		h.spawner("agent:new")
		lead, fresh := h.bus.Join(t, "agent:lead", "agent:lead"), h.bus.Join(t, "agent:new", "agent:new")
		h.start()
		if got := request(t, h.system); got.RequestID != "req_old" {
			t.Errorf("the request is %q", got.RequestID)
		}
		if got := next(t, fresh); got.Text != "one" {
			t.Errorf("the new agent got %+v", got)
		}
		outcomes := map[string]bool{}
		for len(outcomes) < 5 {
			var m protocol.ChatMessage
			var st protocol.DeliveryStatus
			switch d := lead.Next(t); d.Message.Type {
			case protocol.TypeTGMessage:
				if err := d.Decode(&m); err != nil || m.Text != "two" {
					t.Fatalf("the agent that was there got %+v, %v", m, err)
				}
				outcomes[m.SourceID] = true
			case protocol.TypeDeliveryStatus:
				if err := d.Decode(&st); err != nil {
					t.Fatal(err)
				}
				outcomes[st.Status+" "+st.SourceID] = true
			}
		}
		for _, want := range []string{"tg:123456:1002:8", "delivered tg:123456:0:77", "unknown ", "delivered older"} {
			if !outcomes[want] {
				t.Errorf("%q is not among %v", want, outcomes)
			}
		}
		if got := h.texts(talks.ID, 1); !slices.Equal(got, []string{"waits"}) {
			t.Errorf("the chat shows %q; want what waited alone", got)
		}
		h.api.Say(waits, will, "more")
		if got := next(t, fresh); got.Text != "more" {
			t.Errorf("then the new agent got %q", got.Text)
		}
		h.pass(5 * time.Minute)
		for h.system.Pending() > 0 {
			if d := h.system.Next(t); d.Message.From == "tg:1003" {
				t.Error("an agent was asked for in a chat that is stopped")
			}
		}
	})
}

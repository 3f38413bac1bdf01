package mx

import (
	"encoding/json"
	"testing"

	"hubbub/peers/store"
)

// TestReaction_StaysInItsThread covers reactions to a person and to an agent in a thread, and a
// reaction that is taken back: as stored, for answers and notices, and as the agent gets them.
func TestReaction_StaysInItsThread(t *testing.T) {
	b := newBridge(t, nil, nil)
	err := store.InTx(t.Context(), b.db, func(tx *store.Tx) {
		tx.Exec(`INSERT INTO replies (id, chat, agent, key, content, received_at)
			VALUES (1, '!room:hs', 'agent:a', 'k', '{"threadId":"$root"}', 0)`)
		tx.Exec(`INSERT INTO sends (reply, part, kind, body, txn, event) VALUES (1, 0, 'text', '', 't', '$answer')`)
		var list []json.RawMessage
		for _, e := range []string{
			`{"event_id":"$said","type":"m.room.message","content":{"msgtype":"m.text","body":"a","m.relates_to":{"rel_type":"m.thread","event_id":"$root"}}`,
			`{"event_id":"$r1","type":"m.reaction","content":{"m.relates_to":{"rel_type":"m.annotation","event_id":"$said","key":"👍"}}`,
			`{"event_id":"$r2","type":"m.reaction","content":{"m.relates_to":{"rel_type":"m.annotation","event_id":"$answer","key":"👍"}}`,
			`{"event_id":"$gone","type":"m.room.redaction","redacts":"$r2","content":{}`,
		} {
			list = append(list, json.RawMessage(e+`,"sender":"@will:hs"}`))
		}
		b.storeEvents(tx, "event", "!room:hs", list)
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.ingest.applyBatch(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := store.ReadValue[string](t.Context(), b.db, `SELECT group_concat(event || ' ' || thread || ' ' ||
		coalesce(data ->> '$.content.chat.threadId', ''), ', ' ORDER BY id) FROM events`)
	const want = "$said $root $root, $r1 $root $root, $r2 $root $root, $r2 $root $root"
	if err != nil || got != want {
		t.Errorf("events with their stored and shown threads: %q, %v; want %q", got, err, want)
	}
}

package chorus_test

import (
	"path/filepath"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// TestWhatTheVersionBeforeLeftIsPassedOn has a database with a channel whose agent
// has not got its message, one that waits for its agent, and one that asked.
func TestWhatTheVersionBeforeLeftIsPassedOn(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t, nil)
	folder := filepath.Join(t.TempDir(), "chorus")
	db, err := store.Open(filepath.Join(folder, "chorus.db"), chorus.SchemaBefore)
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`INSERT INTO channel (peer, inbox, external_id, agent, configured, request_id, created_at) VALUES
			('chorus:ops.has', 'ops', 'has', 'agent:old', 1, '', 1), ('chorus:ops.new', 'ops', 'new', '', 0, '', 1), ('chorus:ops.asks', 'ops', 'asks', '', 0, 'req_1', 1)`,
		`INSERT INTO inbound (channel, external_id, source_id, message_id, content, received_at, forwarded_at) VALUES
			('chorus:ops.has', 'm0', 's0', 'i0', CAST('{"text":"taken"}' AS BLOB), unixepoch() * 1000000, 1),
			('chorus:ops.has', 'm1', 's1', 'i1', CAST('{"text":"has"}' AS BLOB), unixepoch() * 1000000, 0),
			('chorus:ops.new', 'm2', 's2', 'i2', CAST('{"text":"new"}' AS BLOB), unixepoch() * 1000000, 0),
			('chorus:ops.asks', 'm3', 's3', 'i3', CAST('{"text":"asks"}' AS BLOB), unixepoch() * 1000000, 0)`,
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	old, fresh := b.Join(t, "agent:old", "agent:old"), b.Join(t, "agent:a", "agent:a")
	spawner(t, b, "agent:a")
	start(t, b, folder, nil)
	d := old.NextOf(t, protocol.TypeChatMessage)
	var m protocol.ChatMessage
	if err := d.Decode(&m); err != nil || m.Text != "has" || d.Message.MessageID != "i1" {
		t.Errorf("the agent that was there got %+v, %v", d.Message, err)
	}
	got := map[string]bool{}
	for range 2 {
		if err := fresh.NextOf(t, protocol.TypeChatMessage).Decode(&m); err != nil {
			t.Fatal(err)
		}
		got[m.Text] = true
	}
	if !got["new"] || !got["asks"] {
		t.Errorf("the new agent got %v", got)
	}
}

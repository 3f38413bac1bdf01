package chorus_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/chorus"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// An earlier gateway is the database of the version in which the gateway had a
// mailbox of its own for external agents.
type earlier struct {
	t  *testing.T
	db *sql.DB
	at int64
}

func newEarlier(t *testing.T, folder string) *earlier {
	t.Helper()
	schema, err := os.ReadFile("schema.sql")
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(filepath.Join(folder, "chorus.db"), []string{string(schema) + outbox.Schema})
	if err != nil {
		t.Fatal(err)
	}
	return &earlier{t: t, db: db, at: time.Now().Add(-time.Minute).UnixMicro()}
}

func (e *earlier) exec(query string, args ...any) {
	e.t.Helper()
	if _, err := e.db.Exec(query, args...); err != nil {
		e.t.Fatalf("%s: %v", query, err)
	}
}

// event stores an event of Will in tg:42 for agent:ext.
func (e *earlier) event(id, kind, text, policy, disposition string, sequence, turn int64) {
	e.t.Helper()
	m := dm(id, text)
	m.Event, m.Sequence = kind, sequence
	content, err := json.Marshal(m)
	if err != nil {
		e.t.Fatal(err)
	}
	e.at++
	e.exec(`INSERT INTO event (agent, kind, event_id, sequence, channel, chat, conversation, thread, author, type, message_id, traceparent, content, received_at,
		directedness, policy, injection, reason, disposition, turn) VALUES ('ext', ?, ?, ?, 'tg:42', 'tg:42', '42', '', 'human:77', 'tg_message', ?, '', ?, ?,
		'to_me', ?, 'buffered', 'direct_message', ?, ?)`, kind, id, sequence, "msg_"+id+text, content, e.at, policy, disposition, turn)
}

// turn stores a turn; what it does not fit is of the POST of a live one.
func (e *earlier) turn(id int64, state string) {
	e.t.Helper()
	secret := func(prefix string) string { return fmt.Sprint(prefix, id) }
	e.exec(`INSERT INTO turn (id, agent, channel, author, state, first_at, due_at) VALUES (?, 'ext', 'tg:42', 'human:77', ?, ?, ?)`,
		id, state, e.at, time.Now().Add(time.Hour).UnixMicro())
	if state != "composing" {
		e.exec(`UPDATE turn SET callback_sha256 = ?, token_sha256 = ?, messages = 2 WHERE id = ?`,
			sha256Of(secret("cb_")), sha256Of(secret("mcp_")), id)
	}
}

// TestAnUpdateLosesNothing: of a gateway that had the agents' events in its own
// database, callbacks live on, what was not POSTed is, answers that waited reach
// their chat, and what was said is remembered.
func TestAnUpdateLosesNothing(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t, nil)
	folder := filepath.Join(t.TempDir(), "chorus")
	outside := newReceiver(t)
	made, err := chorus.OpenStore(folder) // for its key
	if err != nil {
		t.Fatal(err)
	}
	if err := made.AddAgent(context.Background(), "ext", outside.url, chorus.AgentSettings{}); err != nil {
		t.Fatal(err)
	}
	sealed := []any{chorus.SealOfTurn(made, 7, "cb_7"), chorus.SealOfTurn(made, 7, "mcp_7")}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	agent := rowOf(t, filepath.Join(folder, "chorus.db"))
	if err := os.Remove(filepath.Join(folder, "chorus.db")); err != nil {
		t.Fatal(err)
	}

	old := newEarlier(t, folder)
	old.exec(`INSERT INTO agent (name, connection, settings, added_at) VALUES (?, ?, ?, ?)`, agent...)
	old.event("e1", "message", "", "must_respond", "superseded", 0, 0)
	old.event("e1", "delete", "", "must_not_respond", "ignored", 2, 0)
	old.event("e2", "message", "answered", "must_respond", "responded", 0, 5) // its callback lives
	old.event("e3", "message", "with the agent", "must_respond", "", 0, 6)
	old.event("e4", "message", "one", "must_respond", "superseded", 0, 7) // on its way
	old.event("e5", "message", "two", "must_respond", "", 0, 7)
	old.event("e6", "message", "being composed", "must_respond", "", 0, 8)
	for id, state := range map[int64]string{5: "open", 6: "open", 7: "posting", 8: "composing", 9: "closed"} {
		old.turn(id, state)
	}
	old.exec(`UPDATE turn SET callback = ?, token = ? WHERE id = 7`, sealed...)
	old.exec(`INSERT INTO said (agent, channel, event_id, key, message_id, text, said_at) VALUES ('ext', 'tg:42', 'e2', 'callback:5#1', 'msg_said', 'first part', ?)`, old.at)
	waiting, err := json.Marshal(map[string]any{"topic": "tg:42", "message": protocol.NewMessage(protocol.TypeTGReply, "agent:ext", protocol.ChatReply{
		Text: "first part", InReplyTo: "e2", IdempotencyKey: "callback:5#1",
	})})
	if err != nil {
		t.Fatal(err)
	}
	for queue, item := range map[string][]any{"bus": {"agent:ext tg:42", "callback:5#1", waiting}, "post": {"ext/x", "turn:7", []byte("7")}} {
		old.exec(`INSERT INTO outbox (queue, destination, key, body, state, enqueued_at, not_before, expires_at) VALUES (?, ?, ?, ?, 'pending', ?, 0, ?)`,
			append(append([]any{queue}, item...), old.at, time.Now().Add(time.Hour).UnixMicro())...)
	}
	if err := old.db.Close(); err != nil {
		t.Fatal(err)
	}

	tg := b.Join(t, "tg:42", "tg:42")
	r := start(t, b, folder, nil)
	callback := func(id int) string { return fmt.Sprint(r.url, "/callback/cb_", id) }
	if got := nextReply(t, tg).Text; got != "first part" {
		t.Errorf("the answer that waited for the bus: %q", got)
	}
	posted := map[string]string{}
	for len(posted) < 2 {
		c := outside.next()
		m := c.body["message"].(map[string]any)
		posted[m["id"].(string)] = m["content"].(string)
		if m["id"] == "e5" && c.body["callback"] != r.url+"/callback/cb_7" {
			t.Errorf("the turn that was on its way came with %s", c.body["callback"])
		}
	}
	if posted["e5"] != "one\ntwo" || posted["e6"] != "being composed" {
		t.Errorf("posted %q", posted)
	}
	for id, text := range map[int]string{5: "second part", 6: "here"} {
		if status, answer := post(t, callback(id), map[string]any{"type": "message", "content": text}); status != http.StatusOK {
			t.Errorf("the callback of turn %d: %d %s", id, status, answer)
		}
		if got := nextReply(t, tg).Text; got != text {
			t.Errorf("the chat got %q; want %q", got, text)
		}
	}
	if status, _ := post(t, callback(9), `{"type":"message","content":"late"}`); status != http.StatusNotFound {
		t.Errorf("the callback of a closed turn: %d", status)
	}
	// The token of a live turn opens the tools, and what was said is there.
	x := &tools{t: t, url: r.url + "/mcp/ext/tg.3A42"}
	if x.session, err = connect(t, x.url, map[string]string{"Authorization": "Bearer mcp_6"}); err != nil {
		t.Fatal(err)
	}
	shown, problem := x.call("chat.read_thread", map[string]any{})
	if text := asJSON(shown); problem != "" || !strings.Contains(text, "first part") || !strings.Contains(text, "with the agent") {
		t.Errorf("the thread: %s %s", text, problem)
	}
	r.stop()
	again := start(t, b, folder, nil) // nothing comes twice
	waitFor(t, func() bool {
		return tg.Send(t, "agent:ext", protocol.TypeTGMessage, dm("e7", "hello?")).DeliveredTo == 1
	})
	if c := outside.next(); c.body["message"].(map[string]any)["id"] != "e7" {
		t.Errorf("posted %s", c.raw)
	}
	again.stop()
}

// rowOf reads the row of the one agent.
func rowOf(t *testing.T, path string) []any {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	row := make([]any, 4)
	if err := db.QueryRow(`SELECT name, connection, settings, added_at FROM agent`).Scan(&row[0], &row[1], &row[2], &row[3]); err != nil {
		t.Fatal(err)
	}
	return row
}

func sha256Of(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

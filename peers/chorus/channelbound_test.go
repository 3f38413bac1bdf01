package chorus_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

// An inboxFixture is a gateway with a client of one inbox, and its database.
type inboxFixture struct {
	*fixture
	db     *store.DB
	client *a2aclient.Client
}

func (f *inboxFixture) exec(statement string, args ...any) {
	f.t.Helper()
	if err := storetest.Exec(f.db, statement, args...); err != nil {
		f.t.Fatal(err)
	}
}

func (f *inboxFixture) count(query string, args ...any) (n int) {
	f.t.Helper()
	if err := storetest.Scan(f.db, []any{&n}, `SELECT count(*) FROM `+query, args...); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// ask sends a message in a channel of its own, and does not wait for the answer.
func (f *inboxFixture) ask(id string) (a2a.TaskID, error) {
	m := request("is it green?", id, "")
	m.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
	result, err := f.client.SendMessage(f.t.Context(), m)
	if err != nil {
		return "", err
	}
	return result.TaskInfo().TaskID, nil
}

func (f *inboxFixture) hasTask(id a2a.TaskID) bool {
	f.t.Helper()
	_, err := f.client.GetTask(f.t.Context(), &a2a.GetTaskRequest{ID: id})
	if err != nil && !errors.Is(err, a2a.ErrTaskNotFound) {
		f.t.Fatal(err)
	}
	return err == nil
}

// TestInbox_ForgetsTheIdlestChannel checks that a new channel replaces the one of a full inbox that
// has been idle longest, and none that is in use. If all are, the message is refused.
func TestInbox_ForgetsTheIdlestChannel(t *testing.T) {
	r := startNew(t, nil)
	spawner(t, r.bus, "agent:a")
	agent := r.bus.Join(t, "agent:a", "agent:a")
	db, err := store.OpenExisting(filepath.Join(r.folder, "chorus.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f := &inboxFixture{r, db, r.elsewhere("ops", a2a.TransportProtocolJSONRPC)}
	var tasks []a2a.TaskID
	var channels []string
	for i := range 2 {
		id, err := f.ask(fmt.Sprint("m", i))
		if err != nil {
			t.Fatal(err)
		}
		m := nextChat(t, agent)
		tasks, channels = append(tasks, id), append(channels, m.Chat.ID)
		if i == 1 { // the first one stays unanswered
			reply := protocol.ChatReply{Text: "It is.", InReplyTo: m.SourceID, IdempotencyKey: "k"}
			agent.Send(t, protocol.Topic(m.Chat.ID), protocol.TypeChatReply, reply)
		}
	}
	waitFor(t, func() bool { return f.count(`outbox WHERE state IN ('pending', 'sending')`) == 0 })
	f.exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 998)
		INSERT INTO channel (peer, inbox, external_id, created_at)
		SELECT 'chorus:ops.c' || i, 'ops', 'c' || i, ?1 + i FROM n`, time.Now().UnixMicro())
	if _, err := f.ask("m2"); err != nil {
		t.Fatalf("a new channel of a full inbox: %v", err)
	}
	if !f.hasTask(tasks[0]) || f.hasTask(tasks[1]) {
		t.Error("the task of a channel in use is lost, or that of the channel that was idle longest is kept")
	}
	for _, table := range []string{"bridge_chats", "bridge_agents", "bridge_events", "bridge_requests"} {
		if n := f.count(table+` WHERE chat = ?`, channels[1]); n > 0 {
			t.Errorf("%s has %d rows of the forgotten channel", table, n)
		}
	}

	f.exec(`INSERT INTO inbound (channel, external_id, source_id, message_id, content, callback, received_at, forwarded_at)
		SELECT peer, 'm', peer || ':m', peer || ':m', x'', x'01', created_at, 1 FROM channel
		WHERE peer GLOB 'chorus:ops.c[0-9]*'`)
	if _, err := f.ask("m3"); err == nil || !strings.Contains(err.Error(), "waits for an answer") {
		t.Errorf("a new channel while all are in use: %v", err)
	}
	f.exec(`UPDATE inbound SET turn = 'idle' WHERE channel IN ('chorus:ops.c5', 'chorus:ops.c6')`)
	f.exec(`INSERT INTO outbox (queue, destination, key, body, state, enqueued_at, not_before, paced, expires_at)
		VALUES ('callback', 'chorus:ops.c5', 'k', x'', 'pending', 1, ?1, 1, ?1)`, time.Now().Add(time.Hour).UnixMicro())
	if _, err := f.ask("m3"); err != nil {
		t.Errorf("a new channel while one is idle: %v", err)
	}
	for channel, want := range map[string]int{"chorus:ops.c5": 1, "chorus:ops.c6": 0, channels[0]: 1} {
		if got := f.count(`channel WHERE peer = ?`, channel); got != want {
			t.Errorf("the channel %s is there %d times; want %d", channel, got, want)
		}
	}
	if got := f.count(`channel WHERE inbox = 'ops'`); got != 1000 {
		t.Errorf("the inbox has %d channels; want 1000", got)
	}
}

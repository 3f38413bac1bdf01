package deadletter_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/cmd/internal/deadletter"
	"hubbub/peers/agent"
	"hubbub/peers/mx"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/peers/system"
	"hubbub/peers/tg"
)

// addDeadItem adds a rejected item to a program's outbox, and an item that waits behind it.
func addDeadItem(t *testing.T, db *store.DB, queue, body string) {
	t.Helper()
	settled := make(chan struct{}, 1)
	box := outbox.New(db, func(_ context.Context, item outbox.Item) error {
		if item.Key == "refused" {
			return outbox.Permanent(errors.New("the bus refused it"))
		}
		return outbox.Retry(time.Hour, errors.New("later"))
	}, &outbox.Options{Name: queue, AfterSettled: func(outbox.Item, outbox.State, error) { settled <- struct{}{} }})
	for _, key := range []string{"refused", "waiting"} {
		if _, err := box.Enqueue(t.Context(), "somebody", key, []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- box.Run(ctx) }()
	<-settled
	cancel()
	if err := errors.Join(<-done, db.Close()); err != nil {
		t.Fatal(err)
	}
}

// fixture returns a data folder of a bridge, a spawner, one of its agents and a person's agent.
func fixture(t *testing.T) deadletter.Folder {
	t.Helper()
	dir := t.TempDir()
	for _, p := range []struct {
		file  string
		open  func(string) (*store.DB, error)
		queue string
		body  string
	}{
		{"system.db", system.Open, "", `{"topic":"system:agents","message":{"type":"agent_event","content":{"event":"online"}}}`},
		{"agents/lead/agent-lead.db", agent.Open, "", `{"type":"tg_reply","content":{"text":"the deploy is blocked"}}`},
		{"agent-own.db", agent.Open, "", `{"secret":"not for eyes"}`},
	} {
		db, err := p.open(filepath.Join(dir, p.file))
		if err != nil {
			t.Fatal(err)
		}
		addDeadItem(t, db, p.queue, p.body)
	}
	db, err := tg.Open(filepath.Join(dir, tg.Database))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return deadletter.Folder(dir)
}

func names(t *testing.T, f deadletter.Folder, states ...outbox.State) string {
	t.Helper()
	items, err := f.List(t.Context(), states...)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for i := range items {
		all = append(all, items[i].Name()+" "+items[i].Agent+" "+items[i].Text)
	}
	return strings.Join(all, "\n")
}

func TestList_AllPrograms(t *testing.T) {
	f := fixture(t)
	want := `system:1 system agent_event {"event":"online"}
agent-own:1 agent:own 
agent-lead:1 agent:lead tg_reply: the deploy is blocked`
	if got := names(t, f, outbox.StateDead, outbox.StateUnknown); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := strings.Count(names(t, f), "\n"); got != 5 {
		t.Errorf("%d items in all", got+1)
	}
}

// TestList_DescribesMatrixItems checks that a folder with only the Matrix bridge has a bridge,
// and that its items show their content and their sender.
func TestList_DescribesMatrixItems(t *testing.T) {
	dir := t.TempDir()
	for _, item := range []struct{ queue, body string }{
		{"matrix", `{"reply":7,"part":0}`}, {"agents", `{"event":3}`},
	} {
		db, err := mx.Open(filepath.Join(dir, mx.Database))
		if err != nil {
			t.Fatal(err)
		}
		err = store.Autocommit(t.Context(), db, func(tx *store.Tx) {
			tx.Exec(`INSERT OR IGNORE INTO replies (id, chat, agent, key, content, received_at)
				VALUES (7, '!a:example.org', 'agent:lead', 'k', '{}', 0)`)
			tx.Exec(`INSERT OR IGNORE INTO sends (reply, part, kind, body, txn)
				VALUES (7, 0, 'text', '{"text":"the deploy is blocked"}', 'x')`)
			tx.Exec(`INSERT OR IGNORE INTO events (id, chat, event, sender, source_id, data, bus_id, received_at)
				VALUES (3, '!a:example.org', '$e', '@w:example.org', 'mx:$e', '{"content":{"text":"deploy it"}}', 'm', 0)`)
		})
		if err != nil {
			t.Fatal(err)
		}
		addDeadItem(t, db, item.queue, item.body)
	}
	f := deadletter.Folder(dir)
	want := "matrix:3  deploy it\nmatrix:1 agent:lead the deploy is blocked"
	if got := names(t, f, outbox.StateDead); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !f.HasBridge() {
		t.Error("the folder has no bridge")
	}
}

func TestRetry_AndDrop(t *testing.T) {
	f := fixture(t)
	if err := f.Drop(t.Context(), "agent-lead:1"); err != nil {
		t.Error(err)
	}
	if err := f.Retry(t.Context(), "agent-own:1"); err != nil {
		t.Error(err)
	}
	if got := names(t, f, outbox.StateDead); !strings.HasPrefix(got, "system:1 ") || strings.Contains(got, "\n") {
		t.Errorf("still dead: %s", got)
	}
	if got := names(t, f, outbox.StateDropped); !strings.HasPrefix(got, "agent-lead:1 ") {
		t.Errorf("dropped: %s", got)
	}
	if got := names(t, f, outbox.StatePending); !strings.Contains(got, "agent-own:1 ") {
		t.Errorf("pending: %s", got)
	}
}

// TestRetry_RefusesPendingItem checks that only the program itself may settle its pending items.
func TestRetry_RefusesPendingItem(t *testing.T) {
	f := fixture(t)
	for _, change := range []func(context.Context, string) error{f.Retry, f.Drop} {
		if err := change(t.Context(), "agent-lead:2"); err == nil || !strings.Contains(err.Error(), "is pending") {
			t.Errorf("a pending item: %v", err)
		}
		for _, name := range []string{"agent-lead:3", "agent-lost:1", "7"} {
			if err := change(t.Context(), name); !errors.Is(err, outbox.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, name := range []string{"", "x", "0", "-1", ":1", "agent-lead:", "agent-lead:1:2"} {
			if err := change(t.Context(), name); err == nil || !strings.Contains(err.Error(), "is not an item") {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
}

// TestRetry_TwoAgentsOfOneName checks that a change for one agent does not affect the other.
func TestRetry_TwoAgentsOfOneName(t *testing.T) {
	f := fixture(t)
	below := filepath.Join(string(f), "agents", "own")
	db, err := agent.Open(filepath.Join(below, "agent-own.db"))
	if err != nil {
		t.Fatal(err)
	}
	addDeadItem(t, db, "", `{}`)
	if err := f.Drop(t.Context(), "agent-own:1"); err == nil || !strings.Contains(err.Error(), "--data "+below) {
		t.Errorf("an item of both: %v", err)
	}
	if err := deadletter.Folder(below).Drop(t.Context(), "agent-own:1"); err != nil {
		t.Error(err)
	}
	if got := names(t, f, outbox.StateDropped); strings.Count(got, "agent-own:1") != 1 {
		t.Errorf("dropped: %s", got)
	}
}

func TestList_ReportsUnreadablePrograms(t *testing.T) {
	f := fixture(t)
	if err := os.WriteFile(filepath.Join(string(f), "broker.db"), []byte("this is no database at all, whatever its name"), 0o600); err != nil {
		t.Fatal(err)
	}
	items, err := f.List(t.Context(), outbox.StateDead)
	if len(items) != 3 || err == nil || !strings.Contains(err.Error(), "the outbox of broker cannot be read") {
		t.Errorf("%d items, %v", len(items), err)
	}
}

// TestList_UnreadableFolder checks a user who may not read the folder.
func TestList_UnreadableFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "no-folder")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := deadletter.Folder(file).List(t.Context()); err == nil || errors.Is(err, deadletter.ErrNoProgram) {
		t.Errorf("it says %v", err)
	}
}

func TestList_EmptyFolder(t *testing.T) {
	if _, err := deadletter.Folder(t.TempDir()).List(t.Context()); !errors.Is(err, deadletter.ErrNoProgram) {
		t.Error(err)
	}
}

// TestList_DoesNotMigrate reads the databases of running programs of another version.
func TestList_DoesNotMigrate(t *testing.T) {
	f := fixture(t)
	path := filepath.Join(string(f), "system.db")
	set := func(sql string) (version int) {
		t.Helper()
		db, err := store.OpenExisting(path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if err := storetest.Scan(db, []any{&version}, sql); err != nil && sql == "PRAGMA user_version" {
			t.Fatal(err)
		}
		return version
	}
	set("PRAGMA user_version = 1")
	names(t, f)
	if v := set("PRAGMA user_version"); v != 1 {
		t.Errorf("its version is %d now", v)
	}
}

package mailbox_test

import (
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/store"
)

// migrated runs statements on a database of an older version and opens it.
func migrated(t *testing.T, version int, statements ...string) *sql.DB {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.db")
	old, err := store.Open(path, mailbox.Steps()[:version])
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if _, err := old.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := mailbox.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

const insertOld = `INSERT INTO events (event_id, source_id, chat, message_id, received_at, content, kind, conversation, thread, stream, author, author_kind, mode, stage,
	disposition, disposed_at, replied) VALUES `

// TestWhatAnOlderAgentDeferredComesBackToo: its database knows no time for it.
func TestWhatAnOlderAgentDeferredComesBackToo(t *testing.T) {
	db := migrated(t, 1, insertOld+`('e1', 'e1', 'tg:42', 'm1', 1, '{}', 'message', '42', '', '', '77', 'human', '', 'turned', 'deferred', 1000000, 0)`)
	var deferrals int
	var back int64
	if err := db.QueryRow(`SELECT deferrals, deadline_at FROM events WHERE event_id = 'e1'`).Scan(&deferrals, &back); err != nil {
		t.Fatal(err)
	}
	if deferrals != 1 || back != (15*time.Minute+time.Second).Microseconds() {
		t.Errorf("%d deferrals, back at %d", deferrals, back)
	}
}

// TestStatesOfAnOlderMailbox: each event has the state that its columns meant, and
// what waited for a digest still does.
func TestStatesOfAnOlderMailbox(t *testing.T) {
	row := func(id, mode, stage, disposition, replied string) string {
		return insertOld + `('` + id + `', '` + id + `', 'tg:42', 'm', 1, '{}', 'message', '42', '', '', '77', 'human', '` + mode + `', '` + stage + `', '` +
			disposition + `', 0, ` + replied + `)`
	}
	db := migrated(t, 4,
		row("new", "", "stored", "", "0"), row("held", "buffered", "held", "", "0"), row("promised", "notify", "turned", "claimed", "0"),
		row("answered", "buffered", "turned", "claimed", "1"), row("told", "buffered", "turned", "responded", "1"), row("merged", "buffered", "turned", "superseded", "0"),
		row("later", "buffered", "held", "deferred", "0"), row("digested", "digest", "kept", "ignored", "0"), row("status", "digest", "digest", "ignored", "0"),
	)
	type state struct {
		state   string
		claimed bool
	}
	want := map[string]state{
		"new": {"stored", false}, "held": {"held", false}, "promised": {"turned", true}, "answered": {"answered", true}, "told": {"responded", false},
		"merged": {"superseded", false}, "later": {"deferred", false}, "digested": {"ignored", false}, "status": {"ignored", false},
	}
	for id, w := range want {
		var s state
		if err := db.QueryRow(`SELECT state, claimed FROM events WHERE event_id = ?`, id).Scan(&s.state, &s.claimed); err != nil || s != w {
			t.Errorf("%s is %+v, %v; want %+v", id, s, err, w)
		}
	}
	var back int64
	if err := db.QueryRow(`SELECT deadline_at FROM events WHERE event_id = 'later'`).Scan(&back); err != nil || back == 0 {
		t.Errorf("what was deferred without a time comes back at %d, %v", back, err)
	}
	box := mailbox.New(db, nil, mailbox.Options{})
	v := box.View(t.Context())
	waiting := v.NextDigest()
	if v.Err() != nil || len(waiting) != 1 || waiting[0].EventID != "status" {
		t.Errorf("for the next digest wait %d, %v", len(waiting), v.Err())
	}
}

// TestUndecidedBeforeAndAfterTheUpdate: whoever looks may be newer than the agent.
func TestUndecidedBeforeAndAfterTheUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "agent.db")
	db, err := store.Open(path, mailbox.Steps()[:4])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if n, since, err := mailbox.Undecided(t.Context(), path); n != 0 || !since.IsZero() || err != nil {
		t.Errorf("of an empty mailbox: %d since %v, %v", n, since, err)
	}
	_, err = db.Exec(insertOld + `('e1', 'e1', 'tg:42', 'm1', 1000000, '{}', 'message', '42', '', '', '77', 'human', '', 'stored', '', 0, 0)`)
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"before", "after"} {
		if n, since, err := mailbox.Undecided(t.Context(), path); n != 1 || since.Unix() != 1 || err != nil {
			t.Errorf("%s the update: %d since %v, %v", when, n, since, err)
		}
		newer, err := mailbox.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		newer.Close()
	}
}

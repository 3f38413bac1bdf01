package mailbox_test

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/budget"
	"hubbub/peers/agent/mailbox/intake"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"

	"github.com/rs/zerolog"
	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"
)

var errAgain = errors.New("as if it had not been")

// addFragments puts n messages of one room into a database, as a busy room with two other agents leaves them: one in fifty is a person's,
// every third had a turn and an answer.
func addFragments(t *testing.T, n int) *store.DB {
	t.Helper()
	db, err := mailbox.Open(filepath.Join(t.TempDir(), "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	const numbers = `WITH RECURSIVE n (i, at, turned, human) AS (SELECT 1, ?2, 0, 0 UNION ALL SELECT i + 1, at + 1000000, (i + 1) % 3 = 0, (i + 1) % 50 = 0 FROM n WHERE i < ?1) `
	for _, statement := range []string{
		numbers + `INSERT INTO events (event_id, source_id, chat, message_id, received_at, content, kind, conversation, thread, stream, author, author_kind, policy, mode, directedness, turn_id, state)
			SELECT 'e' || i, 'e' || i, 'tg:42', 'm' || i, at, json_object('event', 'message', 'text', 'what of ' || hex(randomblob(12)) || '?', 'chat', json_object('id', 'C1', 'kind', 'channel'),
					'author', json_object('id', 'agent:b', 'kind', 'agent')), 'message', 'C1', '', '', iif(human, '77', 'agent:' || iif(i % 2, 'b', 'c')), iif(human, 'human', 'agent'),
				iif(turned, 'must_respond', 'must_not_respond'), iif(turned, 'buffered', 'tool_mailbox'), iif(turned, 'to_me', 'to_other'), iif(turned, 't' || i, ''), iif(turned, 'responded', 'ignored') FROM n`,
		numbers + `INSERT INTO turns (turn_id, event_id, merged, chat, thread_key, author, mode, state, seq, rank, attempt, outbound, started_at, ended_at)
			SELECT 't' || i, 'e' || i, '[]', 'tg:42', 'C1' || char(0), 'agent:b', 'buffered', 'finished', i, 2, 1, 1, 1, 2 FROM n WHERE turned`,
		numbers + `INSERT INTO sent (message_id, event_id, key, chat, conversation, thread, kind, text, sent_at, source_id)
			SELECT 's' || i, 'e' || i, 'k' || i, 'tg:42', 'C1', '', 'text', 'and what of ' || hex(randomblob(12)) || '?', at + 1, 'own' || i FROM n WHERE turned`,
		numbers + `INSERT INTO claims (event_id, owner, token, expires_at, via) SELECT 'e' || i, 'agent:b', i, at - 1000000000, 'broker' FROM n WHERE i % 10 = 0`,
	} {
		if err := storetest.Exec(db, statement, n, time.Now().Add(-time.Duration(n+10)*time.Second).UnixMicro()); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// countSteps calls do and returns how many instructions of SQLite's virtual machine the statements of a database took
// meanwhile, which does not depend on the load of the machine. SQLite counts them for each statement.
func countSteps(t *testing.T, db *store.DB, do func()) (n int) {
	t.Helper()
	thread := libc.NewTLS()
	defer thread.Close()
	reset := func(*store.Tx) { // no other goroutine uses the database meanwhile
		n = 0
		for _, name := range []string{"writer", "reader"} {
			c := reflect.ValueOf(db).Elem().FieldByName(name)
			if c.IsNil() {
				continue
			}
			conn := uintptr(c.Elem().FieldByName("conn").Elem().FieldByName("conn").Uint())
			for s := sqlite3.Xsqlite3_next_stmt(thread, conn, 0); s != 0; s = sqlite3.Xsqlite3_next_stmt(thread, conn, s) {
				n += int(sqlite3.Xsqlite3_stmt_status(thread, s, sqlite3.SQLITE_STMTSTATUS_VM_STEP, 1))
			}
		}
	}
	if err := store.InTx(t.Context(), db, reset); err != nil {
		t.Fatal(err)
	}
	do()
	if err := store.InTx(t.Context(), db, reset); err != nil {
		t.Fatal(err)
	}
	return n
}

// costs counts the steps of what an agent asks of its mailbox for one event and its turn.
func costs(t *testing.T, db *store.DB) map[string]int {
	t.Helper()
	box := mailboxOn(db, zerolog.Nop())
	e := chat("new", "@lead and what of it?")
	e.Content.Chat.ID, e.Content.Chat.Kind = "C1", "channel"
	e.Content.Author.ID, e.Content.Author.Kind = "agent:b", "agent"
	e.Content.ReplyTo = &protocol.ReplyTo{SourceID: "own3"}
	if err := box.InTx(t.Context(), func(tx *mailbox.Tx) { intake.Store(tx, e) }); err != nil {
		t.Fatal(err)
	}
	v := box.View(t.Context())
	e = v.Entry("new")
	turn := func(tx *mailbox.Tx) {
		e := tx.Entry("new")
		tx.Move(e, mailbox.Hold, "")
		tx.Extend([]*mailbox.Entry{e}, e.ReceivedAt.Add(-time.Minute), e.ReceivedAt)
		tx.Compose([]*mailbox.Entry{e})
		e = tx.Entry("new")
		turn := tx.Turn(e.TurnID)
		budget.Check(tx, turn, e, attention.DefaultBudget)
		turn.Attempt = 1
		tx.MoveTurn(turn, mailbox.TurnRunning, "", protocol.TurnCost{})
		lifecycle.Finish(tx, turn, e, protocol.TurnCost{})
		lifecycle.SettleDone(tx, e)
		lifecycle.StopThread(tx, e)
		tx.Fail(errAgain)
	}
	steps := map[string]int{}
	for name, do := range map[string]func(){
		"the facts":               func() { v.Facts(e) },
		"the exchange":            func() { v.Exchange(e) },
		"what was said last":      func() { v.LastTexts(e, 4) },
		"its standing":            func() { v.ReplyContext(e, "hello") },
		"its window":              func() { v.Window(v.Reach(e.Chat), "C1", "", e, 20) },
		"the window of a thread":  func() { v.Window(v.Reach(e.Chat), "C1", "7", e, 20) },
		"the person":              func() { v.LastPerson("C1") },
		"the signals":             func() { v.Reactions(e) },
		"what is unanswered":      func() { v.Unanswered(e.Chat) },
		"a list":                  func() { v.List(v.Reach(e.Chat), mailbox.Filter{Limit: 20}) },
		"what is deferred beside": func() { v.OtherDeferred(e) },
		"the next deadline":       func() { v.NextDeadline() },
		"the next digest":         func() { v.NextDigest() },
		"a turn":                  func() { _ = box.InTx(t.Context(), turn) }, // errAgain
	} {
		steps[name] = countSteps(t, db, do)
	}
	if v.Err() != nil {
		t.Fatal(v.Err())
	}
	return steps
}

// TestMailbox_CostOfAnEventIsConstant checks that the queries of an event or turn read only their
// own rows, and not the history of a busy chat.
func TestMailbox_CostOfAnEventIsConstant(t *testing.T) {
	const few, many = 300, 12_000
	before := costs(t, addFragments(t, few))
	for name, steps := range costs(t, addFragments(t, many)) {
		t.Logf("%s: %d steps beside %d messages, %d beside %d", name, before[name], few, steps, many)
		if steps == 0 || steps > 2*before[name] {
			t.Errorf("%s takes %d steps beside %d messages, and %d beside %d", name, before[name], few, steps, many)
		}
	}
}

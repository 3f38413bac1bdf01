package mailbox_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/intake"
	"hubbub/peers/agent/mailbox/lifecycle"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"

	"github.com/rs/zerolog"
)

// noBroker is the broker of a bus without one.
type noBroker struct{}

func (noBroker) Known() bool                                                         { return false }
func (noBroker) Disposed(*mailbox.Tx, *mailbox.Entry, attention.Disposition, string) {}
func (noBroker) Answer(*mailbox.Tx, *mailbox.Entry, mailbox.SentKind, protocol.MessageID, *protocol.ChatReply) {
}

func newMailbox(t *testing.T) *mailbox.Mailbox {
	t.Helper()
	db, err := mailbox.Open(filepath.Join(t.TempDir(), "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return mailboxOn(db, zerolog.Nop())
}

var hooks = mailbox.Hooks{
	Settled: lifecycle.CloseEscalation, Delivered: obligations.SetID, Undelivered: obligations.CloseUndelivered, Unconfirmed: obligations.SyncWithoutID,
}

func mailboxOn(db *store.DB, log zerolog.Logger) *mailbox.Mailbox {
	return mailbox.New(db, nil, mailbox.Options{
		Settings: mailbox.Settings{Self: attention.Self{ID: "agent:lead"}, Log: &log}, Broker: noBroker{}, Hooks: hooks, MaxOpen: 10, DeferFor: time.Minute,
		StopTurn: func(string, string) {},
	})
}

func chat(id, text string) *mailbox.Entry {
	c := protocol.ChatMessage{SourceID: id, Text: text}
	mailbox.ApplyDefaults(&c, &protocol.Message{From: "tg:42", MessageID: protocol.MessageID("m-" + id)})
	return &mailbox.Entry{SourceID: id, Chat: "tg:42", ReceivedAt: time.Now(), Content: c}
}

// TestTransaction_AbortedLeavesNothing checks that earlier writes are rolled back, that later
// reads and writes have no effect, and that nothing is queued.
func TestTransaction_AbortedLeavesNothing(t *testing.T) {
	box, broken := newMailbox(t), errors.New("broken")
	err := box.InTx(t.Context(), func(tx *mailbox.Tx) {
		intake.Store(tx, chat("e1", "hello"))
		tx.Record("k", nil, map[string]any{"event": "test"})
		tx.Fail(broken)
		tx.Fail(errors.New("a later one"))
		if e := tx.Entry("e1"); e != nil {
			t.Errorf("after an abort there is %+v", e)
		}
		intake.Store(tx, chat("e2", "hello"))
	})
	if !errors.Is(err, broken) {
		t.Errorf("the transaction failed with %v", err)
	}
	v := box.View(t.Context())
	items, listed := box.Outbox.List(t.Context(), &outbox.Filter{})
	if v.Entry("e1") != nil || v.Entry("e2") != nil || len(items) != 0 || v.Err() != nil || listed != nil {
		t.Errorf("it left %d queued, %v, %v", len(items), v.Err(), listed)
	}
}

// TestTransaction_KeepsRecordsOfRefusals checks that an answer without room fails with everything
// that it would have recorded, and that nothing else is logged.
func TestTransaction_KeepsRecordsOfRefusals(t *testing.T) {
	db, err := mailbox.Open(filepath.Join(t.TempDir(), "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var logged bytes.Buffer
	box := mailboxOn(db, zerolog.New(&logged))
	if err := storetest.Exec(db, `INSERT INTO outbox (queue, destination, key, body, state, enqueued_at, not_before, expires_at)
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90000)
		SELECT '', 'tg:42', 'k' || i, x'', 'pending', 0, 0, 1 << 60 FROM n`); err != nil {
		t.Fatal(err)
	}
	err = box.InTx(t.Context(), func(tx *mailbox.Tx) {
		intake.Store(tx, chat("e1", "hello"))
		tx.SendText(tx.Entry("e1"), mailbox.SentText, "k", "hello")
		tx.Record("k", nil, map[string]any{"event": "test"})
	})
	if !errors.Is(err, outbox.ErrFull) || logged.Len() > 0 {
		t.Errorf("failed with %v and logged %s", err, logged.String())
	}
}

// TestView_RemembersItsError checks that a caller who looks at the error last does not take a
// failure for an empty mailbox.
func TestView_RemembersItsError(t *testing.T) {
	box := newMailbox(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v := box.View(ctx)
	if e := v.Entry("e1"); e != nil || len(v.InState(mailbox.Stored, 1)) != 0 || !errors.Is(v.Err(), context.Canceled) {
		t.Errorf("a view whose context has ended: %v", v.Err())
	}
}

// TestDisposition_FinalIsWrittenOnce checks that nothing done about the event later writes
// another.
func TestDisposition_FinalIsWrittenOnce(t *testing.T) {
	box := newMailbox(t)
	err := box.InTx(t.Context(), func(tx *mailbox.Tx) {
		intake.Store(tx, chat("e1", "hello"))
		e := tx.Entry("e1")
		tx.Move(e, mailbox.Hold, "")
		lifecycle.Defer(tx, e, time.Now().Add(5*time.Minute), "later")
		lifecycle.Defer(tx, e, time.Now().Add(5*time.Minute), "later")
		tx.Move(e, mailbox.ClaimEvent, "")
		for _, cause := range []mailbox.Cause{mailbox.Respond, mailbox.Ignore, mailbox.Fail, mailbox.ClaimEvent, mailbox.Join, mailbox.Reopen} {
			tx.Move(e, cause, string(cause))
		}
		if e.State != mailbox.Responded || e.Deferrals != 1 {
			t.Errorf("it ended %s after %d deferrals", e.State, e.Deferrals)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	items, err := box.Outbox.List(t.Context(), &outbox.Filter{})
	if err != nil || len(items) != 3 { // deferred, claimed, responded
		t.Errorf("%d records, %v", len(items), err)
	}
	if e := box.View(t.Context()).Entry("e1"); e == nil || e.State != mailbox.Responded {
		t.Errorf("stored is %+v", e)
	}
}

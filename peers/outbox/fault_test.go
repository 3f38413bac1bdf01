package outbox_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol/timetest"

	"github.com/rs/zerolog"
)

// lines counts the lines of a log.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

func (l *lines) log() *zerolog.Logger {
	log := zerolog.New(l)
	return &log
}

// times records when something happened, in seconds since it was made.
type times struct {
	mu    sync.Mutex
	begun time.Time
	list  []float64
}

func newTimes() *times { return &times{begun: time.Now()} }

func (t *times) note() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, time.Since(t.begun).Seconds())
}

func (t *times) all() []float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]float64(nil), t.list...)
}

// TestDatabaseFault_IsReportedAndOutlived checks that each step that needs the database logs a
// fault once a second, however rarely the outbox polls, and continues within a second after the
// fault.
func TestDatabaseFault_IsReportedAndOutlived(t *testing.T) {
	for name, c := range map[string]struct{ breaks, recovers string }{
		"looking for what was interrupted": {"ALTER TABLE outbox RENAME TO away", "ALTER TABLE away RENAME TO outbox"},
		"the query for what is due":        {"ALTER TABLE outbox RENAME COLUMN paced TO away", "ALTER TABLE outbox RENAME COLUMN away TO paced"},
		"marking": {"CREATE TRIGGER broken BEFORE UPDATE ON outbox WHEN new.state = 'sending' BEGIN SELECT RAISE(ABORT, 'broken'); END",
			"DROP TRIGGER broken"},
		"what was interrupted": {"CREATE TRIGGER broken BEFORE UPDATE ON outbox WHEN new.state = 'pending' BEGIN SELECT RAISE(ABORT, 'broken'); END",
			"DROP TRIGGER broken"},
		"forgetting": {"CREATE TRIGGER broken BEFORE DELETE ON outbox BEGIN SELECT RAISE(ABORT, 'broken'); END", "DROP TRIGGER broken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := freshDB(t)
				var logged lines
				sent := newTimes()
				box := outbox.New(db, func(_ context.Context, it outbox.Item) error {
					sent.note()
					return nil
				}, &outbox.Options{Poll: time.Hour, Log: logged.log()})
				exec := func(statement string) {
					t.Helper()
					if err := storetest.Exec(db, statement); err != nil {
						t.Fatal(err)
					}
				}
				before := outbox.New(db, nil, nil) // it notifies no running outbox
				enqueue(t, before, "tg:1", "a")
				enqueue(t, before, "tg:2", "cut")
				enqueue(t, before, "tg:3", "old")
				exec("UPDATE outbox SET state = 'sending' WHERE key = 'cut'")
				exec("UPDATE outbox SET state = 'sent', settled_at = 1 WHERE key = 'old'")
				exec(c.breaks)
				stop := run(t, box)
				timetest.Advance(10*time.Second + time.Millisecond)
				// Forgetting comes last, and is tried again an hour later.
				want, wantSent := 11, 0
				if name == "forgetting" {
					want, wantSent = 1, 2
				}
				if n := logged.count("outbox database not usable"); n != want || len(sent.all()) != wantSent {
					t.Errorf("told %d times in ten seconds, sent %v", n, sent.all())
				}
				exec(c.recovers)
				timetest.Advance(time.Second)
				if at := sent.all(); len(at) != 2 {
					t.Errorf("sent at %v; want both, a second after the fault has passed", at)
				}
				stop()
				if n := logged.count("outbox database not usable"); n != want {
					t.Errorf("the end was told as a fault: %d", n)
				}
			})
		})
	}
}

func TestDatabaseFault_DuringRunIsReportedAndOutlived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := freshDB(t)
		var logged lines
		box := outbox.New(db, func(context.Context, outbox.Item) error { return nil }, &outbox.Options{Poll: time.Hour, Log: logged.log()})
		run(t, box)
		timetest.Advance(time.Second)
		enqueue(t, outbox.New(db, nil, nil), "tg:1", "a") // another process, which does not wake this one
		for _, statement := range []string{"ALTER TABLE outbox RENAME TO away", "ALTER TABLE away RENAME TO outbox"} {
			if err := storetest.Exec(db, statement); err != nil {
				t.Fatal(err)
			}
			box.Wake()
			timetest.Advance(5*time.Second + time.Millisecond)
		}
		if n := logged.count("looking for due items"); n != 6 {
			t.Errorf("told %d times; want 6", n)
		}
		if it := only(t, box); it.State != outbox.StateSent {
			t.Errorf("it is %s", it.State)
		}
	})
}

// TestSettle_LeavesItemsOfAnotherProcess runs one queue in two processes, which is not allowed.
func TestSettle_LeavesItemsOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := freshDB(t)
		var logged lines
		settled := 0
		box := outbox.New(db, func(context.Context, outbox.Item) error {
			err := storetest.Exec(db, "UPDATE outbox SET state = 'dead', settled_at = ?", time.Now().UnixMicro())
			return err
		}, &outbox.Options{
			Log: logged.log(), Jitter: func() float64 { return 0 },
			OnSettled:    func(*store.Tx, outbox.Item, outbox.State, error) { settled++ },
			AfterSettled: func(outbox.Item, outbox.State, error) { settled++ },
		})
		enqueue(t, box, "tg:1", "a")
		stop := run(t, box)
		timetest.Advance(4 * time.Second) // tries at 0, 1 and 3 s
		stop()
		if n := logged.count("changed under the outbox"); n != 4 || settled != 0 { // and at 7 s, before its grace is over
			t.Errorf("told %d times, settled %d times", n, settled)
		}
		if it := only(t, box); it.State != outbox.StateDead || string(it.Body) != "a" {
			t.Errorf("%+v", it)
		}
	})
}

// TestPut_WithAFailedCommitStartsNothing also checks that the item is not stored.
func TestPut_WithAFailedCommitStartsNothing(t *testing.T) {
	db := freshDB(t)
	box := outbox.New(db, nil, nil)
	for _, statement := range []string{
		"CREATE TABLE parent (id INTEGER PRIMARY KEY)",
		"CREATE TABLE child (parent INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED)",
		"CREATE TRIGGER orphan AFTER INSERT ON outbox BEGIN INSERT INTO child VALUES (99); END",
	} {
		if err := storetest.Exec(db, statement); err != nil {
			t.Fatal(err)
		}
	}
	if fresh, err := box.Enqueue(t.Context(), "tg:1", "a", nil); fresh || err == nil || !strings.Contains(err.Error(), "committing") {
		t.Errorf("fresh = %v, %v", fresh, err)
	}
	if items, err := box.List(t.Context(), nil); err != nil || len(items) != 0 {
		t.Errorf("%+v, %v", items, err)
	}
}

// TestPut_FailsItsTransactionOnlyOnDatabaseErrors also checks that a refusal fails no transaction.
func TestPut_FailsItsTransactionOnlyOnDatabaseErrors(t *testing.T) {
	db := freshDB(t)
	box := outbox.New(db, nil, &outbox.Options{MaxBody: 1})
	err := store.InTx(t.Context(), db, func(tx *store.Tx) {
		if fresh, err := box.EnqueueTx(tx, "tg:1", "large", []byte("xx")); fresh || !errors.Is(err, outbox.ErrTooLarge) || tx.Err() != nil {
			t.Errorf("too large: %v, %v, of the transaction: %v", fresh, err, tx.Err())
		}
		why := errors.New("why")
		tx.Fail(why)
		if fresh, err := box.EnqueueTx(tx, "tg:1", "a", nil); fresh || !errors.Is(err, why) {
			t.Errorf("in a failed transaction: %v, %v", fresh, err)
		}
	})
	if err == nil {
		t.Error("it was committed")
	}
}

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"zombiezen.com/go/sqlite"

	"hubbub/protocol/timetest"
)

func openTable(t *testing.T) *DB {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), "peer.db"), `CREATE TABLE n (i INTEGER PRIMARY KEY)`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func numbers(t *testing.T, db *DB) []int {
	t.Helper()
	list, err := Read(t.Context(), db, func(tx *Tx) []int { return All(tx, Scalar[int], `SELECT i FROM n ORDER BY i`) })
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// runTogether begins all transactions while another one is open, so that they share a
// commit. It returns their errors, and that of the open one, which inserts 100, last.
func runTogether(t *testing.T, db *DB, members ...func(tx *Tx)) []error {
	t.Helper()
	errs := make([]error, len(members)+1)
	var wg sync.WaitGroup
	errs[len(members)] = InTx(t.Context(), db, func(tx *Tx) {
		tx.Exec(`INSERT INTO n VALUES (100)`)
		for i, do := range members {
			wg.Go(func() { errs[i] = InTx(t.Context(), db, do) })
		}
		for int(db.waiting.Load()) < len(members) {
			tx.Exec(`SELECT 1`)
		}
	})
	wg.Wait()
	return errs
}

func TestInTx_SharesCommitWithWaitingTransactions(t *testing.T) {
	db := openTable(t)
	var mu sync.Mutex
	groups := map[*group]int{}
	var members []func(tx *Tx)
	for i := range 10 {
		members = append(members, func(tx *Tx) {
			tx.Exec(`INSERT INTO n VALUES (?)`, i)
			mu.Lock()
			defer mu.Unlock()
			groups[db.group]++
			tx.OnCommit(func() {
				if n := len(numbers(t, db)); n != 11 {
					t.Errorf("OnCommit ran when %d rows were committed", n)
				}
			})
		})
	}
	for _, err := range runTogether(t, db, members...) {
		if err != nil {
			t.Error(err)
		}
	}
	if len(groups) != 1 {
		t.Errorf("the transactions had %d commits", len(groups))
	}
}

// TestRead_SeesWhatIsCommitted reads while the connection for writing is idle, in a transaction,
// and left with a transaction for the next member.
func TestRead_SeesWhatIsCommitted(t *testing.T) {
	db := openTable(t)
	expect := func(want string) {
		t.Helper()
		if got := fmt.Sprint(numbers(t, db)); got != want {
			t.Errorf("read %s, want %s", got, want)
		}
	}
	expect("[]")
	if db.reader != nil {
		t.Error("an idle database has a second connection")
	}
	var wg sync.WaitGroup
	err := InTx(t.Context(), db, func(tx *Tx) {
		tx.Exec(`INSERT INTO n VALUES (1)`)
		expect("[]")
		wg.Go(func() {
			err := InTx(t.Context(), db, func(tx *Tx) {
				tx.Exec(`INSERT INTO n VALUES (2)`)
				expect("[]")
			})
			if err != nil {
				t.Error(err)
			}
		})
		for db.waiting.Load() == 0 {
			tx.Exec(`SELECT 1`)
		}
	})
	wg.Wait()
	if err != nil {
		t.Error(err)
	}
	expect("[1 2]")
}

func TestInTx_ErrorRollsBackOneMemberOfGroup(t *testing.T) {
	db := openTable(t)
	own := errors.New("own")
	var members []func(tx *Tx)
	for i := range 9 {
		members = append(members, func(tx *Tx) {
			tx.Exec(`INSERT INTO n VALUES (?)`, i)
			switch i % 3 {
			case 1:
				tx.Fail(own)
			case 2:
				tx.Exec(`INSERT INTO n VALUES (?)`, i) // the same key again
			}
		})
	}
	for i, err := range runTogether(t, db, members...) {
		if (err == nil) != (i%3 == 0) || i%3 == 1 && err != own {
			t.Errorf("member %d: %v", i, err)
		}
	}
	if got := fmt.Sprint(numbers(t, db)); got != "[0 3 6 100]" {
		t.Error(got)
	}
}

// TestInTx_PanicRollsBackItsMember also checks that the database can be used afterwards.
func TestInTx_PanicRollsBackItsMember(t *testing.T) {
	db := openTable(t)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was lost")
			}
		}()
		InTx(t.Context(), db, func(tx *Tx) { //nolint:errcheck // panics
			tx.Exec(`INSERT INTO n VALUES (1)`)
			panic("broken")
		})
	}()
	if err := InTx(t.Context(), db, func(tx *Tx) { tx.Exec(`INSERT INTO n VALUES (2)`) }); err != nil {
		t.Error(err)
	}
	if got := fmt.Sprint(numbers(t, db)); got != "[2]" {
		t.Error(got)
	}
}

// TestInTx_FailsGroupWithoutTransaction ends the transaction as SQLite does when the disk
// is full: every member must learn that nothing was written.
func TestInTx_FailsGroupWithoutTransaction(t *testing.T) {
	db := openTable(t)
	insert := func(i int) func(tx *Tx) { return func(tx *Tx) { tx.Exec(`INSERT INTO n VALUES (?)`, i) } }
	full := func(tx *Tx) { tx.Exec(`INSERT OR ROLLBACK INTO n VALUES (9), (9)`) }
	errs := runTogether(t, db, insert(1), insert(2), full, insert(3))
	stored := numbers(t, db)
	for i, n := range []int{1, 2, 9, 3, 100} {
		if found := slices.Contains(stored, n); (errs[i] == nil) != found {
			t.Errorf("member %d: %v, stored: %t", i, errs[i], found)
		}
	}
	if errs[2] == nil || errs[4] == nil {
		t.Errorf("the member that failed: %v; the first of the group: %v", errs[2], errs[4])
	}
}

func TestInTx_EndedContextLeavesGroupToCommit(t *testing.T) {
	db := openTable(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	var late error
	var wg sync.WaitGroup
	if err := InTx(t.Context(), db, func(tx *Tx) {
		tx.Exec(`INSERT INTO n VALUES (1)`)
		wg.Go(func() { late = InTx(ended, db, func(*Tx) { t.Error("it was called") }) })
		for db.waiting.Load() == 0 {
			tx.Exec(`SELECT 1`)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if wg.Wait(); !errors.Is(late, context.Canceled) || len(numbers(t, db)) != 1 {
		t.Error(late)
	}
}

func TestClose_RefusesFurtherStatements(t *testing.T) {
	db := openTable(t)
	if err := errors.Join(db.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	write := InTx(t.Context(), db, func(tx *Tx) { tx.Exec(`INSERT INTO n VALUES (1)`) })
	_, read := Read(t.Context(), db, func(tx *Tx) int { return Value[int](tx, `SELECT 1`) })
	if !errors.Is(write, errClosed) || !errors.Is(read, errClosed) {
		t.Error(write, read)
	}
}

// isDirty reports whether a power cut may undo commits, and the PRAGMA synchronous of the
// connection: 1 is NORMAL, 2 is FULL.
func isDirty(t *testing.T, db *DB) (dirty bool, mode int) {
	t.Helper()
	db.mu.Lock()
	defer db.mu.Unlock()
	err := db.writer.run(t.Context(), "PRAGMA synchronous", nil,
		func(s *sqlite.Stmt) error { return scan(s, []any{&mode}) })
	if err != nil {
		t.Fatal(err)
	}
	return db.dirty != nil, mode
}

func TestInTxUnsynced_IsSyncedWithTheNextTransactionOrLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTable(t)
		write := func(inTx func(context.Context, *DB, func(*Tx)) error, query string) {
			t.Helper()
			if err := inTx(t.Context(), db, func(tx *Tx) { tx.Exec(query) }); err != nil {
				t.Fatal(err)
			}
		}
		expect := func(dirty bool, mode int) {
			t.Helper()
			if d, m := isDirty(t, db); d != dirty || m != mode {
				t.Errorf("dirty %t, mode %d; want %t, %d", d, m, dirty, mode)
			}
		}
		write(InTxUnsynced, `INSERT INTO n VALUES (1)`)
		expect(true, 1)
		write(InTx, `INSERT INTO n SELECT 1 WHERE false`) // writes nothing, so SQLite does not sync
		expect(true, 2)
		write(InTx, `INSERT INTO n VALUES (2)`)
		expect(false, 2)
		write(InTxUnsynced, `INSERT INTO n VALUES (3)`)
		timetest.Advance(syncDelay)
		expect(false, 2)
		write(InTxUnsynced, `INSERT INTO n VALUES (4)`)
		if err := db.Close(); err != nil { // the bubble ends only without a timer that runs
			t.Fatal(err)
		}
	})
}

// logSize returns the size of SQLite's log.
func logSize(t *testing.T, db *DB) int64 {
	t.Helper()
	info, err := os.Stat(db.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestInTx_SyncsAfterUnsyncedThoughRowsStay updates rows to what they hold, for which SQLite writes no
// page. What it does not write, it does not sync.
func TestInTx_SyncsAfterUnsyncedThoughRowsStay(t *testing.T) {
	db := openTable(t)
	if err := db.Exec(t.Context(), `CREATE TABLE r (k TEXT PRIMARY KEY, v TEXT); INSERT INTO r VALUES ('a', 'b')`); err != nil {
		t.Fatal(err)
	}
	for i, query := range []string{
		`UPDATE r SET v = 'b'`,
		`INSERT INTO r VALUES ('a', 'b') ON CONFLICT DO UPDATE SET v = excluded.v`,
	} {
		if err := InTxUnsynced(t.Context(), db, func(tx *Tx) { tx.Exec(`INSERT INTO n VALUES (?)`, i) }); err != nil {
			t.Fatal(err)
		}
		before := logSize(t, db)
		if err := InTx(t.Context(), db, func(tx *Tx) { tx.Exec(query) }); err != nil {
			t.Fatal(err)
		}
		if dirty, _ := isDirty(t, db); dirty || logSize(t, db) == before {
			t.Errorf("%s: dirty %t, %d bytes written; want a sync", query, dirty, logSize(t, db)-before)
		}
	}
}

// TestInTx_IsSyncedInGroupWithUnsynced also checks that an unsynced transaction joins a
// synced group.
func TestInTx_IsSyncedInGroupWithUnsynced(t *testing.T) {
	db := openTable(t)
	var synced []bool
	member := func(tx *Tx) { synced = append(synced, db.group.synced) }
	var wg sync.WaitGroup
	if err := InTxUnsynced(t.Context(), db, func(tx *Tx) {
		member(tx)
		wg.Go(func() { InTx(t.Context(), db, member) })         //nolint:errcheck // it writes nothing
		wg.Go(func() { InTxUnsynced(t.Context(), db, member) }) //nolint:errcheck // it writes nothing
		for db.waiting.Load() < 2 {
			tx.Exec(`SELECT 1`)
		}
	}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if len(synced) != 3 || synced[0] || !slices.Contains(synced[1:], true) {
		t.Error(synced)
	}
}

// TestInTx_StopsWaitingForAnotherProgramWithItsContext holds the lock as another program
// would.
func TestInTx_StopsWaitingForAnotherProgramWithItsContext(t *testing.T) {
	db := openTable(t)
	other, err := connect(db.path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close() //nolint:errcheck // its end releases the lock
	if err := other.exec(t.Context(), "BEGIN IMMEDIATE", nil); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err = InTx(ctx, db, func(*Tx) { t.Error("it was called") })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v; want that of the context", err)
	}
	if err := other.exec(t.Context(), "ROLLBACK", nil); err != nil {
		t.Fatal(err)
	}
	if err := InTx(t.Context(), db, func(tx *Tx) { tx.Exec(`INSERT INTO n VALUES (1)`) }); err != nil {
		t.Error(err)
	}
}

// TestInTx_WaitsForAnotherProgramInBubble holds in tests with a clock of their own, too.
func TestInTx_WaitsForAnotherProgramInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := openTable(t)
		other, err := Open(db.path, `CREATE TABLE n (i INTEGER PRIMARY KEY)`)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		var wg sync.WaitGroup
		if err := InTx(t.Context(), other, func(tx *Tx) {
			tx.Exec(`INSERT INTO n VALUES (0)`)
			for i := range 3 {
				wg.Go(func() {
					if err := InTx(t.Context(), db, func(tx *Tx) { tx.Exec(`INSERT INTO n VALUES (?)`, i+1) }); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(time.Second)
		}); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if got := numbers(t, db); !slices.Equal(got, []int{0, 1, 2, 3}) {
			t.Errorf("stored %v", got)
		}
	})
}

// TestInTxAhead_SharesSyncOrSyncsLater checks that OnCommit runs before the
// sync, and that InTxAhead returns after it.
func TestInTxAhead_SharesSyncOrSyncsLater(t *testing.T) {
	for name, later := range map[string]func(db *DB) error{
		"a later transaction syncs": func(db *DB) error {
			return InTx(t.Context(), db, func(tx *Tx) { tx.Exec(`INSERT INTO n VALUES (2)`) })
		},
		"nothing else syncs": func(*DB) error { return nil },
		"it is closed":       func(db *DB) error { return db.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				db := openTable(t)
				began, committed, returned := time.Now(), make(chan bool, 1), make(chan error, 1)
				ahead := func() {
					err := InTxAhead(t.Context(), db, func(tx *Tx) {
						tx.Exec(`INSERT OR IGNORE INTO n VALUES (1)`)
						tx.OnCommit(func() { committed <- true })
					})
					returned <- err
				}
				go ahead()
				<-committed
				if dirty, _ := isDirty(t, db); !dirty {
					t.Error("OnCommit ran after the sync")
				}
				go ahead() // writes nothing, and still waits
				<-committed
				synctest.Wait()
				if len(returned) != 0 {
					t.Error("it returned before the sync")
				}
				if err := later(db); err != nil {
					t.Fatal(err)
				}
				for range 2 {
					if err := <-returned; err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(began); name != "nothing else syncs" && took != 0 || took > shareDelay {
					t.Errorf("it took %s", took)
				}
				if db.dirty != nil {
					t.Error("it returned before the sync")
				}
				if err := db.Close(); err != nil { // the bubble ends only without a timer that runs
					t.Fatal(err)
				}
			})
		})
	}
}

// TestInTxAhead_ReturnsErrorWhenCloseCannotSync closes the database before the sync, which fails.
func TestInTxAhead_ReturnsErrorWhenCloseCannotSync(t *testing.T) {
	db := openTable(t)
	err := InTxAhead(t.Context(), db, func(tx *Tx) {
		tx.Exec(`INSERT INTO n VALUES (1)`)
		tx.OnCommit(func() {
			if err := db.Exec(t.Context(), `PRAGMA query_only = ON`); err != nil {
				t.Error(err)
			}
			if err := db.Close(); err == nil {
				t.Error("Close returned no error")
			}
		})
	})
	if !errors.Is(err, errClosed) {
		t.Errorf("err = %v, want %v", err, errClosed)
	}
}

// TestInTxAhead_ReturnsErrorOfSync makes the sync wait for another program and
// fail.
func TestInTxAhead_ReturnsErrorOfSync(t *testing.T) {
	db := openTable(t)
	err := InTxAhead(t.Context(), db, func(tx *Tx) {
		tx.Exec(`INSERT INTO n VALUES (1)`)
		tx.OnCommit(func() {
			if err := db.Exec(t.Context(), `PRAGMA query_only = ON`); err != nil {
				t.Error(err)
			}
		})
	})
	if err == nil || fmt.Sprint(numbers(t, db)) != "[1]" {
		t.Errorf("err = %v, stored %v", err, numbers(t, db))
	}
	if err := db.Exec(t.Context(), `PRAGMA query_only = OFF`); err != nil {
		t.Error(err)
	}
}

// TestSync_BeginsNewLogAfterItFailed lets a sync fail. The system may then have forgotten pages of the
// log, so that it ends there after a power cut.
func TestSync_BeginsNewLogAfterItFailed(t *testing.T) {
	insert := func(tx *Tx) { tx.Exec(`INSERT OR IGNORE INTO n VALUES (1)`) }
	for name, again := range map[string]func(db *DB) error{
		"the transaction is repeated":   func(db *DB) error { return InTxAhead(t.Context(), db, insert) },
		"another transaction is synced": func(db *DB) error { return InTx(t.Context(), db, insert) },
	} {
		t.Run(name, func(t *testing.T) {
			db := openTable(t)
			if err := InTxUnsynced(t.Context(), db, insert); err != nil {
				t.Fatal(err)
			}
			if err := db.Exec(t.Context(), `PRAGMA query_only = ON`); err != nil {
				t.Fatal(err)
			}
			if err := db.awaitSync(); err == nil {
				t.Error("the sync did not fail")
			}
			if err := db.Exec(t.Context(), `PRAGMA query_only = OFF`); err != nil {
				t.Fatal(err)
			}
			before := logSize(t, db)
			if err := again(db); err != nil {
				t.Fatal(err)
			}
			if dirty, _ := isDirty(t, db); dirty || logSize(t, db) >= before || fmt.Sprint(numbers(t, db)) != "[1]" {
				t.Errorf("dirty %t, the log grew from %d to %d bytes, stored %v", dirty, before, logSize(t, db), numbers(t, db))
			}
		})
	}
}

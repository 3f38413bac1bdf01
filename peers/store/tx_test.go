package store_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/store"
)

func numbers(t *testing.T) *sql.DB {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "peer.db"), []string{`CREATE TABLE n (i INTEGER PRIMARY KEY, word TEXT)`})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestATransactionThatCommits(t *testing.T) {
	db := numbers(t)
	type row struct {
		i    int
		word string
	}
	var seen []string
	err := store.InTx(t.Context(), db, func(tx *store.Tx) {
		tx.OnCommit(func() { seen = append(seen, "after") })
		tx.Exec(`INSERT INTO n VALUES (1, 'one'), (2, 'two')`)
		if n := tx.ExecCount(`UPDATE n SET word = upper(word) WHERE i = ?`, 2); n != 1 {
			t.Errorf("%d rows changed", n)
		}
		seen = append(seen, "in it")
	})
	if err != nil || !slices.Equal(seen, []string{"in it", "after"}) {
		t.Fatal(err, seen)
	}
	on := store.On(t.Context(), db)
	list := store.All(on, func(r *row) []any { return []any{&r.i, &r.word} }, `SELECT i, word FROM n ORDER BY i`)
	if !slices.Equal(list, []row{{1, "one"}, {2, "TWO"}}) {
		t.Error(list)
	}
	if word, found := store.One(on, store.Scalar[string], `SELECT word FROM n WHERE i = 3`); found || word != "" {
		t.Error("a row that is not there was found")
	}
	if n := store.Value[int](on, `SELECT count(*) FROM n`); n != 2 || on.Err() != nil {
		t.Error(n, on.Err())
	}
	at := false
	if on.OnCommit(func() { at = true }); !at {
		t.Error("outside of a transaction, After waits")
	}
}

func TestWhatWasBeingDoneIsTold(t *testing.T) {
	tx, broken := store.On(t.Context(), numbers(t)), errors.New("broken")
	tx.Annotate("counting", func() {})
	tx.Annotate("writing", func() { tx.Fail(broken) })
	tx.Annotate("reading", func() { t.Error("it goes on") })
	if err := tx.Err(); !errors.Is(err, broken) || err.Error() != "writing: broken" {
		t.Error(err)
	}
}

func TestTimesAreReadFromMicroseconds(t *testing.T) {
	tx := store.On(t.Context(), numbers(t))
	type row struct{ some, none time.Time }
	columns := func(r *row) []any { return []any{store.Micros{Time: &r.some}, store.Micros{Time: &r.none}} }
	r, found := store.One(tx, columns, `SELECT 1700000000000001, 0`)
	if !found || r.some.UnixMicro() != 1700000000000001 || !r.none.IsZero() {
		t.Error(r, tx.Err())
	}
	if _, found := store.One(tx, columns, `SELECT 'noon', 0`); found || tx.Err() == nil {
		t.Error("a word was read as a time")
	}
}

func TestTheFirstErrorStaysAndRollsBack(t *testing.T) {
	db := numbers(t)
	after := false
	err := store.InTx(t.Context(), db, func(tx *store.Tx) {
		tx.OnCommit(func() { after = true })
		tx.Exec(`INSERT INTO n VALUES (1, 'one')`)
		tx.Exec(`INSERT INTO none
			VALUES (1)`)
		tx.Fail(errors.New("a later one"))
		if n := store.Value[int](tx, `SELECT count(*) FROM n`); n != 0 {
			t.Error("it reads on")
		}
		if list := store.All(tx, store.Scalar[int], `SELECT i FROM n`); list != nil {
			t.Error("it lists on")
		}
		if tx.ExecCount(`UPDATE n SET i = 7`) != 0 {
			t.Error("it changes on")
		}
	})
	if err == nil || !strings.HasPrefix(err.Error(), "INSERT INTO none VALUES (1): ") || after {
		t.Error(err, after)
	}
	mine := errors.New("mine")
	if err := store.InTx(t.Context(), db, func(tx *store.Tx) { tx.Exec(`INSERT INTO n VALUES (1, 'one')`); tx.Fail(mine) }); err != mine {
		t.Error(err)
	}
	on := store.On(t.Context(), db)
	if n := store.Value[int](on, `SELECT count(*) FROM n`); n != 0 {
		t.Errorf("%d rows stayed", n)
	}
	for name, fails := range map[string]func(tx *store.Tx){
		"a column that does not fit": func(tx *store.Tx) { store.All(tx, store.Scalar[int], `SELECT 'x'`) },
		"a row that does not fit":    func(tx *store.Tx) { store.Value[int](tx, `SELECT 'x'`) },
		"no such table":              func(tx *store.Tx) { store.All(tx, store.Scalar[int], `SELECT 1 FROM none`) },
	} {
		tx := store.On(t.Context(), db)
		if fails(tx); tx.Err() == nil || !strings.HasPrefix(tx.Err().Error(), "SELECT") {
			t.Errorf("%s: %v", name, tx.Err())
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.InTx(gone, db, func(*store.Tx) { t.Error("it began") }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

package store_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/store"
)

func open(t *testing.T) *store.DB {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "peer.db"), `CREATE TABLE n (i INTEGER PRIMARY KEY, word TEXT)`)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func count(t *testing.T, db *store.DB) int {
	t.Helper()
	n, err := store.Read(t.Context(), db, func(tx *store.Tx) int { return store.Value[int](tx, `SELECT count(*) FROM n`) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestInTx_CommitsThenCallsOnCommit(t *testing.T) {
	db := open(t)
	var seen []string
	err := store.InTx(t.Context(), db, func(tx *store.Tx) {
		tx.OnCommit(func() { seen = append(seen, "committed") })
		tx.Exec(`INSERT INTO n VALUES (1, 'one'), (2, 'two')`)
		if n := tx.ExecCount(`UPDATE n SET word = upper(word) WHERE i = ?`, 2); n != 1 {
			t.Errorf("%d rows changed", n)
		}
		seen = append(seen, "in the transaction")
	})
	if err != nil || !slices.Equal(seen, []string{"in the transaction", "committed"}) {
		t.Fatal(err, seen)
	}
}

func TestRead_ReturnsRowsAndErrors(t *testing.T) {
	type row struct {
		i    int
		word string
	}
	db := open(t)
	if err := store.Autocommit(t.Context(), db, func(tx *store.Tx) {
		tx.Exec(`INSERT INTO n VALUES (1, 'one'), (2, 'TWO')`)
	}); err != nil {
		t.Fatal(err)
	}
	list, err := store.Read(t.Context(), db, func(tx *store.Tx) []row {
		if word, found := store.One(tx, store.Scalar[string], `SELECT word FROM n WHERE i = 3`); found || word != "" {
			t.Error("a missing row was found")
		}
		return store.All(tx, func(r *row) []any { return []any{&r.i, &r.word} }, `SELECT i, word FROM n ORDER BY i`)
	})
	if err != nil || !slices.Equal(list, []row{{1, "one"}, {2, "TWO"}}) {
		t.Error(list, err)
	}
	for name, read := range map[string]func(tx *store.Tx) int{
		"a column of the wrong type": func(tx *store.Tx) int { return len(store.All(tx, store.Scalar[int], `SELECT 'x'`)) },
		"a row of the wrong type":    func(tx *store.Tx) int { return store.Value[int](tx, `SELECT 'x'`) },
		"no such table":              func(tx *store.Tx) int { return store.Value[int](tx, `SELECT 1 FROM none`) },
		"a value before the error":   func(tx *store.Tx) int { tx.Exec(`SELECT 1 FROM none`); return 7 },
	} {
		if n, err := store.Read(t.Context(), db, read); n != 0 || err == nil || !strings.HasPrefix(err.Error(), "SELECT") {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
}

func TestAutocommit_KeepsStatementsBeforeError(t *testing.T) {
	db, committed := open(t), false
	err := store.Autocommit(t.Context(), db, func(tx *store.Tx) {
		tx.Exec(`INSERT INTO n VALUES (1, 'one')`)
		if tx.OnCommit(func() { committed = true }); !committed {
			t.Error("OnCommit waits outside a transaction")
		}
		tx.Exec(`INSERT INTO none VALUES (1)`)
		tx.Exec(`INSERT INTO n VALUES (2, 'two')`)
	})
	if err == nil || !strings.HasPrefix(err.Error(), "INSERT INTO none") {
		t.Error(err)
	}
	if n := count(t, db); n != 1 {
		t.Errorf("%d rows; want the one before the error", n)
	}
}

func TestAnnotate_PrefixesError(t *testing.T) {
	broken := errors.New("broken")
	err := store.Autocommit(t.Context(), open(t), func(tx *store.Tx) {
		tx.Annotate("counting", func() {})
		tx.Annotate("writing", func() { tx.Fail(broken) })
		tx.Annotate("reading", func() { t.Error("it was called after an error") })
	})
	if !errors.Is(err, broken) || err.Error() != "writing: broken" {
		t.Error(err)
	}
}

func TestMicros_ScansMicroseconds(t *testing.T) {
	type row struct{ some, none time.Time }
	columns := func(r *row) []any { return []any{store.Micros{Time: &r.some}, store.Micros{Time: &r.none}} }
	db := open(t)
	read := func(query string) (row, error) {
		return store.Read(t.Context(), db, func(tx *store.Tx) row {
			r, _ := store.One(tx, columns, query)
			return r
		})
	}
	if r, err := read(`SELECT 1700000000000001, 0`); err != nil || r.some.UnixMicro() != 1700000000000001 || !r.none.IsZero() {
		t.Error(r, err)
	}
	if _, err := read(`SELECT 'noon', 0`); err == nil {
		t.Error("a word was read as a time")
	}
}

// TestColumns_StoreTimesAndJSON writes values through their columns and reads them back.
func TestColumns_StoreTimesAndJSON(t *testing.T) {
	type row struct {
		at, none        time.Time
		list, untouched []string
	}
	at := time.Date(2026, 11, 28, 23, 0, 0, 1000, time.FixedZone("", 3600))
	for _, list := range [][]string{{"a", "<b>"}, {}, nil} {
		got, err := store.Read(t.Context(), open(t), func(tx *store.Tx) row {
			r, _ := store.One(tx, func(c *row) []any {
				c.untouched = []string{"kept"}
				return []any{store.Micros{Time: &c.at}, store.Micros{Time: &c.none}, store.JSON{V: &c.list}, store.JSON{V: &c.untouched}}
			}, `SELECT ?, ?, ?, ''`, store.Micros{Time: &at}, store.Micros{Time: &time.Time{}}, store.JSON{V: list})
			return r
		})
		if err != nil || !got.at.Equal(at) || got.at.Location() != time.UTC || !got.none.IsZero() {
			t.Error(got, err)
		}
		if !slices.Equal(got.list, list) || !slices.Equal(got.untouched, []string{"kept"}) {
			t.Errorf("%q was read as %q; an empty text left %q", list, got.list, got.untouched)
		}
	}
	_, err := store.Read(t.Context(), open(t), func(tx *store.Tx) (v []string) {
		v, _ = store.One(tx, func(c *[]string) []any { return []any{store.JSON{V: c}} }, `SELECT 7`)
		return v
	})
	if err == nil {
		t.Error("a number was read as JSON")
	}
}

func TestInTx_RollsBackOnFirstError(t *testing.T) {
	db, committed := open(t), false
	err := store.InTx(t.Context(), db, func(tx *store.Tx) {
		tx.OnCommit(func() { committed = true })
		tx.Exec(`INSERT INTO n VALUES (1, 'one')`)
		tx.Exec(`INSERT INTO none
			VALUES (1)`)
		tx.Fail(errors.New("a later error"))
		if n := store.Value[int](tx, `SELECT count(*) FROM n`); n != 0 {
			t.Error("Value reads after an error")
		}
		if list := store.All(tx, store.Scalar[int], `SELECT i FROM n`); list != nil {
			t.Error("All reads after an error")
		}
		if tx.ExecCount(`UPDATE n SET i = 7`) != 0 {
			t.Error("ExecCount writes after an error")
		}
	})
	if err == nil || !strings.HasPrefix(err.Error(), "INSERT INTO none VALUES (1): ") || committed {
		t.Error(err, committed)
	}
	own := errors.New("own")
	if err := store.InTx(t.Context(), db, func(tx *store.Tx) {
		tx.Exec(`INSERT INTO n VALUES (1, 'one')`)
		tx.Fail(own)
	}); err != own {
		t.Error(err)
	}
	if n := count(t, db); n != 0 {
		t.Errorf("%d rows were committed", n)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.InTx(ended, db, func(*store.Tx) { t.Error("it was called") }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

package store

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func numbers(t *testing.T) *sql.DB {
	t.Helper()
	db, err := Open(filepath.Join(t.TempDir(), "a.db"), []string{`CREATE TABLE n (i INTEGER PRIMARY KEY, s TEXT)`})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func TestATransactionCommitsWholeOrNotAtAll(t *testing.T) {
	db, ctx := numbers(t), context.Background()
	refused := errors.New("refused")
	for _, want := range []error{nil, refused} {
		err := InTx(ctx, db, func(tx *sql.Tx) error {
			for _, s := range []string{"a", "b"} {
				if err := Exec(ctx, tx, `INSERT INTO n (s) VALUES (?)`, s); err != nil {
					return err
				}
			}
			return want
		})
		if err != want { //nolint:errorlint // as it is
			t.Errorf("InTx returned %v, want %v", err, want)
		}
	}
	got, err := All(ctx, db, Column[string], `SELECT s FROM n ORDER BY i`)
	if err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the table holds %q, %v", got, err)
	}
	if n, err := Changed(ctx, db, `UPDATE n SET s = 'c' WHERE s = 'b'`); n != 1 || err != nil {
		t.Errorf("Changed = %d, %v", n, err)
	}
}

func TestOneTellsNoRowFromAnError(t *testing.T) {
	db, ctx := numbers(t), context.Background()
	if _, found, err := One(ctx, db, Column[string], `SELECT s FROM n WHERE i = 7`); found || err != nil {
		t.Errorf("no row: %v, %v", found, err)
	}
	_, _, err := One(ctx, db, Column[string], `SELECT nothing
		FROM n`)
	if err == nil || !strings.HasPrefix(err.Error(), "SELECT nothing FROM n: ") {
		t.Errorf("the error does not begin with the statement: %v", err)
	}
	if _, err := All(ctx, db, Column[int], `SELECT 'x'`); err == nil {
		t.Error("a row that cannot be scanned is no error")
	}
}

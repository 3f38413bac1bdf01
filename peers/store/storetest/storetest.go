// Package storetest opens databases for tests. Creating tables takes longer than many tests, so
// it does that once for each kind of database and copies the file afterwards.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hubbub/peers/store"
)

var (
	mu     sync.Mutex
	images = map[string][]byte{} // files of new databases, by kind
)

// Open calls open. If path does not exist, Open copies a new database of the kind to it
// first.
func Open(t testing.TB, kind, path string, open func(path string) (*store.DB, error)) *store.DB {
	t.Helper()
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(path, image(t, kind, open), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func image(t testing.TB, kind string, open func(path string) (*store.DB, error)) []byte {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if images[kind] == nil {
		path := filepath.Join(t.TempDir(), "new.db")
		db, err := open(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		images[kind] = b
	}
	return images[kind]
}

// Exec runs statements outside any transaction.
func Exec(db *store.DB, statements string, args ...any) error {
	return db.Exec(context.Background(), statements, args...)
}

// ErrNoRow is the error of Scan if a query has no row.
var ErrNoRow = errors.New("no row")

// Scan reads the first row of a query into variables.
func Scan(db *store.DB, into []any, query string, args ...any) error {
	found, err := store.Read(context.Background(), db, func(tx *store.Tx) bool {
		_, found := store.One(tx, func(*struct{}) []any { return into }, query, args...)
		return found
	})
	if err == nil && !found {
		err = fmt.Errorf("%s: %w", query, ErrNoRow)
	}
	return err
}

// Plan returns how SQLite runs a query, one step a line.
func Plan(db *store.DB, query string, args ...any) (string, error) {
	steps, err := store.Read(context.Background(), db, func(tx *store.Tx) []string {
		var skipped int // the numbers of the step
		return store.All(tx, func(detail *string) []any { return []any{&skipped, &skipped, &skipped, detail} },
			"EXPLAIN QUERY PLAN "+query, args...)
	})
	return strings.Join(steps, "\n"), err
}

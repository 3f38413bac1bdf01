// Package storetest opens databases for tests. Creating tables takes longer than many a
// test, so it does that once for each kind of database and copies the file afterwards.
package storetest

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

var (
	mu     sync.Mutex
	images = map[string][]byte{} // files of new databases, by kind
)

// Open calls open. If path does not exist, Open copies a new database of the kind to it
// first.
func Open(t testing.TB, kind, path string, open func(path string) (*sql.DB, error)) *sql.DB {
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

func image(t testing.TB, kind string, open func(path string) (*sql.DB, error)) []byte {
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

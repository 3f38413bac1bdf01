// Package storetest spares tests the steps of a schema, which take longer than many a test:
// a new database is a copy of the first of its kind.
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
	images = map[string][]byte{} // new databases, by their kind
)

// Open is open, with a database of the kind at path where there was none.
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

package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/protocol/datafolder"
)

const schema = "CREATE TABLE a (x TEXT);"

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// newDatabase creates a database and runs statements on it.
func newDatabase(t *testing.T, path, schema string, statements ...string) {
	t.Helper()
	db, err := store.Open(path, schema)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range statements {
		if err := storetest.Exec(db, s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestOpen_CreatesDatabaseForOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a folder?", "peer.db")
	newDatabase(t, path, schema)
	for name, want := range map[string]os.FileMode{filepath.Dir(path): 0o700, path: 0o600} {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	db, err := store.Open(path, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for pragma, want := range map[string]string{
		"user_version": "1", "journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "cache_size": "-200",
	} {
		var got string
		if err := storetest.Scan(db, []any{&got}, "PRAGMA "+pragma); err != nil || got != want {
			t.Errorf("%s = %s, %v; want %s", pragma, got, err, want)
		}
	}
}

func TestOpen_RetriesAfterFailedCreation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.db")
	if _, err := store.Open(path, schema+"nonsense;"); err == nil {
		t.Fatal("a broken schema succeeded")
	}
	newDatabase(t, path, schema)
}

// TestOpen_RefusesOtherVersions also opens databases that carry no version.
func TestOpen_RefusesOtherVersions(t *testing.T) {
	for name, statement := range map[string]string{
		"version 2":  "PRAGMA user_version = 2",
		"no version": "PRAGMA user_version = 0",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "peer.db")
			newDatabase(t, path, schema, "PRAGMA journal_mode = DELETE", statement)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Open(path, schema); !errors.Is(err, datafolder.ErrOtherVersion) {
				t.Errorf("err = %v; want ErrOtherVersion", err)
			}
			if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
				t.Errorf("the file has changed, %v", err)
			}
		})
	}
}

// TestOpen_RefusesMissingColumn opens databases of the current version that other
// builds wrote.
func TestOpen_RefusesMissingColumn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.db")
	newDatabase(t, path, "CREATE TABLE a (x TEXT); CREATE TABLE extra (i INTEGER);")
	newDatabase(t, path, schema) // an additional table is allowed
	_, err := store.Open(path, "CREATE TABLE a (x TEXT, y TEXT);")
	if err == nil || !strings.Contains(err.Error(), "table a has no column y") {
		t.Errorf("err = %v; want a refusal that names the column", err)
	}
}

func TestOpen_ErrorNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	mkdir(t, folder)
	for path, want := range map[string]string{
		filepath.Join(file, "peer.db"): "creating the data folder",
		folder:                         "opening " + folder,
		file:                           "opening " + file,
	} {
		if _, err := store.Open(path, schema); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
	content, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(content), "no database") {
		t.Errorf("a file that is no database has changed: %.20q, %v", content, err)
	}
}

// TestOpen_ReportsOneError checks the error of a transaction that SQLite has rolled back already,
// as it does when the disk is full.
func TestOpen_ReportsOneError(t *testing.T) {
	t.Parallel()
	_, err := store.Open(filepath.Join(t.TempDir(), "new.db"), "ROLLBACK; SELECT nothing")
	if err == nil || !strings.Contains(err.Error(), "nothing") || strings.Contains(err.Error(), "rollback") {
		t.Errorf("the error is %v", err)
	}
}

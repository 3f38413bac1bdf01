package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
)

// TestCopy_IsConsistentDuringWrites copies a database while two tables grow together.
func TestCopy_IsConsistentDuringWrites(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "peer.db")
	const schema = "CREATE TABLE a (i INTEGER); CREATE TABLE b (i INTEGER);"
	db, err := store.Open(path, schema)
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if err := storetest.Exec(db, "BEGIN IMMEDIATE; INSERT INTO a VALUES (?1); INSERT INTO b VALUES (?1); COMMIT", i); err != nil {
				stopped <- err
				return
			}
		}
	}()
	for i := range 5 {
		to := filepath.Join(dir, fmt.Sprintf("copy-%d.db", i))
		if err := store.Copy(t.Context(), path, to); err != nil {
			t.Fatal(err)
		}
		checkCopy(t, to, schema)
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkCopy(t *testing.T, path, schema string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy has mode %v, %v", info.Mode(), err)
	}
	db, err := store.Open(path, schema)
	if err != nil {
		t.Fatal(err)
	}
	defer func(db *store.DB) {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}(db)
	var a, b int
	if err := storetest.Scan(db, []any{&a, &b}, "SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)"); err != nil || a != b {
		t.Errorf("the copy has %d and %d rows, %v", a, b, err)
	}
}

func TestCopy_RefusesFileThatIsNotADatabase(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "peer.db")
	newDatabase(t, path, schema)
	if err := store.Copy(t.Context(), path, path); err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("onto itself: %v", err)
	}
	if err := store.Copy(t.Context(), filepath.Join(dir, "none.db"), filepath.Join(dir, "to.db")); err == nil {
		t.Error("a database that does not exist was copied")
	}
	garbage := filepath.Join(dir, "garbage.db")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Copy(t.Context(), garbage, filepath.Join(dir, "to.db")); err == nil {
		t.Error("garbage was copied")
	}
	if _, err := os.Stat(filepath.Join(dir, "to.db")); err == nil {
		t.Error("a failed copy left a file")
	}
}

func TestCopy_RefusesDamagedDatabase(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "peer.db"), filepath.Join(dir, "copy.db")
	newDatabase(t, path, schema, `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
		INSERT INTO a SELECT hex(randomblob(50)) FROM n`)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(raw) / 2; i < len(raw)/2+8192; i++ {
		raw[i] = 0xee
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Copy(t.Context(), path, to); err == nil {
		t.Error("a damaged database was copied")
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a damaged copy was given its final name")
	}
	if err := store.Copy(t.Context(), path, filepath.Join(dir, "nowhere", "copy.db")); err == nil {
		t.Error("a copy was made in a folder that does not exist")
	}
}

func TestCopy_ReplacesInterruptedCopy(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "peer.db"), filepath.Join(dir, "copy.db")
	newDatabase(t, path, schema)
	if err := os.WriteFile(to+".partial", []byte("half a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := store.Copy(t.Context(), path, to); err != nil {
		t.Fatal(err)
	}
	newDatabase(t, to, schema)
}

package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
)

func TestCopyWhileItIsWritten(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "peer.db")
	db, err := store.Open(path, []string{"CREATE TABLE a (i INTEGER); CREATE TABLE b (i INTEGER);"})
	if err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan error, 1)
	go func() { // the two tables always hold as much
		for i := 0; ; i++ {
			select {
			case <-stop:
				stopped <- nil
				return
			default:
			}
			if _, err := db.Exec("BEGIN IMMEDIATE; INSERT INTO a VALUES (?1); INSERT INTO b VALUES (?1); COMMIT", i); err != nil {
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
		info, err := os.Stat(to)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("the copy has mode %v, %v", info.Mode(), err)
		}
		c, err := store.Open(to, []string{"", ""}[:1])
		if err != nil {
			t.Fatal(err)
		}
		var a, b int
		if err := c.QueryRow("SELECT (SELECT count(*) FROM a), (SELECT count(*) FROM b)").Scan(&a, &b); err != nil || a != b {
			t.Errorf("the copy holds %d and %d, %v", a, b, err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestCopyRefusals(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "peer.db")
	db, err := store.Open(path, []string{first})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
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
		t.Error("something was left behind")
	}
}

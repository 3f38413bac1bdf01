package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
)

func mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(path, "full"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func makeFirst(t *testing.T, path string) {
	t.Helper()
	db, err := store.Open(path, []string{first})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWhatCannotBeOpenedIsSaid(t *testing.T) {
	dir := t.TempDir()
	file, folder := filepath.Join(dir, "file"), filepath.Join(dir, "folder.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	mkdir(t, folder)
	for path, want := range map[string]string{
		filepath.Join(file, "peer.db"): "creating the data folder",
		folder:                         "reading the schema version of " + folder,
		file:                           "reading the schema version of " + file,
	} {
		if _, err := store.Open(path, []string{first}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
	before, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(before), "no database") {
		t.Errorf("a file that is no database was changed: %.20q, %v", before, err)
	}
}

func TestFilesAreTheirOwnersAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "data", "peer.db")
	makeFirst(t, path)
	db, err := store.Open(path, []string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, want := range map[string]os.FileMode{"data": 0o700, "data/peer.db": 0o600, "data/peer.db.v1.backup": 0o600} {
		info, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(path)), name))
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

func TestNoMigrationWithoutItsBackup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.db")
	makeFirst(t, path)
	inTheWay := path + ".v1.backup.partial"
	mkdir(t, inTheWay)
	if _, err := store.Open(path, []string{first, second}); err == nil || !strings.Contains(err.Error(), "backing up") {
		t.Fatalf("err = %v; want that there is no backup", err)
	}
	if err := os.RemoveAll(inTheWay); err != nil {
		t.Fatal(err)
	}
	makeFirst(t, path) // it still has the version of before
	// What a kill left of an earlier copy is in nobody's way.
	if err := os.WriteFile(inTheWay, []byte("half a copy"), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(path, []string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	old, err := store.Open(path+".v1.backup", []string{first})
	if err != nil {
		t.Fatalf("the backup cannot be used: %v", err)
	}
	old.Close()
}

func TestABackupIsNeverReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.db")
	makeFirst(t, path)
	if err := os.WriteFile(path+".v1.backup", []byte("the first one"), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := store.Open(path, []string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	if got, err := os.ReadFile(path + ".v1.backup"); err != nil || string(got) != "the first one" {
		t.Errorf("the backup is now %.20q, %v", got, err)
	}
}

func TestABrokenDatabaseIsNotCopied(t *testing.T) {
	dir := t.TempDir()
	path, to := filepath.Join(dir, "peer.db"), filepath.Join(dir, "copy.db")
	db, err := store.Open(path, []string{`CREATE TABLE a (x TEXT);
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) INSERT INTO a SELECT hex(randomblob(50)) FROM n;`})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
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
		t.Error("it was copied")
	}
	if _, err := os.Stat(to); err == nil {
		t.Error("a copy that is not sound has the name of one that is")
	}
	if err := store.Copy(t.Context(), path, filepath.Join(dir, "nowhere", "copy.db")); err == nil {
		t.Error("it was copied into a folder that does not exist")
	}
}

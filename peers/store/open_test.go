package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/store"
)

var (
	first  = "CREATE TABLE a (x TEXT);"
	second = "ALTER TABLE a ADD COLUMN y TEXT; INSERT INTO a VALUES ('1','2');"
)

func TestMigratesWithABackup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a folder?", "peer.db")
	db, err := store.Open(path, []string{first})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	db, err = store.Open(path, []string{first, second})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var y string
	if err := db.QueryRow("SELECT y FROM a").Scan(&y); err != nil || y != "2" {
		t.Fatalf("y = %q, %v", y, err)
	}
	if _, err := os.Stat(path + ".v1.backup"); err != nil {
		t.Error("no backup was made:", err)
	}
	var sync int
	if err := db.QueryRow("PRAGMA synchronous").Scan(&sync); err != nil || sync != 2 {
		t.Errorf("synchronous = %d, %v; want 2 (FULL)", sync, err)
	}
	var cache int // without it, each connection grows with the file to 2 MiB
	if err := db.QueryRow("PRAGMA cache_size").Scan(&cache); err != nil || cache != -500 {
		t.Errorf("cache_size = %d, %v; want -500 (KiB)", cache, err)
	}
}

func TestFailedStepLeavesTheOldVersion(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.db")
	db, err := store.Open(path, []string{first})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	if _, err := store.Open(path, []string{first, "ALTER TABLE a ADD COLUMN y TEXT; nonsense;"}); err == nil {
		t.Fatal("a broken step succeeded")
	}
	db, err = store.Open(path, []string{first, second})
	if err != nil {
		t.Fatalf("after a failed step the good one does not apply: %v", err)
	}
	db.Close()
}

func TestRefusesANewerDatabase(t *testing.T) {
	for name, migrated := range map[string]bool{"made by the newer program": false, "migrated by it": true} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "peer.db")
			versions := [][]string{{first}, {first, second}}
			if !migrated {
				versions = versions[1:]
			}
			for _, steps := range versions {
				db, err := store.Open(path, steps)
				if err != nil {
					t.Fatal(err)
				}
				db.Close()
			}
			_, err := store.Open(path, []string{first})
			if err == nil || !strings.Contains(err.Error(), "newer") {
				t.Fatalf("err = %v; want a refusal that names the newer program", err)
			}
			if told := strings.HasSuffix(err.Error(), "what was there before: "+path+".v1.backup"); told != migrated {
				t.Errorf("err = %v; the copy of before is there: %t", err, migrated)
			}
		})
	}
}

// A program between two releases may have written the newest version in another
// shape. Its database must not fail later, statement by statement.
func TestRefusesADatabaseOfAnotherShape(t *testing.T) {
	path := filepath.Join(t.TempDir(), "peer.db")
	db, err := store.Open(path, []string{"CREATE TABLE a (x TEXT); CREATE TABLE more (of INTEGER);"})
	if err != nil {
		t.Fatal(err)
	}
	db.Close()
	if db, err := store.Open(path, []string{first}); err != nil {
		t.Errorf("a table more than needed: %v", err)
	} else {
		db.Close()
	}
	_, err = store.Open(path, []string{"CREATE TABLE a (x TEXT, y TEXT);"})
	if err == nil || !strings.Contains(err.Error(), "lacks the column y of the table a") {
		t.Errorf("err = %v; want a refusal that names the column", err)
	}
}

package store_test

import (
	"bufio"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"hubbub/peers/store"
)

// The steps of a database that takes a while to migrate. Each leaves a mark, so
// that a test sees which have taken effect.
var longSteps = []string{
	`CREATE TABLE a (id INTEGER PRIMARY KEY, x TEXT);
	 CREATE TABLE mark (version INTEGER); INSERT INTO mark VALUES (1);
	 WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 6000) INSERT INTO a (x) SELECT hex(randomblob(100)) FROM n;`,
	`ALTER TABLE a ADD COLUMN y TEXT; UPDATE a SET y = lower(x); UPDATE mark SET version = 2;`,
	`CREATE TABLE b AS SELECT id, y FROM a; CREATE INDEX by_y ON b (y); UPDATE mark SET version = 3;`,
}

// migratedFile, in the environment, makes the test below a program that opens
// that database, and so migrates it.
const migratedFile = "HUBBUB_TEST_MIGRATED_FILE"

func TestMigrationToBeKilled(t *testing.T) {
	path := os.Getenv(migratedFile)
	if path == "" {
		t.Skip("it is run by TestAKillDuringAMigration")
	}
	fmt.Println("begins")
	db, err := store.Open(path, longSteps)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestAKillDuringAMigration kills the program at ever later moments of its
// migration. What is found then is one version or another, never something
// between them; the next start finishes the work, and the backup is whole.
func TestAKillDuringAMigration(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	const kills = 6
	whole, _ := migrateAndKill(t, firstVersion(t), 0)
	killed, found := 0, map[int]int{}
	for step := range kills {
		path := firstVersion(t)
		if _, early := migrateAndKill(t, path, whole*time.Duration(step+1)/(kills+1)); early {
			killed++
		}
		found[checkVersion(t, path)]++
		db, err := store.Open(path, longSteps)
		if err != nil {
			t.Fatalf("step %d: the next start fails: %v", step, err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if v := checkVersion(t, path); v != 3 {
			t.Errorf("step %d: the next start left version %d", step, v)
		}
		if v := checkVersion(t, path+".v1.backup"); v != 1 && v != 2 {
			t.Errorf("step %d: the backup has version %d", step, v)
		}
	}
	t.Logf("%d of %d were killed before they had ended; versions found: %v", killed, kills, found)
	if killed == 0 {
		t.Error("no kill came in time")
	}
}

// firstVersion makes a database of version 1.
func firstVersion(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "peer.db")
	db, err := store.Open(path, longSteps[:1])
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkVersion returns the version of a database, and checks that everything of
// this version is there.
func checkVersion(t *testing.T, path string) (version int) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // only read
	var mark, rows, lower, copied int
	for q, into := range map[string]*int{
		"PRAGMA user_version": &version, "SELECT version FROM mark": &mark, "SELECT count(*) FROM a": &rows,
		"SELECT count(*) FROM sqlite_master WHERE name IN ('b', 'by_y')": &copied,
		"SELECT count(*) FROM pragma_table_info('a') WHERE name = 'y'":   &lower,
	} {
		if err := db.QueryRowContext(t.Context(), q).Scan(into); err != nil {
			t.Fatalf("%s: %s: %v", path, q, err)
		}
	}
	wantLower, wantCopied := 0, 0
	if version >= 2 {
		wantLower = 1
	}
	if version >= 3 {
		wantCopied = 2
	}
	if mark != version || rows != 6000 || lower != wantLower || copied != wantCopied {
		t.Errorf("%s: version %d with mark %d, %d rows, %d new columns, %d new tables", filepath.Base(path), version, mark, rows, lower, copied)
	}
	var sound string
	if err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&sound); err != nil || sound != "ok" {
		t.Errorf("%s: %s, %v", filepath.Base(path), sound, err)
	}
	return version
}

// migrateAndKill runs a migration and kills it so long after its begin, or never
// where that is zero. It reports how long the migration ran, and whether the kill
// came before its end.
func migrateAndKill(t *testing.T, path string, after time.Duration) (took time.Duration, killed bool) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run", "^TestMigrationToBeKilled$")
	cmd.Env = append(os.Environ(), migratedFile+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !bufio.NewScanner(out).Scan() {
		t.Fatal("it did not begin")
	}
	began := time.Now()
	if after > 0 {
		<-time.After(after)
		_ = cmd.Process.Kill() // it may have ended
	}
	err = cmd.Wait()
	if after == 0 && err != nil {
		t.Fatalf("the migration fails: %v", err)
	}
	return time.Since(began), err != nil
}

package activitylog

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// oldLog makes a log of version 1, with more rows behind those of the fixture.
func oldLog(t *testing.T, more int) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "v1.sql"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "activity.db")
	conn, err := sqlite.OpenConn(path)
	if err != nil {
		t.Fatal(err)
	}
	script := string(text) + fmt.Sprintf(`
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
INSERT INTO activity_log (ts, event, message_id, payload_json) SELECT '2026-02-18T00:00:00.000000Z', 'rejected', '', hex(randomblob(200)) FROM n WHERE %d > 0;`, max(more, 1), more)
	if err := sqlitex.ExecuteScript(conn, script, nil); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// lockedLog makes one that nobody can read before the connection is closed.
func lockedLog(t *testing.T) (path string, conn *sqlite.Conn) {
	t.Helper()
	path = oldLog(t, 0)
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"PRAGMA journal_mode=DELETE", "BEGIN EXCLUSIVE"} { // beside a write-ahead log, one can read
		if err := sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	return path, conn
}

const digest = "SELECT count(*), min(id), max(id), sum(length(payload_json)) FROM activity_log"

func TestAnOldLogIsTakenOverAsItLies(t *testing.T) {
	path := oldLog(t, 0)
	before := query(t, path, "SELECT * FROM activity_log")
	w := NewWriter(path, &Options{Bus: "east"})
	stop := running(t, w)
	w.Append(numbered(5))
	mustSync(t, w)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if after := query(t, segmentPath(path, 0), "SELECT * FROM activity_log"); !slices.Equal(after, before) {
		t.Errorf("segment 0 holds %q; want %q", after, before)
	}
	if got := query(t, path, "SELECT id, bus FROM activity_log"); len(got) != 1 || got[0] != "5|east" {
		t.Errorf("the new rows are %s", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the new file is for %v, %v", info.Mode().Perm(), err)
	}
	rows, _, err := opened(t, path).After(t.Context(), Filter{}, nil, 10)
	if err != nil || len(rows) != 5 || rows[0].ID != 1 || rows[0].MessageID != "msg_1" || rows[4].ID != 5 {
		t.Errorf("a reader finds %+v, %v", rows, err)
	}
	if got := query(t, path, "PRAGMA user_version"); got[0] != strconv.Itoa(schemaVersion) {
		t.Errorf("the log has version %s", got[0])
	}
}

func TestALogThatIsNewIsNotCopied(t *testing.T) {
	_, path, stop := started(t, nil)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(path + "*backup*"); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if got := query(t, path, "PRAGMA user_version"); got[0] != strconv.Itoa(schemaVersion) {
		t.Errorf("the log has version %s", got[0])
	}
	if err := CheckVersion(path); err != nil {
		t.Error(err)
	}
}

func TestANewerLogIsRefused(t *testing.T) {
	path := oldLog(t, 0)
	conn, err := sqlite.OpenConn(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA user_version = 99", nil); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := CheckVersion(path); err == nil || !strings.Contains(err.Error(), "program that wrote it") {
		t.Errorf("the check says %v", err)
	}
	if s, err := openDatabase(path, testOptions("")); err == nil || !strings.Contains(err.Error(), "program that wrote it") {
		t.Errorf("it was opened: %v, %v", s, err)
	}
	if err := CheckVersion(filepath.Join(t.TempDir(), "none.db")); err != nil {
		t.Errorf("a log that does not exist yet: %v", err)
	}
}

// TestALogInTroubleIsNotRefused: a bus routes, whatever its log does.
func TestALogInTroubleIsNotRefused(t *testing.T) {
	foreign := filepath.Join(t.TempDir(), "activity.db")
	if err := os.WriteFile(foreign, []byte(strings.Repeat("this is a diary, not a database\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	locked, conn := lockedLog(t)
	defer conn.Close() //nolint:errcheck // it wrote nothing
	for _, path := range []string{foreign, t.TempDir(), locked} {
		if err := CheckVersion(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// migratedLog, in the environment, makes the test below a program that opens
// that log, and so migrates it.
const migratedLog = "HUBBUB_TEST_MIGRATED_LOG"

func TestMigrationToBeKilled(t *testing.T) {
	path := os.Getenv(migratedLog)
	if path == "" {
		t.Skip("it is run by TestAKillDuringAMigration")
	}
	fmt.Println("begins")
	s, err := openDatabase(path, testOptions(""))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// TestAKillDuringAMigration kills the program at ever later moments of its
// migration: the rows are all there, and the next start finishes the work.
func TestAKillDuringAMigration(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	const rows, kills = 10_000, 4
	whole, _ := migrateAndKill(t, oldLog(t, rows), 0)
	killed := 0
	for step := range kills {
		path := oldLog(t, rows)
		want := query(t, path, digest)
		if _, early := migrateAndKill(t, path, whole*time.Duration(step+1)/(kills+1)); early {
			killed++
		}
		s, err := openDatabase(path, testOptions(""))
		if err != nil {
			t.Fatalf("step %d: the next start fails: %v", step, err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		file := segmentPath(path, 0)
		if got := query(t, file, digest); !slices.Equal(got, want) {
			t.Errorf("step %d: %s holds %s, want %s", step, filepath.Base(file), got, want)
		}
		if got := query(t, file, "PRAGMA integrity_check"); got[0] != "ok" {
			t.Errorf("step %d: %s: %s", step, filepath.Base(file), got)
		}
		if got := query(t, path, "PRAGMA user_version"); got[0] != strconv.Itoa(schemaVersion) {
			t.Errorf("step %d: the log has version %s", step, got[0])
		}
	}
	t.Logf("%d of %d were killed before they had ended", killed, kills)
	if killed == 0 {
		t.Error("no kill came in time")
	}
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
	cmd.Env = append(os.Environ(), migratedLog+"="+path)
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

package write

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/read"
	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// newLog makes a log with one row.
func newLog(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "activity.db")
	store(t, path, &Options{}, []activitylog.Row{logtest.Numbered(1)})
	return path
}

// lockedLog makes a log that nobody can read until the connection is closed.
func lockedLog(t *testing.T) (path string, conn *sqlite.Conn) {
	t.Helper()
	path = newLog(t)
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"PRAGMA journal_mode=DELETE", "BEGIN EXCLUSIVE"} { // with a write-ahead log, the database could be read
		if err := sqlitex.ExecuteTransient(conn, sql, nil); err != nil {
			t.Fatal(err)
		}
	}
	return path, conn
}

// TestCheckVersion_RefusesAnotherVersion refuses newer and older files, and leaves them
// alone.
func TestCheckVersion_RefusesAnotherVersion(t *testing.T) {
	for _, version := range []int{0, segment.SchemaVersion + 1} {
		path := newLog(t)
		if err := CheckVersion(path); err != nil {
			t.Errorf("its own version: %v", err)
		}
		tamper(t, path, fmt.Sprintf("PRAGMA user_version = %d", version))
		before := logtest.Query(t, path, "SELECT * FROM activity_log")
		if err := CheckVersion(path); !errors.Is(err, datafolder.ErrOtherVersion) {
			t.Errorf("version %d: %v", version, err)
		}
		if s, err := openDatabase(path, testOptions("")); !errors.Is(err, datafolder.ErrOtherVersion) {
			t.Errorf("version %d was opened: %v, %v", version, s, err)
		}
		if _, _, err := opened(t, path).After(t.Context(), read.Filter{}, nil, 10); !errors.Is(err, datafolder.ErrOtherVersion) {
			t.Errorf("version %d was read: %v", version, err)
		}
		if after := logtest.Query(t, path, "SELECT * FROM activity_log"); !slices.Equal(after, before) {
			t.Errorf("version %d: the rows are %q; want %q", version, after, before)
		}
	}
	if err := CheckVersion(filepath.Join(t.TempDir(), "none.db")); err != nil {
		t.Errorf("a log that does not exist: %v", err)
	}
}

// TestCheckVersion_AcceptsLogInTrouble checks that a locked or damaged log is
// accepted, because a bus routes whatever its log does.
func TestCheckVersion_AcceptsLogInTrouble(t *testing.T) {
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

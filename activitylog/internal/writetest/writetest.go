// Package writetest stores logs for the tests of packages that read them. It is separate from
// logtest, which the tests of the writer itself use.
package writetest

import (
	"path/filepath"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/write"
)

// Log stores the rows of a script, whatever their age, in a new log.
func Log(s *logtest.Script, bus string) (path string) {
	s.T.Helper()
	path = filepath.Join(s.T.TempDir(), "activity.db")
	Store(s.T, path, &write.Options{Bus: bus, SegmentAge: 100 * 365 * 24 * time.Hour}, s.Rows)
	return path
}

// Store writes commits to the log at path.
func Store(t testing.TB, path string, opts *write.Options, commits ...[]activitylog.Row) {
	t.Helper()
	if err := write.Store(path, opts, commits...); err != nil {
		t.Fatal(err)
	}
}

// Segmented writes messages to a log of small segments, whose rows it returns.
func Segmented(t testing.TB, messages int, opts *write.Options) (path string, rows []activitylog.Row) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "data", "activity.db")
	commits, rows := logtest.SentCommits(messages)
	Store(t, path, opts, commits...)
	return path, rows
}

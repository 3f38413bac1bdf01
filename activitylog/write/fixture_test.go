package write

import (
	"path/filepath"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/audit"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/read"
)

// written stores the rows of a script in a new log.
func written(s *logtest.Script, bus string) (path string) {
	s.T.Helper()
	path = filepath.Join(s.T.TempDir(), "activity.db")
	store(s.T, path, &Options{Bus: bus, SegmentAge: 100 * 365 * 24 * time.Hour}, s.Rows)
	return path
}

func opened(t testing.TB, paths ...string) *read.Reader {
	t.Helper()
	r := read.Open(paths...)
	t.Cleanup(r.Close)
	return r
}

// store writes commits to the log at path.
func store(t testing.TB, path string, opts *Options, commits ...[]activitylog.Row) {
	t.Helper()
	if err := Store(path, opts, commits...); err != nil {
		t.Fatal(err)
	}
}

// segmented writes messages to a log of small segments, whose rows it returns.
func segmented(t testing.TB, messages int, opts *Options) (path string, rows []activitylog.Row) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "data", "activity.db")
	commits, rows := logtest.SentCommits(messages)
	store(t, path, opts, commits...)
	return path, rows
}

func verdict(t testing.TB, paths ...string) *audit.Verdict {
	t.Helper()
	v, err := audit.Verify(t.Context(), opened(t, paths...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

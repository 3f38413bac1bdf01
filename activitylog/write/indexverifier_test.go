package write

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol"
)

// subjectLog is a log with sealed files and a live one, in which rows have subjects.
func subjectLog(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "activity.db")
	var commits [][]activitylog.Row
	for i := range 43 {
		rows := logtest.Sent(i, time.Now().Add(time.Duration(i%7)*time.Minute))
		if i%3 == 0 {
			rows[0].Topic = string(protocol.TopicCollabEvents)
			rows[0].Payload = []byte(`{"type":"agent_event","from":"b","content":{"id":"evt-` + rows[0].MessageID + `","type":"collab.flight.started"}}`)
		}
		commits = append(commits, rows)
	}
	store(t, path, &Options{SegmentRows: 40}, commits...)
	numbers, err := segment.Numbers(path)
	for _, n := range numbers {
		if err := segment.Seal(t.Context(), segment.Path(path, n)); err != nil {
			t.Fatal(err)
		}
	}
	if live := logtest.Query(t, path, "SELECT count(*) FROM batch"); err != nil || len(numbers) == 0 || live[0] < "2" {
		t.Fatalf("sealed files %d, and %s commits in the live one: %v", numbers, live[0], err)
	}
	return path
}

// TestVerify_ComparesWhatFindsRows compares times, message ids and subjects with the rows.
// Commits and sealed files record them, and no checkpoint signs them.
func TestVerify_ComparesWhatFindsRows(t *testing.T) {
	path := subjectLog(t)
	sealed := segment.Path(path, 1)
	const (
		one      = " WHERE first = (SELECT first FROM batch ORDER BY first LIMIT 1 OFFSET 1)"
		withSome = " WHERE first = (SELECT first FROM batch WHERE length(subjects) > 0 ORDER BY first LIMIT 1)"
		times    = "the times that its commit records"
		ids      = "the message ids that its commit records"
		subjects = "the subjects that its commit records"
	)
	for name, c := range map[string]struct{ file, sql, want string }{
		"nothing":                            {path, "", ""},
		"begins later":                       {sealed, "UPDATE batch SET since = since + 1" + one, times},
		"ends earlier":                       {sealed, "UPDATE batch SET until = until - 1" + one, times},
		"begins and ends earlier":            {sealed, "UPDATE batch SET since = since - 90000000, until = until - 90000000" + one, times},
		"wider than its rows":                {sealed, "UPDATE batch SET since = 0, until = until + 3600000000" + one, times},
		"no times":                           {sealed, "UPDATE batch SET since = 0, until = 0" + one, times},
		"every commit of the live file":      {path, "UPDATE batch SET since = since + 1, until = until + 1", times},
		"a message id less":                  {path, "UPDATE batch SET hashes = x''" + one, ids},
		"another message id":                 {sealed, "UPDATE batch SET hashes = randomblob(8)" + one, ids},
		"a message id more":                  {sealed, "UPDATE batch SET hashes = hashes || x'ffffffffffffffff'" + one, ids},
		"no subjects":                        {sealed, "UPDATE batch SET subjects = x''" + withSome, subjects},
		"another row with subjects":          {path, "UPDATE batch SET subjects = x'0003'" + withSome, subjects},
		"the file begins later":              {sealed, "UPDATE span SET since = since + 1", "the table span"},
		"the file ends earlier":              {sealed, "UPDATE span SET until = until - 1", "the table span"},
		"the file has other rows":            {sealed, "UPDATE span SET last = last - 1", "the table span"},
		"the file has no span":               {sealed, "DELETE FROM span", "the table span"},
		"the file has two spans":             {sealed, "INSERT INTO span SELECT * FROM span", "the table span"},
		"a message left out of the file":     {sealed, "DELETE FROM lookup WHERE bucket = (SELECT min(bucket) FROM lookup)", "the table lookup"},
		"a message in another commit":        {sealed, "UPDATE lookup SET entries = zeroblob(16) WHERE bucket = (SELECT max(bucket) FROM lookup)", "the table lookup"},
		"a message in another bucket":        {sealed, "UPDATE lookup SET bucket = 5000 WHERE bucket = (SELECT max(bucket) FROM lookup)", "the table lookup"},
		"a subject left out of the file":     {sealed, "DELETE FROM about WHERE subject = (SELECT min(subject) FROM about)", "the table about"},
		"a subject at another row":           {sealed, "UPDATE about SET id = id + 1 WHERE subject = (SELECT min(subject) FROM about)", "the table about"},
		"a subject that no row of it is for": {sealed, "INSERT INTO about VALUES ('other', 1)", "the table about"},
	} {
		t.Run(name, func(t *testing.T) {
			at := copyLog(t, path)
			file := filepath.Join(filepath.Dir(at), filepath.Base(c.file))
			tamper(t, file, c.sql)
			if c.file == sealed && c.sql != "" { // by somebody who knows the checksum
				if err := segment.WriteChecksum(t.Context(), file); err != nil {
					t.Fatal(err)
				}
			}
			_, told := audited(t, at, nil)
			if c.want == "" && told != "" || !strings.Contains(told, c.want) {
				t.Errorf("it says %q; want %q", told, c.want)
			}
			if first, _, _ := strings.Cut(told, "\n"); c.want != "" && !strings.HasPrefix(first, filepath.Base(file)) {
				t.Errorf("it names %q; want %s", first, filepath.Base(file))
			}
		})
	}
}

package write

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
)

// rotated returns a rotated file of commits, which is not sealed yet.
func rotated(t *testing.T, commits ...[]activitylog.Row) (file string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "activity.db")
	n := 0
	for _, rows := range commits {
		n += len(rows)
	}
	store(t, path, &Options{SegmentRows: int64(n)}, commits...)
	return segment.Path(path, 1)
}

// rowsByMessage returns the ids of the rows of each message, as a file gives them.
func rowsByMessage(t *testing.T, file string, messages []string) map[string][]int64 {
	t.Helper()
	v, err := segment.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]int64{}
	for _, id := range messages {
		v.RowsOf(id, v.SelectEntries(), "", 100, func(s *sqlite.Stmt) bool {
			got[id] = append(got[id], s.ColumnInt64(0))
			return true
		})
	}
	if v.Err != nil {
		t.Error(v.Err)
	}
	if err := v.Conn.Close(); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestSeal_KeepsMessagesFindable finds all rows of a message, in whichever commits they are,
// as before the file was sealed.
func TestSeal_KeepsMessagesFindable(t *testing.T) {
	var commits [][]activitylog.Row
	var messages []string
	for _, rows := range interleavedRows(200, 30, time.Now().UnixMicro()) {
		commits = append(commits, rows)
		messages = append(messages, rows[0].MessageID)
	}
	commits = append(commits, slices.Clone(commits[0])) // one is sent again
	file := rotated(t, commits...)
	messages = append(slices.Compact(slices.Sorted(slices.Values(messages))), "nobody")
	want := rowsByMessage(t, file, messages)
	if len(want) != 200 {
		t.Fatalf("%d messages", len(want))
	}
	if err := segment.Seal(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if got := logtest.Query(t, file, "SELECT count(*) > 100, sum(length(entries)) / 16 >= 400, (SELECT count(*) FROM sqlite_master WHERE name LIKE 'event_m%') FROM lookup"); got[0] != "1|1|0" {
		t.Errorf("the sealed file has %s", got)
	}
	if diff := cmp.Diff(want, rowsByMessage(t, file, messages)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"ok"}, logtest.Query(t, file, "PRAGMA integrity_check")); diff != "" {
		t.Error(diff)
	}
}

// TestSeal_SubjectsMatchCommits also checks that half an entry is ignored.
func TestSeal_SubjectsMatchCommits(t *testing.T) {
	var commits [][]activitylog.Row
	for i := range 6 {
		at := time.Now().UnixMicro()
		commits = append(commits, []activitylog.Row{
			{At: at, Event: activitylog.SendStart, MessageID: fmt.Sprint("a", i), Actor: "a", Topic: "b", Payload: []byte(`{"type":"agent_event"}`)},
			{At: at, Event: activitylog.SendStart, MessageID: fmt.Sprint("b", i), Actor: "tg:1", Topic: "agent:a", Payload: fmt.Appendf(nil, `{"type":"tg_message","content":{"sourceId":"e%d"}}`, i)},
			{At: at, Event: activitylog.SendStart, MessageID: fmt.Sprint("c", i), Actor: "tg:1", Topic: "agent:a", Payload: fmt.Appendf(nil, `{"type":"tg\u005fmessage","content":{"sourceId":"f%d"}}`, i)},
			{At: at, Event: activitylog.SendStart, MessageID: fmt.Sprint("d", i), Actor: "agent:a", Topic: "system:attention", Payload: fmt.Appendf(nil, `{"type":"agent_event","content":{"event":"turn","eventId":"e%d","agent":"agent:a"}}`, i)},
			{At: at, Event: activitylog.ProcessStart, MessageID: fmt.Sprint("d", i), Actor: "agent:b", Topic: "system:attention"},
			{At: at, Event: activitylog.SendStart, MessageID: fmt.Sprint("g", i), Actor: "broker", Topic: "collab:events", Payload: fmt.Appendf(nil,
				`{"type":"collab_event","content":{"id":"f%d","target":"work_item:w%d","payload":{"id":"w%d","question":{"id":"q%d"}}}}`, i, i, i, i)},
		})
	}
	var want []string
	for i := range 6 {
		want = append(want, fmt.Sprintf("e%d|%d", i, 6*i+2), fmt.Sprintf("e%d|%d", i, 6*i+4), fmt.Sprintf("f%d|%d", i, 6*i+3),
			fmt.Sprintf("f%d|%d", i, 6*i+6), fmt.Sprintf("q%d|%d", i, 6*i+6), fmt.Sprintf("w%d|%d", i, 6*i+6))
	}
	slices.Sort(want)
	for name, change := range map[string]string{
		"all say it":  "",
		"it is short": "UPDATE batch SET subjects = subjects || x'00'", // half an entry
	} {
		file := rotated(t, commits...)
		tamper(t, file, change)
		if v, err := segment.Open(file); err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got := v.SubjectRows(segment.Window{Low: 20, High: 23}); got != "[20,21,22]" {
			t.Errorf("%s: live, %s may have subjects", name, got)
		}
		if err := segment.Seal(t.Context(), file); err != nil {
			t.Fatal(err)
		}
		got := logtest.Query(t, file, "SELECT subject, id FROM about ORDER BY subject, id")
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	file := rotated(t, commits...)
	if got := logtest.Query(t, file, "SELECT DISTINCT hex(subjects) FROM batch"); len(got) != 1 || got[0] != "0001000200030005" {
		t.Errorf("the commits say %s", got)
	}
}

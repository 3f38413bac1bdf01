package activity

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/activitylog"
	"hubbub/activitylog/agentstats"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/term"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
)

// TestTail_WaitsForLockedLog follows a log that another program locks at first. Stored rows
// are shown once.
func TestTail_WaitsForLockedLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), logs.File)
	newLogAt(t, path, activitylog.Row{At: testTime.UnixMicro(), Event: activitylog.SendStart, MessageID: "first"}).Close()
	db, err := store.OpenExisting(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"PRAGMA journal_mode=DELETE", "PRAGMA locking_mode=EXCLUSIVE", "BEGIN EXCLUSIVE"} {
		if err := storetest.Exec(db, sql); err != nil {
			t.Fatal(err)
		}
	}
	r := read.Open(path)
	defer r.Close()
	var shown bytes.Buffer
	out := newTailWriter(&output.Printer{JSON: true, Out: &shown}, new(view.Titles))
	waited := 0
	waiting := func(error) {
		waited++
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	at, err := (&tailOptions{follow: true}).printLast(t.Context(), r, read.Filter{}, 10, out, waiting)
	if err != nil || waited != 1 || len(at) != 1 || at[0] != 1 {
		t.Errorf("it waited %d times, and then: %v, %v", waited, at, err)
	}
	if err := out.flush(); err != nil || bytes.Count(shown.Bytes(), []byte("\n")) != 1 {
		t.Errorf("%v; it shows %s", err, shown.Bytes())
	}
}

// TestTail_OneLinePerMessage checks terminals of several widths, and that the short ID finds
// the message.
func TestTail_OneLinePerMessage(t *testing.T) {
	id := "msg_01M8C2RY9SE7M6PVSZJ385T9E9"
	rows := []activitylog.Row{
		{At: testTime.UnixMicro(), Event: activitylog.SendStart, MessageID: id, Actor: "tg:-1001234567890:77", Topic: "agent:tg--1001234567890-77", Payload: []byte(`{"type":"delivery_status","content":{"text":"` + strings.Repeat("so ", 50) + `"}}`)},
		{At: testTime.UnixMicro(), Event: activitylog.SendFinish, MessageID: id, Actor: "tg:-1001234567890:77", Topic: "agent:tg--1001234567890-77", Status: activitylog.StatusNoSubscriber, Payload: []byte(`{}`)},
		{At: testTime.UnixMicro(), Event: activitylog.PeerConnected, Actor: "agent:a"},
	}
	path := filepath.Join(t.TempDir(), logs.File)
	newLogAt(t, path, rows...).Close()
	r := read.Open(path)
	defer r.Close()
	for _, columns := range []int{60, 80, 120} {
		layout := newRowLayout(false, columns, new(view.Titles))
		layout.brief = true
		err := r.Each(t.Context(), read.Filter{}, func(e *activitylog.Entry) error {
			lines := strings.Split(layout.line(e), "\n")
			if line := lines[len(lines)-1]; term.Width(line) > columns || len(lines) > 2 || len(lines) == 2 && !e.Is(activitylog.SendStart) || !strings.HasSuffix(line, shownEnd(e)) {
				t.Errorf("at %d: %q", columns, lines)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"…85T9E9": id, "85T9E9": id, "85T9E8": "85T9E8", "tg:1:2": "tg:1:2"} {
		if got := logs.ExpandID(t.Context(), r, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func shownEnd(e *activitylog.Entry) string { return e.MessageID[max(0, len(e.MessageID)-6):] }

// TestTable_FoldsOnNarrowTerminal checks that cells that do not fit are below the first cell,
// and that nothing is cut.
func TestTable_FoldsOnNarrowTerminal(t *testing.T) {
	rows := [][]any{{"PEER", "SINCE", "QUEUED", "LISTENS TO"}, {"agent:tg-42 (“Will”)", "57s", 0, "agent:tg-42 bus:presence collab:*"}, {"tg:1", "1m", 7, "-"}}
	for columns, want := range map[int]string{
		0:  "PEER                  SINCE  QUEUED  LISTENS TO\nagent:tg-42 (“Will”)  57s    0       agent:tg-42 bus:presence collab:*\ntg:1                  1m     7       -\n",
		60: "agent:tg-42 (“Will”)\n  since 57s, queued 0, listens to agent:tg-42 bus:presence\n  collab:*\ntg:1\n  since 1m, queued 7\n",
	} {
		var shown bytes.Buffer
		p := &output.Printer{Columns: columns, Out: &shown}
		if p.Rows(rows); p.Err != nil || shown.String() != want {
			t.Errorf("%d columns (%v):\n%s", columns, p.Err, shown.String())
		}
	}
	var shown bytes.Buffer
	printStats(&output.Printer{Columns: 60, Out: &shown}, []agentstats.Stats{{Agent: "agent:a", Events: 3, Dispositions: map[string]int64{"ignored": 2, "responded": 1}}}, new(view.Titles))
	for line := range strings.Lines(shown.String()) {
		if term.Width(line) > 61 {
			t.Errorf("too wide: %s", line)
		}
	}
	if !strings.Contains(strings.Join(strings.Fields(shown.String()), " "), "events 3") || !strings.Contains(shown.String(), "responded") {
		t.Errorf("stats: %s", shown.String())
	}
}

package read

import (
	"cmp"
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
	"hubbub/activitylog/internal/writetest"
	"hubbub/protocol"
)

// TestMerge_OrdersByTimeLogAndID reads logs with rows of the same times, in
// both directions.
func TestMerge_OrdersByTimeLogAndID(t *testing.T) {
	var paths []string
	for _, messages := range []int{5, 3, 8} {
		s := logtest.NewScript(t) // each begins at the same time
		for range messages {
			s.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"x"}`, "agent:a", "agent:b")
		}
		paths = append(paths, writetest.Log(s, ""))
	}
	r := opened(t, append(paths, writetest.Log(logtest.NewScript(t), ""))...) // the last has no row
	var want []activitylog.Entry
	if err := r.Each(t.Context(), Filter{}, func(e *activitylog.Entry) error { want = append(want, *e); return nil }); err != nil {
		t.Fatal(err)
	}
	inOrder := slices.IsSortedFunc(want, func(a, b activitylog.Entry) int {
		return cmp.Or(strings.Compare(a.TS, b.TS), cmp.Compare(a.Log, b.Log), cmp.Compare(a.ID, b.ID))
	})
	if len(want) != 6*(5+3+8) || !inOrder {
		t.Errorf("%d rows, in order: %t", len(want), inOrder)
	}
	for _, n := range []int{1, 2, 7, 100} {
		rows, _, err := r.Before(t.Context(), Filter{}, nil, n)
		if err != nil {
			t.Fatal(err)
		}
		last := want[max(len(want)-n, 0):]
		if !slices.EqualFunc(rows, last, func(a, b activitylog.Entry) bool { return a.Log == b.Log && a.ID == b.ID }) {
			t.Errorf("the last %d rows are not the end of all", n)
		}
	}
	same := func(a, b activitylog.Entry) bool { return a.Log == b.Log && a.ID == b.ID }
	for _, n := range []int{1, 7, 96, 100} {
		var after, before []activitylog.Entry
		var from, to Cursor
		for more := true; more; {
			rows, at, err := r.After(t.Context(), Filter{}, from, n)
			if err != nil || len(rows) > n {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			after, from, more = append(after, rows...), at, len(rows) == n
		}
		for more := true; more; {
			rows, at, err := r.Before(t.Context(), Filter{}, to, n)
			if err != nil || len(rows) > n {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			before, to, more = append(rows, before...), at, len(rows) == n
		}
		if !slices.EqualFunc(after, want, same) || !slices.EqualFunc(before, want, same) {
			t.Errorf("by %d: %d rows forward and %d backward; want %d, in order", n, len(after), len(before), len(want))
		}
	}
}

// TestCursor_HasPlaceInEachLog checks that 0, or a log that the cursor does not name, means
// the beginning of the log or, for reading backward, its end.
func TestCursor_HasPlaceInEachLog(t *testing.T) {
	var paths []string
	for range 2 {
		s := logtest.NewScript(t)
		s.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"x"}`) // two rows
		paths = append(paths, writetest.Log(s, ""))
	}
	r := opened(t, paths...)
	for name, c := range map[string]struct {
		at            Cursor
		after, before string
	}{
		"none":              {nil, "00 10 01 11", "00 10 01 11"},
		"zeroes":            {Cursor{0, 0}, "00 10 01 11", "00 10 01 11"},
		"one log of two":    {Cursor{1}, "10 01 11", "10 11"},
		"the other is zero": {Cursor{0, 1}, "00 01 11", "00 01"},
		"the first rows":    {Cursor{1, 1}, "01 11", ""},
		"the last rows":     {Cursor{2, 2}, "", "00 10"},
		"beyond the end":    {Beyond(Cursor{2, 2}), "", "00 10 01 11"},
	} {
		after, _, err := r.After(t.Context(), Filter{}, c.at, 9)
		if got := logsAndRows(after); err != nil || got != c.after {
			t.Errorf("after %s: %q, %v; want %q", name, got, err, c.after)
		}
		before, _, err := r.Before(t.Context(), Filter{}, c.at, 9)
		if got := logsAndRows(before); err != nil || got != c.before {
			t.Errorf("before %s: %q, %v; want %q", name, got, err, c.before)
		}
	}
	rows, at, err := r.After(t.Context(), Filter{Text: "nowhere"}, nil, 9)
	if end, _ := r.End(t.Context()); err != nil || len(rows) > 0 || !slices.Equal(at, end) {
		t.Errorf("%d rows, up to %v, %v; nothing is chosen up to the end, %v", len(rows), at, err, end)
	}
}

// logsAndRows writes the log of each row and its place there, from 0.
func logsAndRows(rows []activitylog.Entry) string {
	list := make([]string, len(rows))
	for i, e := range rows {
		list[i] = fmt.Sprint(e.Log) + fmt.Sprint(e.ID-1)
	}
	return strings.Join(list, " ")
}

// TestMerge_ReportsMissingLogOncePerPeriod also reads the other logs meanwhile.
func TestMerge_ReportsMissingLogOncePerPeriod(t *testing.T) {
	s := logtest.NewScript(t)
	s.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"x"}`)
	here, away := writetest.Log(s, ""), filepath.Join(t.TempDir(), "activity.db")
	r := opened(t, away, here)
	m, told := r.merge(t.Context(), Filter{}, segment.Forward, nil, 9), 0
	if rows, err := m.take(t.Context(), 9); !errors.Is(err, activitylog.ErrNoLog) || len(rows) > 0 {
		t.Errorf("%d rows, %v; nobody asked to wait", len(rows), err)
	}
	m.waiting = func(err error) {
		if told++; !errors.Is(err, activitylog.ErrNoLog) {
			t.Error(err)
		}
	}
	take := func(rows, times int) {
		t.Helper()
		if got, err := m.take(t.Context(), 9); err != nil || len(got) != rows || told != times {
			t.Errorf("%d rows, told %d times, %v; want %d and %d", len(got), told, err, rows, times)
		}
	}
	take(2, 1)
	take(0, 1)
	if err := os.WriteFile(away, []byte(logtest.MustRead(t, here)), 0o600); err != nil {
		t.Fatal(err)
	}
	take(2, 1)
	if err := os.Remove(away); err != nil {
		t.Fatal(err)
	}
	take(0, 2)
}

package activitylog

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"hubbub/protocol"
)

// TestLogsAreMergedInOneOrder reads logs that have rows of the same times, in
// both directions: by time, then log, then id.
func TestLogsAreMergedInOneOrder(t *testing.T) {
	var paths []string
	for _, messages := range []int{5, 3, 8} {
		s := newScript(t) // each begins at the same time
		for range messages {
			s.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"x"}`, "agent:a", "agent:b")
		}
		paths = append(paths, s.written(""))
	}
	r := opened(t, paths...)
	var want []Entry
	if err := r.Each(t.Context(), Filter{}, func(e *Entry) error { want = append(want, *e); return nil }); err != nil {
		t.Fatal(err)
	}
	inOrder := slices.IsSortedFunc(want, func(a, b Entry) int {
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
		if !slices.EqualFunc(rows, last, func(a, b Entry) bool { return a.Log == b.Log && a.ID == b.ID }) {
			t.Errorf("the last %d rows are not the end of all", n)
		}
	}
}

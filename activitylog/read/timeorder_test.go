package read

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/internal/writetest"
	"hubbub/activitylog/write"
)

// A jumpyClock gives times that are mostly in order. Now and then it is set forward or back.
type jumpyClock struct {
	random *rand.Rand
	now    time.Time
}

func (c *jumpyClock) next() time.Time {
	steps := []time.Duration{time.Microsecond, time.Millisecond, time.Second, time.Minute}
	c.now = c.now.Add(steps[c.random.IntN(len(steps))])
	if c.random.IntN(8) == 0 {
		jumps := []time.Duration{time.Second, 2 * time.Minute, time.Hour, 24 * time.Hour, 400 * 24 * time.Hour}
		jump := jumps[c.random.IntN(len(jumps))]
		if c.random.IntN(2) == 0 {
			jump = -jump
		}
		c.now = c.now.Add(jump)
	}
	return c.now
}

// jumpyLog writes a log of several files with such times: some sealed, one only rotated, and
// the active one.
func jumpyLog(t *testing.T, seed uint64) (path string, rows []activitylog.Row) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "activity.db")
	clock := &jumpyClock{random: rand.New(rand.NewPCG(seed, 1)), now: logtest.Epoch}
	opts := &write.Options{SegmentRows: 30, SegmentAge: 100 * 365 * 24 * time.Hour, Bus: "east"}
	for sealing := range 3 {
		var commits [][]activitylog.Row
		for range 12 {
			var commit []activitylog.Row
			for range 1 + clock.random.IntN(3) {
				list := logtest.Sent(len(rows), logtest.Epoch)
				for i := range list {
					list[i].At = clock.next().UnixMicro()
				}
				commit, rows = append(commit, list...), append(rows, list...)
			}
			commits = append(commits, commit)
		}
		writetest.Store(t, path, opts, commits...)
		if sealing < 2 { // the last files stay as they were rotated
			if err := logtest.SealAll(t, path); err != nil {
				t.Fatal(err)
			}
		}
	}
	return path, rows
}

// moments returns times of rows, the moments beside them, and times far from all rows.
func moments(random *rand.Rand, rows []activitylog.Row) (list []time.Time) {
	for range 12 {
		at := time.UnixMicro(rows[random.IntN(len(rows))].At).UTC()
		list = append(list, at, at.Add(time.Duration(random.IntN(3)-1)*time.Microsecond), at.Truncate(time.Second))
	}
	return append(list, logtest.Epoch.Add(-1000*24*time.Hour), logtest.Epoch.Add(2000*24*time.Hour))
}

// TestRowsOutOfOrder_AreFound queries logs whose clock was set forward and back.
func TestRowsOutOfOrder_AreFound(t *testing.T) {
	seeds := uint64(1)
	if logtest.Raced { // in make check
		seeds = 3
	}
	for seed := range seeds {
		path, rows := jumpyLog(t, seed)
		random := rand.New(rand.NewPCG(seed, 2))
		list := moments(random, rows)
		findByTime(t, opened(t, path), rows, random, list)
		findBySQL(t, opened(t, path), rows, random, list)
	}
}

// findByTime compares pages in both directions with a scan of all rows.
func findByTime(t *testing.T, r *Reader, rows []activitylog.Row, random *rand.Rand, list []time.Time) {
	t.Helper()
	for range 25 {
		f := Filter{Since: list[random.IntN(len(list))], Until: list[random.IntN(len(list))]}
		switch random.IntN(4) {
		case 0:
			f.Since = time.Time{}
		case 1:
			f.Until = time.Time{}
		case 2:
			if f.Until.Before(f.Since) {
				f.Since, f.Until = f.Until, f.Since
			}
		}
		var want []int64
		for i := range rows {
			at := time.UnixMicro(rows[i].At)
			if !at.Before(f.Since) && (f.Until.IsZero() || at.Before(f.Until)) {
				want = append(want, int64(i+1))
			}
		}
		for _, dir := range []segment.Direction{segment.Forward, segment.Backward} {
			if got := readAll(t, r, f, dir, 1+random.IntN(60)); !slices.Equal(got, want) {
				t.Fatalf("from %s until %s, backward %t: rows %v; want %v", f.Since, f.Until, dir, got, want)
			}
		}
	}
}

// readAll returns the ids of the rows that a filter selects, by pages, the oldest first.
func readAll(t *testing.T, r *Reader, f Filter, dir segment.Direction, n int) (ids []int64) {
	t.Helper()
	read := r.After
	if dir == segment.Backward {
		read = r.Before
	}
	for at := Cursor(nil); ; {
		page, next, err := read(t.Context(), f, at, n)
		if err != nil {
			t.Fatal(err)
		}
		these := make([]int64, len(page))
		for i := range page {
			these[i] = page[i].ID
		}
		if dir == segment.Backward {
			ids = append(these, ids...)
		} else {
			ids = append(ids, these...)
		}
		if at = next; len(page) < n {
			return ids
		}
	}
}

// findBySQL compares conditions on ts, even with texts that are not times, with a scan of the
// texts of all rows.
func findBySQL(t *testing.T, r *Reader, rows []activitylog.Row, random *rand.Rand, list []time.Time) {
	t.Helper()
	ts := make([]string, len(rows))
	for i := range rows {
		e := rows[i].Entry(0)
		ts[i] = e.TS
	}
	layouts := []string{
		segment.TimestampLayout, time.RFC3339, time.DateOnly, "2006-01-02T15:04", "2006-01-02 15:04:05", "2006",
		"2006-01-02T15:04:05+02:00", "2006-01-02T15:04:05.000Z", "2006-01-02T3:04:05", "2006-01-02T15:04:05,000000",
		"2006-01-02T3:04:05.000000", "2006-01-02T15:04:05.000", "2006-01-02T15:04:05.000000000Z", "2006-01-02T", "2006-01",
	}
	text := func() string { return list[random.IntN(len(list))].Format(layouts[random.IntN(len(layouts))]) }
	for range 20 {
		a, b := text(), text()
		for condition, holds := range map[string]func(ts string) bool{
			"ts >= '" + a + "'":                       func(ts string) bool { return ts >= a },
			"ts <= '" + a + "'":                       func(ts string) bool { return ts <= a },
			"ts > '" + a + "' AND ts < '" + b + "'":   func(ts string) bool { return ts > a && ts < b },
			"ts BETWEEN '" + a + "' AND '" + b + "'":  func(ts string) bool { return ts >= a && ts <= b },
			"ts >= '" + a + "' AND ts >= '" + b + "'": func(ts string) bool { return ts >= a && ts >= b },
			"ts = '" + a + "'":                        func(ts string) bool { return ts == a },
			"ts < '" + a + "' OR ts > '" + b + "'":    func(ts string) bool { return ts < a || ts > b },
		} {
			order := []string{"", " ORDER BY id", " ORDER BY id DESC"}[random.IntN(3)]
			var got, want []string
			for i := range ts {
				if holds(ts[i]) {
					want = append(want, fmt.Sprint(i+1))
				}
			}
			if err := r.SQL(t.Context(), "SELECT id FROM activity_log WHERE "+condition+order,
				func(_ []string, values []any) error {
					got = append(got, fmt.Sprint(values[0]))
					return nil
				}); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(order, "DESC") || order == "" && strings.Contains(condition, "OR") {
				slices.SortFunc(got, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
			}
			if !slices.Equal(got, want) {
				t.Fatalf("WHERE %s%s gives %v; want %v", condition, order, got, want)
			}
		}
	}
}

// TestFollow_ShowsNewRowsOfAClockSetBack follows the rows of the last minute while the clock is
// set back by an hour: from the beginning, from a place, and before there is a log.
func TestFollow_ShowsNewRowsOfAClockSetBack(t *testing.T) {
	opts := &write.Options{SegmentAge: 100 * 365 * 24 * time.Hour}
	row := func(text string, at time.Duration) activitylog.Row {
		return activitylog.Row{At: logtest.Epoch.Add(at).UnixMicro(), Event: activitylog.Subscribe, Topic: text}
	}
	stored := []activitylog.Row{row("old", -time.Hour), row("recent", -time.Second)}
	since := Filter{Since: logtest.Epoch.Add(-time.Minute)}
	for name, c := range map[string]struct {
		stored []activitylog.Row
		filter Filter
		at     Cursor
		want   []string
	}{
		"from the beginning": {stored, since, nil, []string{"recent", "set back", "later"}},
		"from a place":       {stored, since, Cursor{2}, []string{"set back", "later"}},
		"no log yet":         {nil, since, nil, []string{"set back", "later"}},
		"until a time":       {stored, Filter{Since: since.Since, Until: logtest.Epoch.Add(time.Minute)}, nil, []string{"recent", "later"}},
	} {
		path := filepath.Join(t.TempDir(), "activity.db")
		if c.stored != nil {
			writetest.Store(t, path, opts, c.stored)
		}
		r := opened(t, path)
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		grow := sync.OnceFunc(func() {
			writetest.Store(t, path, opts, []activitylog.Row{row("set back", -time.Hour), row("later", 0)})
		})
		if c.at != nil {
			grow() // after the place, before the start
		}
		err := r.Follow(ctx, c.filter, c.at, func(error) { grow() }, func(rows []activitylog.Entry) error {
			for i := range rows {
				got = append(got, rows[i].Topic)
			}
			if got[len(got)-1] == "later" {
				cancel()
			}
			grow()
			return nil
		})
		cancel()
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

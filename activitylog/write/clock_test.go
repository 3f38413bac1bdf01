package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol/timetest"
)

const day = 24 * time.Hour

// A move of a clock: the bus runs, and then the clock is set, or the machine sleeps.
type move struct{ run, step time.Duration }

// moves repeats a move.
func moves(n int, run, step time.Duration) []move { return slices.Repeat([]move{{run, step}}, n) }

// TestRetentionClock_IgnoresJumps simulates changes of the clock, and compares the time
// that retention uses with the true time.
func TestRetentionClock_IgnoresJumps(t *testing.T) {
	for name, c := range map[string]struct {
		moves []move
		ahead time.Duration // of the time used, compared with the running time of the bus
		news  string
	}{
		"it runs":                     {[]move{{10 * day, 0}}, 0, ""},
		"a leap of a second":          {[]move{{day, time.Second}, {day, -time.Second}}, 0, ""},
		"a weekend off":               {[]move{{day, 3 * day}, {day, 0}}, 3 * day, ""},
		"many nights off":             {[]move{{day, 8 * day}, {day, 8 * day}, {day, 8 * day}}, 24 * day, ""},
		"ahead for three seconds":     {[]move{{day, 400 * day}, {3 * time.Second, -400 * day}, {time.Minute, 0}}, 0, "jump ended "},
		"ahead for hours":             {[]move{{day, 400 * day}, {20 * time.Hour, 0}}, 0, "jump "},
		"ahead, and further":          {[]move{{day, 400 * day}, {20 * time.Hour, 400 * day}, {20 * time.Hour, 0}}, 0, "jump jump "},
		"ahead for a day":             {[]move{{day, 400 * day}, {day, 0}}, 400 * day, "jump believed "},
		"and back after that":         {[]move{{day, 400 * day}, {day, -400 * day}, {time.Hour, 0}}, 0, "jump believed jump "},
		"behind":                      {[]move{{day, -400 * day}, {time.Hour, 0}}, -400 * day, "jump "},
		"behind for a minute":         {[]move{{day, -400 * day}, {time.Minute, 400 * day}, {time.Hour, 0}}, 0, "jump ended "},
		"a little ahead while behind": {[]move{{day, -400 * day}, {time.Hour, day}, {time.Hour, 0}}, -399 * day, "jump "},
		"steps in a minute":           {moves(4, 3*time.Second, 8*day), 8 * day, "jump "},
		"steps of just under a day":   {moves(12, time.Second, day-time.Minute), 9*day - 9*time.Minute, "jump "},
		"steps, proven by hours":      {append(moves(10, time.Second, day-time.Minute), move{20 * time.Hour, 0}), 10*day - 10*time.Minute, "jump believed "},
		"steps, and back":             {append(moves(3, time.Hour, 8*day), move{time.Hour, -24 * day}, move{time.Hour, 0}), 0, "jump ended "},
		"steps back and forth":        {append(moves(9, time.Hour, 8*day), moves(9, time.Hour, -8*day)...), 0, "jump ended "},
		"steps, then a day":           {append(moves(3, time.Second, 8*day), move{day + time.Minute, 0}), 24 * day, "jump believed "},
		"a machine used by day":       {moves(60, 10*time.Hour, 14*time.Hour), 60 * 14 * time.Hour, ""},
		"a machine used for an hour":  {moves(60, time.Hour, 23*time.Hour), 60 * 23 * time.Hour, ""},
	} {
		clock := newRetentionClock(filepath.Join(t.TempDir(), "activity.db"), activitylog.Retention{Age: 90 * day})
		wall, ran, news := logtest.Epoch, time.Duration(0), ""
		clock.state.Wall = wall
		tick := func(elapsed time.Duration) {
			ran, wall = ran+elapsed, wall.Add(elapsed)
			jump := clock.advance(wall, elapsed)
			switch {
			case jump == nil:
			case jump.Ended != nil:
				news += "ended "
			case jump.Believed != nil:
				news += "believed "
			default:
				news += "jump "
			}
		}
		for _, m := range c.moves {
			for left := m.run; left > 0; left -= min(left, time.Minute) {
				tick(min(left, time.Minute))
			}
			wall = wall.Add(m.step)
			tick(0)
		}
		if got := clock.now().Sub(logtest.Epoch) - ran; got != c.ahead || news != c.news {
			t.Errorf("%s: the believed time is %s ahead, %q; want %s, %q", name, got, news, c.ahead, c.news)
		}
	}
	for age, want := range map[time.Duration]time.Duration{0: day, time.Hour: day, 10 * day: day, 90 * day: 9 * day} {
		if got := newRetentionClock("", activitylog.Retention{Age: age}).tolerance; got != want {
			t.Errorf("kept for %s, a step of %s is believed; want %s", age, got, want)
		}
	}
}

// TestRetentionClock_OutlivesARestart checks that a bus that starts while the clock is
// wrong takes the time from its file, or else from the last row.
func TestRetentionClock_OutlivesARestart(t *testing.T) {
	path, rows := threePerFile(t, 4)
	last := time.UnixMicro(rows[len(rows)-1].At)
	keep := activitylog.Retention{Age: 90 * day}
	for name, c := range map[string]struct {
		starts []time.Duration // of the wall clock after the last row
		want   time.Duration   // the believed time
	}{
		"soon":               {[]time.Duration{day}, day},
		"far ahead":          {[]time.Duration{400 * day}, 0},
		"again far ahead":    {[]time.Duration{time.Hour, 400 * day, 401 * day}, time.Hour},
		"right again":        {[]time.Duration{time.Hour, 400 * day, 2 * time.Hour}, 2 * time.Hour},
		"behind":             {[]time.Duration{-400 * day}, -400 * day},
		"behind, then right": {[]time.Duration{-400 * day, 2 * time.Hour}, 2 * time.Hour},
	} {
		if err := os.RemoveAll(clockPath(path)); err != nil {
			t.Fatal(err)
		}
		var clock *retentionClock
		for _, at := range c.starts {
			clock = newRetentionClock(path, keep)
			clock.wall = func() time.Time { return last.Add(at) }
			if _, err := clock.check(); err != nil {
				t.Fatal(err)
			}
		}
		if got := clock.now().Sub(last); got != c.want {
			t.Errorf("%s: the believed time is %s after the last row; want %s", name, got, c.want)
		}
	}
	if err := os.WriteFile(clockPath(path), []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock := newRetentionClock(path, keep)
	clock.wall = func() time.Time { return last.Add(400 * day) }
	if _, err := clock.check(); err != nil || !clock.now().Equal(last) {
		t.Errorf("from a file that is not whole: %s, %v", clock.now(), err)
	}
	if s, err := ReadClock(path); err != nil || s.Ahead != 400*day || s.Jump == nil {
		t.Errorf("stored is %+v, %v", s, err)
	}
}

// TestCompactor_RemovesNothingForAJump sets the clock 400 days ahead for three seconds, or
// for longer than a day.
func TestCompactor_RemovesNothingForAJump(t *testing.T) {
	path, rows := threePerFile(t, 13)
	last := time.UnixMicro(rows[len(rows)-1].At)
	if err := os.Remove(clockPath(path)); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	logger := zerolog.New(&log)
	var recorded []activitylog.Row
	k := &compactor{path: path, retention: activitylog.Retention{Age: 90 * day}, log: &logger, record: func(_ context.Context, r activitylog.Row) error { recorded = append(recorded, r); return nil }}
	k.clock = newRetentionClock(path, k.retention)
	at := func(clock, ran time.Duration, want int) {
		t.Helper()
		k.clock.wall = func() time.Time { return last.Add(clock) }
		k.clock.running = func() time.Duration { return ran }
		if err := k.compact(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := logtest.Sealed(t, path); len(got) != want {
			t.Errorf("at %s after the last row, sealed are %v; want %d files", clock, got, want)
		}
	}
	at(time.Minute, 0, 4)
	at(400*day, time.Second, 4)
	if n := strings.Count(log.String(), "the clock has jumped"); n != 1 || len(recorded) != 0 {
		t.Errorf("a jump is told %d times, %d rows", n, len(recorded))
	}
	at(2*time.Minute, 4*time.Second, 4)
	at(400*day, time.Minute, 4)
	at(400*day+23*time.Hour, 23*time.Hour, 4)
	at(401*day+time.Hour, day+time.Hour, 0)
	if n := strings.Count(log.String(), "has run long enough since the clock jumped"); n != 1 || len(recorded) != 1 {
		t.Fatalf("it is told %d times that the clock is believed, %d rows:\n%s", n, len(recorded), log.String())
	}
	if r := recorded[0]; r.Event != activitylog.LogPruned || !strings.Contains(string(r.Payload), `{"segments":4,"deleted":`) || !strings.Contains(string(r.Payload), `activity-keep is 90 days"`) {
		t.Errorf("recorded is %s %s", r.Event, r.Payload)
	}
	if !strings.Contains(log.String(), "sealed files were removed") {
		t.Errorf("the log says %s", log.String())
	}
}

// TestCompactor_RecordsWhatOthersRemove removes files while the bus runs.
func TestCompactor_RecordsWhatOthersRemove(t *testing.T) {
	path, _ := threePerFile(t, 7)
	var recorded []activitylog.Row
	k := &compactor{path: path, record: func(_ context.Context, r activitylog.Row) error { recorded = append(recorded, r); return nil }}
	for range 2 {
		if err := k.compact(t.Context()); err != nil || len(recorded) != 0 {
			t.Fatalf("%v, recorded are %v", err, recorded)
		}
	}
	removed, err := Prune(t.Context(), path, logtest.Epoch.Add(5*time.Hour))
	if err != nil || removed.Segments != 1 {
		t.Fatalf("%+v, %v", removed, err)
	}
	for range 2 {
		if err := k.compact(t.Context()); err != nil || len(recorded) != 1 || !strings.Contains(string(recorded[0].Payload), `"segments":1,"deleted":14,`) {
			t.Fatalf("%v, recorded are %v", err, recorded)
		}
	}
}

// TestPrune_IgnoresTimesInTheFuture checks that rows written with a wrong clock neither keep a
// file longer than the files after it nor remove one early.
func TestPrune_IgnoresTimesInTheFuture(t *testing.T) {
	path, _ := threePerFile(t, 13)
	tamper(t, segment.Path(path, 2), "UPDATE span SET until = until + 400 * 86400000000")
	now := logtest.Epoch.Add(100 * day)
	for _, c := range []struct {
		before time.Time
		files  int
	}{{logtest.Epoch.Add(4 * time.Hour), 1}, {logtest.Epoch.Add(7 * time.Hour), 0}, {logtest.Epoch.Add(10 * time.Hour), 2}} {
		r, err := prune(t.Context(), path, c.before, now)
		if err != nil || r.Segments != c.files {
			t.Errorf("before %s: %+v, %v; want %d files", c.before.Sub(logtest.Epoch), r, err, c.files)
		}
	}
}

// TestWriter_RecordsWhatIsRemoved checks the row that records a removal.
func TestWriter_RecordsWhatIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{}
		w := onSink(s, nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		if err := w.compactor.recordRemoval(ctx, Removal{Segments: 1, Rows: 2, Bytes: 3}, "why"); err != nil {
			t.Error(err)
		}
		timetest.Advance(time.Second)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if err := w.compactor.recordRemoval(t.Context(), Removal{Segments: 1}, "too late"); err == nil {
			t.Error("a closed log takes a row")
		}
		if len(s.rows) != 1 || string(s.rows[0].Payload) != `{"segments":1,"deleted":2,"bytes":3,"reason":"why"}` || w.Stats().Lost != 0 {
			t.Errorf("the rows are %v, and %d were lost", s.rows, w.Stats().Lost)
		}
	})
}

// TestCompactor_RecordsRemovalsOnce covers removals while no bus ran, and a kill before the row was
// written.
func TestCompactor_RecordsRemovalsOnce(t *testing.T) {
	path := subjectLog(t)
	var recorded []string
	fault := error(nil)
	start := func(want ...string) *compactor {
		t.Helper()
		k := &compactor{path: path, record: func(_ context.Context, r activitylog.Row) error {
			recorded = append(recorded, string(r.Payload))
			return fault
		}}
		err := k.compact(t.Context())
		if !errors.Is(err, fault) || !slices.Equal(recorded, want) {
			t.Fatalf("%v: the rows are %v; want %v", err, recorded, want)
		}
		recorded = nil
		return k
	}
	prune := func(files int) Removal {
		t.Helper()
		list, err := sealedFiles(path)
		if err != nil || len(list) < files {
			t.Fatalf("%d files, %v", len(list), err)
		}
		var r Removal
		for _, f := range list[:files] {
			if err := r.remove(path, f); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	row := func(r Removal) string {
		return fmt.Sprintf(`{"segments":%d,"deleted":%d,"bytes":0,"reason":"removed by another program"}`, r.Segments, r.Rows)
	}
	start()
	first := prune(1)
	start(row(first))
	k := start()
	second := prune(1)
	if err := k.compact(t.Context()); err != nil || !slices.Equal(recorded, []string{row(second)}) {
		t.Errorf("%v: while it runs: %v; want %s", err, recorded, row(second))
	}
	recorded = nil
	start()
	third, failed := prune(1), errors.New("killed")
	fault = failed
	start(row(third))
	fault = nil
	start(row(third))
	start()
}

// TestCompactor_RecordsARemovalAfterAFailure checks that the next pass records what one pass could
// not record, even if retention removed more files meanwhile.
func TestCompactor_RecordsARemovalAfterAFailure(t *testing.T) {
	for _, passes := range []int{0, 1} { // before it
		path := subjectLog(t)
		files, err := sealedFiles(path)
		if err != nil || len(files) < 3 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		var fault error
		recorded := 0
		k := &compactor{path: path, record: func(_ context.Context, r activitylog.Row) error {
			var removal Removal
			if fault == nil {
				fault = json.Unmarshal(r.Payload, &removal)
			}
			recorded += removal.Segments
			return fault
		}}
		pass := func(want int) {
			t.Helper()
			recorded = 0
			if err := k.compact(t.Context()); !errors.Is(err, fault) || recorded != want {
				t.Errorf("%d removed files were recorded, %v; want %d", recorded, err, want)
			}
		}
		for range passes {
			pass(0)
		}
		var removed Removal
		if err := removed.remove(path, files[0]); err != nil {
			t.Fatal(err)
		}
		fault = errors.New("rows were lost")
		k.retention = activitylog.Retention{Bytes: 1}
		pass(0)
		if left, err := sealedFiles(path); err != nil || len(left) != 0 {
			t.Fatalf("retention left %d files, %v", len(left), err)
		}
		fault = nil
		pass(len(files))
		pass(0)
		k = &compactor{path: path, record: k.record}
		pass(0)
		if err := errors.Join(os.Remove(prunedPath(path)), os.Mkdir(prunedPath(path), 0o700)); err != nil {
			t.Fatal(err)
		}
		k = &compactor{path: path, record: k.record}
		pass(len(files)) // it cannot be known that there is a row
		pass(0)          // in this run it is
	}
}

// TestWriter_KeepsTheLogWhenTheClockIsAheadAtItsStart runs the Writer over restarts, as a bus does, on a
// log whose rows were written long before the time that the clock shows. Its sealed files stay until the
// clock has proved itself: a jump is stored and logged once, and a clock that is right ends it.
func TestWriter_KeepsTheLogWhenTheClockIsAheadAtItsStart(t *testing.T) {
	path, rows := threePerFile(t, 13)
	last := time.UnixMicro(rows[len(rows)-1].At)
	if err := os.RemoveAll(clockPath(path)); err != nil {
		t.Fatal(err)
	}
	sealed := len(logtest.Sealed(t, path))
	if sealed < 2 || time.Since(last) < 180*day {
		t.Fatalf("%d sealed files, the last row is of %s", sealed, last)
	}
	start := func(at time.Duration) string {
		t.Helper()
		var text strings.Builder
		logger := zerolog.New(zerolog.SyncWriter(&text))
		w := NewWriter(path, &Options{SegmentAge: 10_000 * day, Retention: activitylog.Retention{Age: 90 * day}, Log: &logger})
		began := time.Now()
		if at != 0 {
			began = last.Add(at)
			w.compactor.clock = newRetentionClock(path, w.opts.Retention)
			w.compactor.clock.wall = func() time.Time { return last.Add(at) }
		}
		stop := running(t, w)
		<-w.Opened()
		mustSync(t, w)
		for checked := false; !checked; runtime.Gosched() { // the compactor stores the time
			s, err := ReadClock(path)
			if err != nil {
				t.Fatal(err)
			}
			checked = at == 0 && s.Wall.After(began) || at != 0 && s.Wall.Equal(began)
		}
		if err := errors.Join(stop(), w.compactor.compact(t.Context())); err != nil { // a complete pass, in case the stop cut one short
			t.Fatal(err)
		}
		return text.String()
	}
	for i, c := range []struct {
		at         time.Duration // of the clock after the last row; 0 is the clock of this machine
		files      int
		says, isnt string
	}{
		{0, sealed, "the clock has jumped", "removed"},
		{0, sealed, "", "the clock has jumped"},
		{time.Hour, sealed, "the clock is right again", "removed"},
		{400 * day, sealed, "the clock has jumped", "removed"},
		{401 * day, sealed, "", "removed"},
		{25 * time.Hour, sealed, "the clock is right again", "removed"},
	} {
		if text := start(c.at); !strings.Contains(text, c.says) || strings.Contains(text, c.isnt) {
			t.Errorf("start %d says %s", i, text)
		}
		if got := logtest.Sealed(t, path); len(got) != c.files {
			t.Errorf("after start %d, %d sealed files are left of %d", i, len(got), c.files)
		}
	}
}

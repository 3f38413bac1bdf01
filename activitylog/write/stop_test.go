package write

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog/internal/logtest"
	"hubbub/protocol/timetest"
)

// rotatingSink begins a new file before each write, which syncs several times.
type rotatingSink struct {
	slowSink
	w     *Writer
	syncs int
	takes time.Duration // each sync of it
}

func (s *rotatingSink) due() bool { return true }

func (s *rotatingSink) rotate() error {
	for range s.syncs {
		s.w.beginStep(1)
		time.Sleep(s.takes)
	}
	return nil
}

// TestWriter_StopHasOneDeadline checks that all work of a stop shares a deadline. Progress
// of the disk extends it while rows wait; a hanging or failing disk does not.
func TestWriter_StopHasOneDeadline(t *testing.T) {
	const stop, hold = 3 * time.Second, 5 * time.Second
	for name, c := range map[string]struct {
		rows               int           // appended when a file is sealed, before the stop
		syncs              int           // of the seal
		takes, disk, delay time.Duration // a sync of the seal, a sync and a commit of rows
		fails              bool
		longest            time.Duration
		lost               int
		extended           bool
	}{
		"a fast disk":                          {rows: 3, syncs: 1, longest: 0},
		"slow, within the time":                {rows: 3, syncs: 1, takes: time.Second, disk: time.Second, longest: stop, extended: true},
		"many slow syncs":                      {rows: 3, syncs: 9, takes: 3 * time.Second, disk: 3 * time.Second, longest: time.Minute, extended: true},
		"each almost as slow as the hold":      {rows: 3, syncs: 4, takes: 4900 * time.Millisecond, disk: 4 * time.Second, longest: time.Minute, extended: true},
		"many slow commits":                    {rows: 5 * chunkRows, syncs: 1, delay: 2 * time.Second, disk: 2 * time.Second, longest: time.Minute, extended: true},
		"nothing waits for many slow syncs":    {syncs: 9, takes: 3 * time.Second, longest: stop + closeTime},
		"a hanging seal":                       {rows: 3, syncs: 1, takes: time.Hour, longest: hold + closeTime, lost: 3, extended: true},
		"a hanging seal after many slow syncs": {rows: 3, syncs: 1, takes: time.Hour, disk: 2 * time.Second, longest: hold + closeTime, lost: 3, extended: true},
		"a hanging sync":                       {rows: 7, syncs: 0, disk: time.Hour, longest: 2*hold + closeTime, lost: 7, extended: true},
		"a failing disk":                       {rows: 7, syncs: 0, fails: true, longest: stop + closeTime, lost: 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &rotatingSink{slowSink: slowSink{disk: c.disk, delay: c.delay}, syncs: c.syncs, takes: c.takes}
				if c.fails {
					s.fail("no space")
				}
				var until time.Time
				w := onSink(&s.slowSink, &Options{StopTimeout: stop, Hold: hold, OnStopExtended: func(to time.Time) { until = to }})
				w.open, s.w = func() (sink, error) { return s, nil }, w
				end := running(t, w)
				<-w.Opened()
				timetest.Advance(reopenEvery) // it seals now
				for i := range c.rows {
					w.Append(logtest.Numbered(i))
				}
				began, want := time.Now(), ""
				if c.lost > 0 {
					want = fmt.Sprintf("%d rows could not be written to nowhere before the end: ", c.lost)
				}
				err := end()
				took := time.Since(began)
				if took > c.longest {
					t.Errorf("the stop took %s; want at most %s", took, c.longest)
				}
				if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
					t.Errorf("the stop ended with %v; want %q", err, want)
				}
				if c.extended != !until.IsZero() || c.extended && time.Now().After(until) {
					t.Errorf("the stop ended after %s, and was extended to %s of it: want %t", took, until.Sub(began), c.extended)
				}
				timetest.Advance(2 * time.Hour) // what is left ends with the process, or here
			})
		})
	}
}

// TestWriter_ExtendsAStopWhileCallersAreHeld checks the time before the context of Run ends:
// callers still append to a full queue. A program allows 9.5 s, and then 2 s more than what is
// reported.
func TestWriter_ExtendsAStopWhileCallersAreHeld(t *testing.T) {
	for name, c := range map[string]struct {
		disk     time.Duration
		extended bool
	}{"a fast disk": {0, false}, "a slow disk": {3 * time.Second, true}, "almost as slow as the hold": {4900 * time.Millisecond, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				allowed, extended := began.Add(9500*time.Millisecond), false
				check := func() {
					if time.Now().After(allowed) {
						t.Errorf("after %s, only %s were allowed", time.Since(began), allowed.Sub(began))
					}
				}
				w := onSink(&slowSink{disk: c.disk}, &Options{StopTimeout: 3 * time.Second, Hold: 5 * time.Second, QueueRows: 10,
					OnStopExtended: func(to time.Time) {
						check()
						allowed, extended = to.Add(2*time.Second), true
					}})
				end := running(t, w)
				<-w.Opened()
				ended := make(chan struct{})
				go w.ExtendStop(ended)
				for i := range 80 {
					w.Append(logtest.Numbered(i))
				}
				close(ended)
				if err := end(); err != nil || w.Stats().Lost != 0 || extended != c.extended {
					t.Errorf("%v, %d rows were lost; extended: %t", err, w.Stats().Lost, extended)
				}
				check()
			})
		})
	}
}

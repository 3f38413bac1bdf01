package write

import (
	"errors"
	"testing"
	"time"

	"hubbub/activitylog"
)

// TestOptions_Defaults checks the documented bounds.
func TestOptions_Defaults(t *testing.T) {
	w := NewWriter("nowhere.db", nil)
	want := Bounds{
		MaxRows: 65536, MaxBytes: 64 << 20, MaxWAL: 4 << 30, Hold: 5 * time.Second,
		SegmentRows: 1_000_000, SegmentBytes: 256 << 20, SegmentAge: 7 * 24 * time.Hour,
	}
	if got := w.Stats().Bounds; got != want {
		t.Errorf("%+v; want %+v", got, want)
	}
	if w.opts.StopTimeout != 5*time.Second || w.opts.Required || w.opts.Retention != (activitylog.Retention{}) {
		t.Errorf("%+v", w.opts)
	}
}

// TestAdmit_RefusesWhileBehind checks when messages are refused. A log keeps up if a queue that
// is at most half full is written from every 250 ms, and a fuller one every 50 ms.
func TestAdmit_RefusesWhileBehind(t *testing.T) {
	for name, c := range map[string]struct {
		rows, bytes int
		stood       time.Duration // since something was written
		lost        int64
		reason      string
		closed      bool
		behind      bool
	}{
		"nothing waits":                  {stood: time.Hour},
		"nothing waits, and it fails":    {stood: time.Hour, reason: "disk full", behind: true},
		"it began to fail":               {reason: "disk full"},
		"half full":                      {rows: 50, bytes: 500, stood: 100 * time.Millisecond},
		"half full, and stands":          {rows: 50, bytes: 500, stood: time.Hour, behind: true},
		"more than half of the rows":     {rows: 51, stood: 100 * time.Millisecond, behind: true},
		"more than half of the bytes":    {rows: 1, bytes: 501, stood: 100 * time.Millisecond, behind: true},
		"full, and moves":                {rows: 100, bytes: 1000},
		"rows are lost":                  {lost: 1, behind: true},
		"it is closed":                   {closed: true, behind: true},
		"one row waits for a short time": {rows: 1, stood: 100 * time.Millisecond},
	} {
		w := NewWriter("nowhere.db", &Options{QueueRows: 100, QueueBytes: 1000, Required: true})
		w.q.rows, w.q.bytes, w.q.reason, w.q.closed = c.rows, c.bytes, c.reason, c.closed
		w.q.lost.rows, w.q.progress = c.lost, time.Now().Add(-c.stood)
		if err := w.Admit(); (err != nil) != c.behind || err != nil && !errors.Is(err, ErrBehind) {
			t.Errorf("%s: %v", name, err)
		}
		if w.opts.Required = false; w.Admit() != nil {
			t.Errorf("%s: a log that is not required refuses", name)
		}
	}
}

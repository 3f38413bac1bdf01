package write

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/activitylog/internal/logtest"
	"hubbub/protocol/timetest"
)

// opening is a Writer whose database takes some time to open.
func opening(takes time.Duration, err error) *Writer {
	w := NewWriter("nowhere", &Options{StopTimeout: 3 * time.Second})
	w.open = func() (sink, error) {
		time.Sleep(takes)
		return &slowSink{}, err
	}
	return w
}

func isOpened(w *Writer) bool {
	synctest.Wait()
	select {
	case <-w.Opened():
		return true
	default:
		return false
	}
}

// TestWriter_TellsWhenItIsOpen also covers a log that cannot be opened, because a broken
// log must not stop a bus.
func TestWriter_TellsWhenItIsOpen(t *testing.T) {
	for _, fault := range []error{nil, errors.New("locked")} {
		synctest.Test(t, func(t *testing.T) {
			w := opening(9*time.Second, fault)
			stop := running(t, w)
			timetest.Advance(9*time.Second - 1)
			if isOpened(w) {
				t.Errorf("it is open before its time: %v", fault)
			}
			timetest.Advance(time.Nanosecond)
			if !isOpened(w) {
				t.Errorf("it does not tell that it is open: %v", fault)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWriter_StopsWhileItOpens stops within the time that a stop may take. It is an error
// only if rows were appended.
func TestWriter_StopsWhileItOpens(t *testing.T) {
	for _, c := range []struct {
		takes, want time.Duration
		rows        int
		says        string
	}{
		{2 * time.Second, time.Second, 0, ""},
		{2 * time.Second, time.Second, 1, ""},
		{time.Minute, 3*time.Second + closeTime, 0, ""},
		{time.Minute, (5 * time.Second) - time.Second + closeTime, 1, "1 rows could not be written"}, // held since it was appended
	} {
		synctest.Test(t, func(t *testing.T) {
			w := opening(c.takes, nil)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			for i := range c.rows {
				w.Append(logtest.Numbered(i))
			}
			began := time.Now()
			err := w.Run(ctx)
			if took := time.Since(began) - time.Second; took != c.want {
				t.Errorf("opening takes %s: the stop took %s; want %s", c.takes, took, c.want)
			}
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("opening takes %s, with %d rows: %v; want %q", c.takes, c.rows, err, c.says)
			}
			timetest.Advance(c.takes) // what was left behind ends with the program
		})
	}
}

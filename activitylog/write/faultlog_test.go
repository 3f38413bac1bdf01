package write

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"hubbub/activitylog/internal/logtest"
	"hubbub/protocol/timetest"
)

// A brokenSink can be neither written nor closed without an error.
type brokenSink struct{ slowSink }

func (s *brokenSink) close() error { return errors.New("disk is full, too") }

// TestWriter_LogsLastingErrorOncePerMinute checks that an unwritable activity
// log does not fill the log of the program.
func TestWriter_LogsLastingErrorOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &brokenSink{}
		s.fail("disk is full")
		var told bytes.Buffer
		log := zerolog.New(&told)
		w := NewWriter("nowhere", &Options{Log: &log, StopTimeout: time.Millisecond})
		w.open = func() (sink, error) { return s, nil }
		stop := running(t, w)
		w.Append(logtest.Numbered(0))
		timetest.Advance(150 * time.Second)
		if n := bytes.Count(told.Bytes(), []byte("\n")); n != 3 || !bytes.Contains(told.Bytes(), []byte("disk is full")) {
			t.Errorf("told %d times in 150s; want 3:\n%.500s", n, told.String())
		}
		if err := stop(); err == nil {
			t.Error("Run ended without an error")
		}
	})
}

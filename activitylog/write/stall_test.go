package write

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/protocol/timetest"
)

// slowSink takes delay for each transaction, and disk for each sync, and keeps the rows.
type slowSink struct {
	delay   time.Duration
	disk    time.Duration
	closing time.Duration
	fault   atomic.Pointer[string] // why every write fails; nil when it does not
	rows    []activitylog.Row
	sizes   []int // of each transaction
}

func (s *slowSink) write(rows []activitylog.Row) (int64, int, error) {
	time.Sleep(s.delay)
	if why := s.fault.Load(); why != nil {
		return 0, 0, errors.New(*why)
	}
	first := int64(len(s.rows)) + 1
	s.rows = append(s.rows, rows...)
	s.sizes = append(s.sizes, len(rows))
	return first, len(rows), nil
}

func (s *slowSink) fail(why string) { s.fault.Store(&why) }
func (s *slowSink) walBytes() int64 { return 0 }
func (s *slowSink) idle() error     { return nil }
func (s *slowSink) close() error    { time.Sleep(s.closing); return nil }
func (s *slowSink) due() bool       { return false }
func (s *slowSink) rotate() error   { return nil }
func (s *slowSink) sync() error     { time.Sleep(s.disk); return nil }

func onSink(s *slowSink, opts *Options) *Writer {
	w := NewWriter("nowhere", opts)
	w.open = func() (sink, error) { return s, nil }
	return w
}

func TestWriter_WritesWithin20Milliseconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{}
		w := onSink(s, nil)
		stop := running(t, w)
		synctest.Wait()
		for range 4 {
			w.Append(logtest.Numbered(1))
			timetest.Advance(time.Millisecond)
		}
		timetest.Advance(linger)
		if len(s.rows) != 4 || len(s.sizes) != 1 {
			t.Errorf("%d rows in %d transactions after %s; want 4 in 1", len(s.rows), len(s.sizes), linger)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWriter_FullTransactionDoesNotLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{}
		w := onSink(s, nil)
		running(t, w)
		synctest.Wait()
		began := time.Now()
		for i := range chunkRows + 1 {
			w.Append(logtest.Numbered(i))
		}
		synctest.Wait()
		if len(s.rows) != chunkRows || time.Since(began) != 0 {
			t.Errorf("%d rows were written after %s", len(s.rows), time.Since(began))
		}
	})
}

func TestWriter_HoldsPublishersToItsSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{delay: 100 * time.Millisecond}
		w := onSink(s, &Options{QueueRows: 10})
		stop := running(t, w)
		for i := range 100 {
			w.Append(logtest.Numbered(i))
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if len(s.rows) != 100 || w.Stats().Lost != 0 {
			t.Errorf("%d rows were written and %d lost; want 100 and 0", len(s.rows), w.Stats().Lost)
		}
		for i, r := range s.rows {
			if want := fmt.Sprintf("msg_%08d", i); r.MessageID != want {
				t.Fatalf("row %d is %s", i, r.MessageID)
			}
		}
	})
}

func TestWriter_StalledOneHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{disk: 5 * time.Second} // an fsync that hangs
		var told bytes.Buffer
		log := zerolog.New(zerolog.SyncWriter(&told))
		w := onSink(s, &Options{QueueRows: 10, Hold: time.Second, StopTimeout: time.Minute, Log: &log})
		stop := running(t, w)
		w.Append(logtest.Numbered(0))
		timetest.Advance(linger) // it hangs now
		began := time.Now()
		for i := range 99 {
			w.Append(logtest.Numbered(i + 1))
		}
		if waited := time.Since(began); waited > time.Second {
			t.Errorf("publishers waited %s", waited)
		}
		if got := w.Stats(); got.Lost != 90 || got.QueuedRows != 10 || !got.Stalled {
			t.Errorf("%+v; want 90 rows lost, 10 queued", got)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if len(s.rows) != 11 {
			t.Fatalf("%d rows were written; want 10 and the gap", len(s.rows))
		}
		last := s.rows[10]
		if want := `{"lost":90,"reason":"the log made no progress for 1s"}`; last.Event != activitylog.LogGap || string(last.Payload) != want {
			t.Errorf("the last row is %s %s; want log_gap %s", last.Event, last.Payload, want)
		}
		if got := w.Stats(); got.Gaps != 1 || got.Written != 11 {
			t.Errorf("%+v", got)
		}
		if !strings.Contains(told.String(), `"gap":{"lost":90,`) {
			t.Errorf("the program's log says %q", told.String())
		}
	})
}

// TestWriter_SlowCommitLosesNothing appends as fast as it can to disks that are only
// slow: publishers are held to their speed.
func TestWriter_SlowCommitLosesNothing(t *testing.T) {
	for _, delay := range []time.Duration{300 * time.Millisecond, time.Second, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := &slowSink{disk: delay}
			w := onSink(s, &Options{QueueRows: 5000})
			stop := running(t, w)
			for i := range 50_000 {
				w.Append(logtest.Numbered(i))
			}
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if got := w.Stats(); got.Lost != 0 || len(s.rows) != 50_000 {
				t.Errorf("commits of %s: %d rows written, %d lost", delay, len(s.rows), got.Lost)
			}
		})
	}
}

func TestGap_PrecedesLaterRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{}
		s.fail("disk is full")
		w := onSink(s, &Options{QueueRows: 3})
		stop := running(t, w)
		for i := range 5 {
			w.Append(logtest.Numbered(i))
			timetest.Advance(stallAfter)
		}
		s.fault.Store(nil)
		timetest.Advance(time.Second)
		w.Append(logtest.Numbered(5))
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		var got string
		for _, r := range s.rows {
			got += r.MessageID + string(r.Payload) + " "
		}
		want := `msg_00000000 msg_00000001 msg_00000002 {"lost":2,"reason":"disk is full"} msg_00000005 `
		if got != want {
			t.Errorf("the log is\n%s, want\n%s", got, want)
		}
	})
}

func TestWriter_BoundsLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{delay: 40 * time.Millisecond} // 2048 rows each
		w := onSink(s, &Options{QueueRows: 1 << 20})
		stop := running(t, w)
		worst := time.Duration(0)
		for i := range 40 * chunkRows {
			w.Append(logtest.Numbered(i))
			if i%128 == 0 {
				timetest.Advance(time.Millisecond) // 128 rows/ms, where the sink takes 51
				worst = max(worst, w.Stats().Lag)
			}
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if worst > stallAfter {
			t.Errorf("a kill could have cost %s", worst)
		}
		if got := w.Stats(); got.Lost != 0 || len(s.rows) != 40*chunkRows {
			t.Errorf("%d rows written, %d lost", len(s.rows), got.Lost)
		}
	})
}

// TestWriter_SlowDiskHoldsNobody uses commits that take 300 ms: publishers never
// wait, and rows committed meanwhile share the next sync.
func TestWriter_SlowDiskHoldsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{disk: 300 * time.Millisecond}
		w := onSink(s, nil)
		stop := running(t, w)
		began := time.Now()
		const most = 100_000
		for i := range most { // in 5 s
			if !w.TryAppend(0, logtest.Numbered(i)) {
				t.Fatalf("the publisher of row %d is held", i)
			}
			if i%20 == 0 {
				timetest.Advance(time.Millisecond)
			}
		}
		if waited := time.Since(began); waited != most/20*time.Millisecond {
			t.Errorf("%s for %d rows, 20 a millisecond", waited, most)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if len(s.rows) != most || w.Stats().Lost != 0 {
			t.Errorf("%d rows written, %d lost", len(s.rows), w.Stats().Lost)
		}
		for i, r := range s.rows {
			if want := fmt.Sprintf("msg_%08d", i); r.MessageID != want {
				t.Fatalf("row %d is %s", i, r.MessageID)
			}
		}
	})
}

// TestWriter_PublishersContinueWhileItCatchesUp uses a backlog of seconds: each
// commit lets half as many rows follow.
func TestWriter_PublishersContinueWhileItCatchesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{delay: 20 * time.Millisecond}
		s.fail("locked")
		w := onSink(s, nil)
		stop := running(t, w)
		for i := range 60_000 {
			w.Append(logtest.Numbered(i))
		}
		timetest.Advance(time.Second)
		s.fault.Store(nil)
		for w.Stats().Written == 0 {
			timetest.Advance(time.Millisecond)
		}
		longest := time.Duration(0)
		for i := range 20_000 {
			began := time.Now()
			w.Append(logtest.Numbered(60_000 + i))
			longest = max(longest, time.Since(began))
		}
		if s := w.Stats(); longest == 0 || longest > 40*time.Millisecond || s.QueuedRows == 0 {
			t.Errorf("a publisher waited %s for a writer that commits every 20ms; %d rows wait", longest, s.QueuedRows)
		}
		if err := stop(); err != nil || w.Stats().Lost != 0 {
			t.Errorf("%v, %+v", err, w.Stats())
		}
	})
}

// TestAppend_MissesNoCommit makes the commit that gives room happen between the
// refusal and the wait.
func TestAppend_MissesNoCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := onSink(&slowSink{delay: 20 * time.Millisecond}, &Options{QueueRows: 1})
		running(t, w)
		w.Append(logtest.Numbered(0))
		if w.TryAppend(0, logtest.Numbered(1)) {
			t.Fatal("the full queue took a row")
		}
		timetest.Advance(linger + 20*time.Millisecond) // it is committed, and nothing else will be
		began := time.Now()
		w.Append(logtest.Numbered(1))
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %s for a commit that had come", waited)
		}
	})
}

func TestWriter_StuckOneHoldsNobodyWhileThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{}
		s.fail("locked")
		w := onSink(s, nil)
		running(t, w)
		began := time.Now()
		for i := range 1000 {
			if !w.TryAppend(0, logtest.Numbered(i)) {
				t.Fatal("a publisher is held by a writer that does not get on")
			}
			timetest.Advance(time.Millisecond)
		}
		if waited := time.Since(began); waited != time.Second {
			t.Errorf("%s for 1000 rows, one a millisecond", waited)
		}
		if s := w.Stats(); s.QueuedRows != 1000 || s.LastError != "locked" || !s.Failing || !s.Stalled {
			t.Errorf("%+v", s)
		}
		s.fault.Store(nil)
		mustSync(t, w)
		if s := w.Stats(); s.Failing || s.Stalled || s.Lost != 0 || s.Written != 1000 {
			t.Errorf("after it works again: %+v", s)
		}
	})
}

func TestRequired_RefusesBeforeLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{}
		w := onSink(s, &Options{QueueRows: 100, Required: true})
		stop := running(t, w)
		synctest.Wait()
		if err := w.Admit(); err != nil {
			t.Fatal(err)
		}
		s.fail("read-only file")
		w.Append(logtest.Numbered(0))
		if err := w.Admit(); err != nil {
			t.Fatalf("refused at once: %v", err)
		}
		timetest.Advance(stallAfter)
		if err := w.Admit(); !errors.Is(err, ErrBehind) || err.Error() != ErrBehind.Error()+": read-only file" {
			t.Fatalf("after %s without progress: %v", stallAfter, err)
		}
		s.fault.Store(nil)
		mustSync(t, w)
		if err := w.Admit(); err != nil {
			t.Fatalf("refused although it works again: %v", err)
		}

		s.fail("read-only file")
		for i := range 60 {
			w.Append(logtest.Numbered(i))
		}
		timetest.Advance(freshProgress + linger)
		if err := w.Admit(); !errors.Is(err, ErrBehind) {
			t.Fatalf("with a queue more than half full: %v", err)
		}
		s.fault.Store(nil)
		if err := stop(); err != nil || w.Stats().Lost != 0 {
			t.Errorf("%v, %d lost", err, w.Stats().Lost)
		}
	})
}

// TestRequired_LogsAcceptedMessages checks that rows of an admitted message are queued
// even beyond the bound, and that the next message is refused.
func TestRequired_LogsAcceptedMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{}
		s.fail("read-only file")
		w := onSink(s, &Options{QueueRows: 3, Required: true})
		stop := running(t, w)
		if err := w.Admit(); err != nil {
			t.Fatal(err)
		}
		rows := logtest.Sent(1, time.Now())
		for _, r := range rows {
			w.Append(r)
		}
		if err := w.Admit(); !errors.Is(err, ErrBehind) {
			t.Errorf("the next message: %v", err)
		}
		s.fault.Store(nil)
		if err := stop(); err != nil || w.Stats().Lost != 0 || len(s.rows) != len(rows) {
			t.Errorf("%v, %d rows written, %d lost", err, len(s.rows), w.Stats().Lost)
		}
	})
}

func TestRequired_UnsetRefusesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := NewWriter("nowhere", &Options{QueueRows: 1})
		w.Append(logtest.Numbered(0))
		w.Append(logtest.Numbered(1)) // nobody writes: lost after 250 ms
		if err := w.Admit(); err != nil {
			t.Error(err)
		}
		if s := w.Stats(); s.Lost != 1 {
			t.Errorf("%+v", s)
		}
	})
}

func TestQueue_IsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{}
		s.fail("full")
		w := onSink(s, &Options{QueueBytes: 10_000})
		running(t, w)
		big := activitylog.Row{Event: activitylog.SendStart, Payload: make([]byte, 4000)}
		w.Append(big, big)
		if got := w.Stats(); got.QueuedBytes != 2*rowSize(&big) {
			t.Errorf("%d bytes are queued; want %d", got.QueuedBytes, 2*rowSize(&big))
		}
		w.Append(big)
		if got := w.Stats(); got.Lost != 1 || got.QueuedBytes > 10_000 {
			t.Errorf("%+v", got)
		}
		s.fault.Store(nil)
		mustSync(t, w)
		huge := activitylog.Row{Event: activitylog.SendStart, Payload: make([]byte, 40_000)}
		w.Append(huge) // an empty queue takes anything
		mustSync(t, w)
		if got := w.Stats(); got.Lost != 1 || got.QueuedBytes != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestStop_SyncsWaitingRowsOnce uses a disk so slow that a stopping program has time for
// only a few syncs.
func TestStop_SyncsWaitingRowsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{disk: 1500 * time.Millisecond}
		w := onSink(s, nil)
		stop := running(t, w)
		w.Append(logtest.Numbered(0))
		timetest.Advance(linger) // the first is being synced
		began := time.Now()
		const most = 60_000
		for i := range most {
			w.Append(logtest.Numbered(i + 1))
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 2*s.disk || len(s.rows) != most+1 {
			t.Errorf("%d rows were written in %s", len(s.rows), took)
		}
	})
}

// TestStop_DoesNotWaitForCleanup uses a disk so slow that closing the file would take longer
// than a stop may: all rows are durable, and the program ends.
func TestStop_DoesNotWaitForCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{disk: 3 * time.Second, closing: 12 * time.Second}
		var told bytes.Buffer
		log := zerolog.New(zerolog.SyncWriter(&told))
		w := onSink(s, &Options{StopTimeout: 3 * time.Second, Log: &log})
		stop := running(t, w)
		for i := range 100 {
			w.Append(logtest.Numbered(i))
			timetest.Advance(linger)
		}
		began := time.Now()
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 6500*time.Millisecond || len(s.rows) != 100 || w.Stats().Written != 100 {
			t.Errorf("stopping took %s, and %d rows are written", took, len(s.rows))
		}
		for _, want := range []string{"still stopping", "all rows are stored"} {
			if !strings.Contains(told.String(), want) {
				t.Errorf("nothing says that %s: %s", want, told.String())
			}
		}
		timetest.Advance(s.closing) // the cleanup ends on its own
	})
}

func TestStop_GivesUpInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowSink{}
		s.fail("disk is full")
		w := onSink(s, &Options{StopTimeout: 5 * time.Second, QueueRows: 5000})
		stop := running(t, w)
		for i := range 6000 {
			w.Append(logtest.Numbered(i))
		}
		began := time.Now()
		err := stop()
		if took := time.Since(began); took > 5100*time.Millisecond {
			t.Errorf("stopping took %s", took)
		}
		if want := "6000 rows could not be written to nowhere before the end: disk is full"; err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
		if got := w.Stats(); got.Lost != 6000 || got.QueuedRows != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestWriter_KeepsRowsYoungUnderSteadyTraffic measures how old each row is when it
// becomes durable. It waits for the linger, for the sync that is running, and for its own.
func TestWriter_KeepsRowsYoungUnderSteadyTraffic(t *testing.T) {
	disks := [...]time.Duration{time.Millisecond, 15 * time.Millisecond, 90 * time.Millisecond}
	for rate := 1; rate <= 1000; rate++ {
		synctest.Test(t, func(t *testing.T) {
			disk := disks[rate%len(disks)]
			oldest, stalled := steadyTraffic(t, rate, disk)
			if limit := linger + 2*disk; oldest > limit || stalled {
				t.Errorf("%d messages a second, syncs of %s: a row waited %s; want at most %s; stalled: %t", rate, disk, oldest, limit, stalled)
			}
		})
	}
}

// steadyTraffic appends rows for a second, and at least ten, to a disk whose syncs take some time. It
// returns the age of the oldest row that became durable, and whether the writer ever
// counted as stalled.
func steadyTraffic(t *testing.T, rate int, disk time.Duration) (oldest time.Duration, stalled bool) {
	rows := max(rate, 10)
	s := &slowSink{disk: disk}
	w := onSink(s, &Options{OnCommit: func(_ int64, rows []activitylog.Row) {
		for i := range rows {
			oldest = max(oldest, time.Since(time.UnixMicro(rows[i].At)))
		}
	}})
	stop := running(t, w)
	for i := range rows {
		row := logtest.Numbered(i)
		row.At = time.Now().UnixMicro()
		w.Append(row)
		timetest.Advance(time.Second / time.Duration(rate))
		stalled = stalled || w.Stats().Stalled
	}
	if err := stop(); err != nil || len(s.rows) != rows {
		t.Errorf("%d rows were written: %v", len(s.rows), err)
	}
	return oldest, stalled
}

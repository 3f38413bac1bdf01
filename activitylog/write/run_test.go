package write

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"zombiezen.com/go/sqlite"

	"hubbub/activitylog"
	"hubbub/activitylog/audit"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/read"
	"hubbub/protocol/timetest"
)

// A countedSink counts its calls and can be made to fail.
type countedSink struct {
	slowSink
	ready                         atomic.Bool  // it is due
	rotating, idling, syncing     atomic.Value // of error: what each fails with
	rotated, idled, wrote, closed atomic.Int64
}

var errNone = errors.New("none")

func fault(v *atomic.Value) error {
	if err, ok := v.Load().(error); ok && err != errNone {
		return err
	}
	return nil
}

func (s *countedSink) write(rows []activitylog.Row) (int64, int, error) {
	s.wrote.Add(1)
	return s.slowSink.write(rows)
}

func (s *countedSink) due() bool { return s.ready.Load() }

func (s *countedSink) rotate() error { s.rotated.Add(1); return fault(&s.rotating) }

func (s *countedSink) idle() error { s.idled.Add(1); return fault(&s.idling) }

func (s *countedSink) sync() error { return fault(&s.syncing) }

func (s *countedSink) close() error { s.closed.Add(1); return nil }

// onCounted returns a Writer with such a sink, which it opens each time, and its log.
func onCounted(s *countedSink, opts *Options) (w *Writer, opened *atomic.Int64, log *strings.Builder) {
	if opts == nil {
		opts = &Options{}
	}
	log, opened = &strings.Builder{}, &atomic.Int64{}
	logger := zerolog.New(zerolog.SyncWriter(log))
	opts.Log = &logger
	w = NewWriter("nowhere", opts)
	w.open = func() (sink, error) { opened.Add(1); return s, nil }
	return w, opened, log
}

// TestIdle_RotatesOrSigns checks that every second a due file is rotated, or else durable
// rows are signed.
func TestIdle_RotatesOrSigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countedSink{}
		w, opened, log := onCounted(s, &Options{Required: true})
		running(t, w)
		timetest.Advance(3500 * time.Millisecond)
		if s.idled.Load() != 3 || s.rotated.Load() != 0 || opened.Load() != 1 {
			t.Errorf("idled %d times, rotated %d times, opened %d times", s.idled.Load(), s.rotated.Load(), opened.Load())
		}
		s.ready.Store(true)
		s.rotating.Store(errInUse)
		timetest.Advance(2 * time.Second)
		if s.idled.Load() != 3 || s.rotated.Load() != 2 || opened.Load() != 1 || w.Stats().Failures != 0 {
			t.Errorf("in use: idled %d times, rotated %d times, opened %d times, %+v", s.idled.Load(), s.rotated.Load(), opened.Load(), w.Stats())
		}
		s.rotating.Store(errors.New("why"))
		timetest.Advance(time.Second)
		if st := w.Stats(); s.rotated.Load() != 3 || opened.Load() != 1 || st.Failures != 1 || st.LastError != "why" || !st.Failing {
			t.Errorf("a fault: rotated %d times, opened %d times, %+v", s.rotated.Load(), opened.Load(), st)
		}
		s.ready.Store(false)
		timetest.Advance(time.Second) // it is opened again, and then reported as healthy
		if st := w.Stats(); opened.Load() != 2 || st.Failing || st.Failures != 1 || st.LastError != "why" {
			t.Errorf("after the fault: opened %d times, %+v", opened.Load(), st)
		}
		s.idling.Store(errors.New("unsigned"))
		timetest.Advance(2 * time.Second)
		if st, err := w.Stats(), w.Admit(); st.Failures != 3 || st.LastError != "unsigned" || opened.Load() != 2 || !st.Failing || err == nil {
			t.Errorf("a fault of what is idle: opened %d times, %+v, Admit = %v", opened.Load(), st, err)
		}
		s.idling.Store(errNone)
		timetest.Advance(time.Second)
		if st, err := w.Stats(), w.Admit(); st.Failing || err != nil {
			t.Errorf("after that fault: %+v, Admit = %v", st, err)
		}
		if got := log.String(); strings.Count(got, `"error":"why"`) != 1 || strings.Count(got, "writing works again") != 2 || strings.Count(got, `"error":"unsigned"`) != 1 {
			t.Errorf("the log says %s", got)
		}
	})
}

// TestIdle_LeavesFailureOfSync checks that a log without waiting rows reports a failure as long as
// committed rows cannot be synced.
func TestIdle_LeavesFailureOfSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countedSink{}
		w, _, log := onCounted(s, nil)
		running(t, w)
		s.syncing.Store(errors.New("unsynced"))
		w.Append(logtest.Numbered(1))
		timetest.Advance(3 * time.Second)
		if st := w.Stats(); s.idled.Load() < 2 || !st.Failing || strings.Contains(log.String(), "writing works again") {
			t.Errorf("idled %d times, %+v\n%s", s.idled.Load(), st, log)
		}
		s.syncing.Store(errNone)
		timetest.Advance(time.Second)
		if st := w.Stats(); st.Failing || st.Written != 1 {
			t.Errorf("after the fault: %+v", st)
		}
	})
}

// TestOpen_IsRetried checks that opening is tried every second while nothing waits, and
// every 50 ms while rows wait.
func TestOpen_IsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countedSink{}
		w, opened, log := onCounted(s, nil)
		var broken atomic.Bool
		broken.Store(true)
		w.open = func() (sink, error) {
			if opened.Add(1); broken.Load() {
				return nil, errors.New("locked away")
			}
			return s, nil
		}
		stop := running(t, w)
		timetest.Advance(4500 * time.Millisecond)
		if st := w.Stats(); opened.Load() != 5 || st.Failures != 5 || !st.Failing {
			t.Errorf("opened %d times, %+v", opened.Load(), st)
		}
		w.Append(logtest.Numbered(1))
		timetest.Advance(linger + 10*retryEvery - time.Millisecond) // again when the row has lingered
		if st := w.Stats(); st.Failures != 16 || st.QueuedRows != 1 {
			t.Errorf("with a row that waits: %+v", st)
		}
		broken.Store(false)
		timetest.Advance(retryEvery)
		if st := w.Stats(); st.Failing || st.Written != 1 || st.QueuedRows != 0 || st.LastError != "locked away" {
			t.Errorf("when it can be opened: %+v", st)
		}
		if got := log.String(); strings.Count(got, "writing failed") != 1 || strings.Count(got, "writing works again") != 1 {
			t.Errorf("the log says %s", got)
		}
		if err := stop(); err != nil || s.closed.Load() != 1 {
			t.Errorf("it was closed %d times, %v", s.closed.Load(), err)
		}
	})
}

// TestWrite_FailedOneIsRetried checks that the write is retried with a new connection,
// unless another program has locked the file.
func TestWrite_FailedOneIsRetried(t *testing.T) {
	busy := fmt.Errorf("writing: %w", sqlite.ResultBusy.ToError())
	for name, c := range map[string]struct {
		err    error
		opened int64
	}{"a fault": {errors.New("why"), 2}, "somebody else writes": {busy, 1}, "a reader holds the write-ahead log": {fmt.Errorf("%w on it", errWALFull), 1}} {
		s := &countedSink{}
		w, opened, _ := onCounted(s, nil)
		failing := &failingSink{countedSink: s, err: c.err}
		w.open = func() (sink, error) { opened.Add(1); return failing, nil }
		for range 2 {
			if _, _, err := w.tryWrite([]activitylog.Row{{}}); !errors.Is(err, c.err) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if opened.Load() != c.opened || s.closed.Load() != 2*(c.opened-1) {
			t.Errorf("%s: opened %d times, closed %d times", name, opened.Load(), s.closed.Load())
		}
	}
}

type failingSink struct {
	*countedSink
	err error
}

func (s *failingSink) write([]activitylog.Row) (int64, int, error) { return 0, 0, s.err }

// TestSync_FailedOneKeepsRows checks that the rows stay committed, are reported, and are
// abandoned when the time for a stop is over.
func TestSync_FailedOneKeepsRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &countedSink{}
		s.syncing.Store(errors.New("no disk"))
		w, _, _ := onCounted(s, &Options{StopTimeout: 2 * time.Second})
		stop := running(t, w)
		w.Append(logtest.Numbered(1), activitylog.Row{Event: activitylog.LogGap, Payload: []byte(`{"lost":3}`)})
		timetest.Advance(linger + 5*retryEvery - time.Millisecond)
		if st := w.Stats(); st.Failures != 5 || st.QueuedRows != 2 || st.Written != 0 || st.Commits != 1 || !st.Failing {
			t.Errorf("%+v", st)
		}
		s.syncing.Store(errNone)
		timetest.Advance(retryEvery)
		if st := w.Stats(); st.Failures != 5 || st.QueuedRows != 0 || st.Written != 2 || st.Gaps != 1 || st.Failing {
			t.Errorf("when it can: %+v", st)
		}
		s.syncing.Store(errors.New("no disk"))
		w.Append(logtest.Numbered(2))
		timetest.Advance(time.Second)
		begun := time.Now()
		err := stop()
		if took := time.Since(begun); err == nil || !strings.Contains(err.Error(), "1 rows could not be written to nowhere before the end: no disk") || took < 2*time.Second || took > 2*time.Second+2*retryEvery {
			t.Errorf("after %s: %v", took, err)
		}
		if st := w.Stats(); st.Lost != 1 || st.QueuedRows != 0 || st.Written != 2 {
			t.Errorf("in the end: %+v", st)
		}
	})
}

// TestSync_EndsWithError covers a sync that cannot wait, and one whose rows are lost.
func TestSync_EndsWithError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := onCounted(&countedSink{}, nil) // it does not run
		if err := w.Sync(t.Context()); err != nil {
			t.Errorf("of nothing: %v", err)
		}
		w.Append(logtest.Numbered(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if err := w.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waiting for the activity log") || time.Since(begun) != time.Second {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		done := make(chan error, 1)
		go func() { done <- w.Sync(t.Context()) }()
		synctest.Wait()
		w.abandonRows()
		if err := <-done; err == nil || err.Error() != "the log was closed" {
			t.Errorf("when it is given up: %v", err)
		}
		if w.abandoned != 1 || w.Stats().Lost != 1 || w.Stats().QueuedRows != 0 {
			t.Errorf("%d were given up, %+v", w.abandoned, w.Stats())
		}
		if err := w.Sync(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		other, _, _ := onCounted(&countedSink{}, &Options{QueueRows: 1})
		other.q.lost = gap{7, "why"}
		other.q.totals.Lost = 7
		go func() { done <- other.Sync(t.Context()) }()
		synctest.Wait()
		if q := &other.q; q.rows != 1 || q.lost.rows != 0 || q.chunks[0].rows[0].Event != activitylog.LogGap || q.syncTo != 1 {
			t.Errorf("what was lost is not synced: %+v", q.backlog)
		}
		c := other.q.take()
		other.q.markWritten(c, 1, 1, time.Second)
		other.q.settle(1)
		other.q.wakeWaiters()
		if err := <-done; err != nil {
			t.Errorf("what was lost before: %v", err)
		}
	})
}

// TestFault_IsLoggedOncePerMinute also checks that a passing error is not logged, and that
// the advice fits a file that is not a database.
func TestFault_IsLoggedOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, log := onCounted(&countedSink{}, nil)
		why, busy := errors.New("why"), fmt.Errorf("writing: %w", sqlite.ResultBusy.ToError())
		for i, c := range []struct {
			err   error
			after time.Duration
			lines int
		}{
			{busy, 0, 0}, {busy, stallAfter - 1, 0}, {busy, 1, 1}, {busy, time.Second, 1}, {why, 0, 2}, {why, time.Minute - 1, 2}, {why, 1, 3}, {errors.New("another"), 0, 4}, {why, 0, 5},
		} {
			timetest.Advance(c.after)
			w.failed(c.err)
			if n := strings.Count(log.String(), "\n"); n != c.lines || w.Stats().Failures != int64(i+1) || w.Stats().LastError != c.err.Error() {
				t.Errorf("after fault %d there are %d lines; want %d", i+1, n, c.lines)
			}
		}
		w.recovered()
		w.recovered()
		if n := strings.Count(log.String(), "writing works again"); n != 1 || w.Stats().Failing {
			t.Errorf("it was told %d times that it is well", n)
		}
		for code, advised := range map[sqlite.ResultCode]bool{sqlite.ResultCorrupt: true, sqlite.ResultNotADB: true, sqlite.ResultFull: false} {
			if w.failed(code.ToError()); strings.Contains(w.Stats().LastError, "move it away, and a new log begins") != advised {
				t.Errorf("it says %s", w.Stats().LastError)
			}
		}
	})
}

// TestFault_NamesTheCause checks the reason for lost rows after a write has failed, while a sync
// finds the log closed.
func TestFault_NamesTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, log := onCounted(&countedSink{}, nil)
		w.failed(errors.New("disk is full"))
		w.settle(t.Context(), []commit{{first: 1, rows: []activitylog.Row{logtest.Numbered(0)}}}, false)
		if s := w.Stats(); s.LastError != "disk is full" || s.Failures != 1 || strings.Count(log.String(), "\n") != 1 {
			t.Errorf("%d failures, the last one %q, logged:\n%s", s.Failures, s.LastError, log)
		}
	})
}

// TestRotation_PrecedesNextRows also checks that a stop does not rotate a file.
func TestRotation_PrecedesNextRows(t *testing.T) {
	s := &countedSink{}
	s.ready.Store(true)
	w, _, _ := onCounted(s, nil)
	w.sink = s
	write := func(ctx context.Context) {
		w.q.push([]activitylog.Row{{}})
		w.writeChunk(ctx, w.q.take())
	}
	write(t.Context())
	if s.rotated.Load() != 1 || s.wrote.Load() != 1 || len(w.compactor.wake.C()) != 1 {
		t.Errorf("rotated %d times, written %d times", s.rotated.Load(), s.wrote.Load())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if write(ended); s.rotated.Load() != 1 || s.wrote.Load() != 2 {
		t.Errorf("at the end: rotated %d times, written %d times", s.rotated.Load(), s.wrote.Load())
	}
	w.sink = nil
	if err := w.sync(); !errors.Is(err, errClosed) {
		t.Errorf("without a sink: %v", err)
	}
	if err := w.closeSink(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}

// TestStop_Deadline counts from the first check after the stop began.
func TestStop_Deadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _, _ := onCounted(&countedSink{}, &Options{StopTimeout: 3 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		if w.mustStop(ctx) || !w.stop.by.IsZero() {
			t.Error("it must stop before it is stopped")
		}
		cancel()
		for _, c := range []struct {
			after time.Duration
			want  bool
		}{{0, false}, {3 * time.Second, false}, {1, true}} {
			timetest.Advance(c.after)
			if got := w.mustStop(ctx); got != c.want {
				t.Errorf("after %s more it must stop: %t", c.after, got)
			}
		}
		if err := w.stopError(); err != nil {
			t.Errorf("nothing was given up: %v", err)
		}
	})
}

func TestFileNames(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "activity.db")
	for name, sealedToo := range map[string]bool{
		"activity-000001.db": true, "activity-000012.db": true, "activity-1000000.db": true, "activity-000007.db.sha256": true, "activity-000007.tree": true, "activity-000000.db": true,
		"activity-00001.db": false, "activity-0000001.db": true, "activity-00000x.db": false, "activity.db": false, "activity-.db": false, "other-000001.db": false, "activity-copy.db": false,
		"activity-99999999999.db": false,
	} {
		if got := read.IsSealed(path, name); got != sealedToo {
			t.Errorf("%s is of a sealed file: %t", name, got)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := segment.Numbers(path); err != nil || !slices.Equal(got, []int{0, 1, 12, 1000000}) {
		t.Errorf("sealed are %v, %v", got, err)
	}
	if got, err := segment.Numbers(filepath.Join(dir, "none", "activity.db")); err != nil || got != nil {
		t.Errorf("in no folder are %v, %v", got, err)
	}
	if got, err := segment.Numbers(filepath.Join(path, "activity.db")); err == nil {
		t.Errorf("in a file are %v", got)
	}
}

// TestSealed_ListsFilesOfCopy finds the files that were sealed before a copy of an
// active file.
func TestSealed_ListsFilesOfCopy(t *testing.T) {
	path, _ := threePerFile(t, 8)
	older := filepath.Join(t.TempDir(), "copy.db")
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(older, content, 0o600); err != nil {
		t.Fatal(err)
	}
	store(t, path, &Options{SegmentRows: 1}, logtest.Sent(20, logtest.Epoch)) // the live file is the third sealed one now
	names := func(live string) string {
		files, err := read.Sealed(path, live)
		if err != nil {
			t.Fatal(err)
		}
		for i := range files {
			files[i] = strings.TrimPrefix(filepath.Base(files[i]), "activity-00000")
		}
		return strings.Join(files, " ")
	}
	first := "1.db.sha256 1.db 2.db.sha256 2.db"
	for live, want := range map[string]string{older: first, path: first + " 3.db.sha256 3.db", filepath.Join(t.TempDir(), "none"): first + " 3.db.sha256 3.db"} {
		if got := names(live); got != want {
			t.Errorf("with %s are %s; want %s", live, got, want)
		}
	}
	if _, err := Prune(t.Context(), path, logtest.Epoch.Add(3*time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := names(older); got != "1.tree 2.db.sha256 2.db" {
		t.Errorf("after a file was removed: %s", got)
	}
}

// TestPool_KeepsFewConnections also checks that no connection to a deleted file is
// kept.
func TestPool_KeepsFewConnections(t *testing.T) {
	path, _ := threePerFile(t, 1)
	f := segment.NewSource(path).Active
	defer f.Pool.Close()
	take := func(n int) (views []*segment.View) {
		for range n {
			v, err := f.Take(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			views = append(views, v)
		}
		return views
	}
	put := func(views []*segment.View, sound bool) {
		for _, v := range views {
			if err := f.Put(v, sound); err != nil {
				t.Fatal(err)
			}
		}
	}
	six := take(6)
	if put(six, true); len(f.Pool.Idle) != 4 {
		t.Errorf("%d are kept of six", len(f.Pool.Idle))
	}
	again := take(1)
	if again[0] != six[5] || len(f.Pool.Idle) != 3 {
		t.Errorf("the last one is not used again")
	}
	if put(again, false); len(f.Pool.Idle) != 3 {
		t.Errorf("one that failed is kept")
	}
	frozen := take(1)
	frozen[0].Frozen = true
	if put(frozen, true); len(f.Pool.Idle) != 2 {
		t.Errorf("one that sees nothing new is kept")
	}
	old := take(1)
	content, err := os.ReadFile(path)
	if err = errors.Join(err, os.Remove(path), os.WriteFile(path, content, 0o600)); err != nil {
		t.Fatal(err)
	}
	anew := take(1)
	if len(f.Pool.Idle) != 0 || anew[0] == old[0] {
		t.Errorf("%d of the file before are kept", len(f.Pool.Idle))
	}
	if put(old, true); len(f.Pool.Idle) != 0 {
		t.Error("one of the file before is kept")
	}
	if put(anew, true); len(f.Pool.Idle) != 1 {
		t.Error("one of the new file is not kept")
	}
	if f.Pool.Close(); len(f.Pool.Idle) != 0 {
		t.Error("it is not closed")
	}
}

func TestReader_PlaceBeyondEnd(t *testing.T) {
	end := read.Cursor{7, 0}
	if got := read.Beyond(end); !slices.Equal(got, read.Cursor{8, 1}) || !slices.Equal(end, read.Cursor{7, 0}) {
		t.Errorf("behind %v is %v", end, got)
	}
}

// TestKey_IsKeptWithItsLog checks that the key is made once, kept, and moved away
// with its log.
func TestKey_IsKeptWithItsLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	if _, err := audit.VerifierKey(path); !errors.Is(err, activitylog.ErrNoLog) {
		t.Errorf("of no log: %v", err)
	}
	first, made, err := merkle.OpenKey(path, "hubbub/a")
	if err != nil || !made || !strings.HasPrefix(first.Verifier, "hubbub/a+") {
		t.Fatalf("%+v, %t, %v", first, made, err)
	}
	again, made, err := merkle.OpenKey(path, "hubbub/a")
	if err != nil || made || again.Verifier != first.Verifier {
		t.Errorf("again: %+v, %t, %v", again, made, err)
	}
	other, made, err := merkle.OpenKey(path, "hubbub/b")
	if err != nil || !made || other.Verifier == first.Verifier {
		t.Errorf("of another log: %+v, %t, %v", other, made, err)
	}
	if aside, _ := filepath.Glob(merkle.KeyPath(path) + ".*"); len(aside) != 1 {
		t.Errorf("put aside are %v", aside)
	}
	c, err := other.Sign(merkle.Tree{})
	if err != nil || c.SignedBy(other.Verifier) != nil || c.SignedBy(first.Verifier) == nil {
		t.Errorf("%+v, %v", c, err)
	}
	foreign, err := merkle.ParseKey(strings.TrimSpace(logtest.MustRead(t, merkle.KeyPath(path))))
	if err != nil || foreign.Verifier != other.Verifier {
		t.Errorf("%+v, %v", foreign, err)
	}
	c.Note = strings.Replace(c.Note, "hubbub/b\n", "hubbub/c\n", 1)
	if c.SignedBy(other.Verifier) == nil {
		t.Error("what was not signed is said to be")
	}
	for _, text := range []string{"", "x", "PRIVATE+KEY+name+00000000+AA=="} {
		if k, err := merkle.ParseKey(text); err == nil {
			t.Errorf("%q is the key %+v", text, k)
		}
	}
}

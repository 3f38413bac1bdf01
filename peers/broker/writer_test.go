package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/timetest"
)

// newWriter runs a writer on a database of its own until the test ends.
func newWriter(t *testing.T) *writer {
	t.Helper()
	db, err := store.Open(filepath.Join(t.TempDir(), "broker.db"), Schema)
	if err != nil {
		t.Fatal(err)
	}
	opts := (*Options)(nil).withDefaults()
	w := &writer{
		db: db, jobs: make(chan job, 64),
		opts:         &opts,
		enqueue:      func(*tx, sending) {},
		enqueueSpawn: func(*tx, spawnRequest) {},
		committed:    func(*tx) {},
	}
	if w.state, err = load(t.Context(), db, opts.Now()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- w.run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, db.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// hold keeps the writer busy until the returned channel is closed.
func hold(t *testing.T, w *writer) chan struct{} {
	begun, release := make(chan struct{}), make(chan struct{})
	go w.change(t.Context(), func(*tx) { close(begun); <-release }) //nolint:errcheck // it only holds
	<-begun
	return release
}

// A request on which the program panics fails no other request.
func TestWriter_FailsOnlyTheFaultyRequest(t *testing.T) {
	w := newWriter(t)
	release := hold(t, w)
	var wg sync.WaitGroup
	results := make([]error, 12)
	for i := range results {
		wg.Go(func() {
			results[i] = w.change(t.Context(), func(t *tx) {
				emit(t, collab.EventConversation, fmt.Sprint("conversation:", i), collab.Conversation{ID: fmt.Sprint(i)}, collab.StepMetadata{Digest: "d"})
				switch i {
				case 3:
					panic("a mistake")
				case 7:
					emit(t, collab.EventType[m]{Name: "no.such.type"}, "x:y", m{}, nil)
				}
			})
		})
	}
	for len(w.jobs) < len(results) {
		runtime.Gosched() // until all of them wait for one commit
	}
	close(release)
	wg.Wait()
	for i, err := range results {
		if bad := i == 3 || i == 7; (err != nil) != bad {
			t.Errorf("job %d: %v", i, err)
		}
	}
	again, err := load(t.Context(), w.db, w.opts.Now())
	if err != nil {
		t.Fatal(err)
	}
	again.tables.tx = store.On(t.Context(), w.db)
	stored := again.conversations.list("", "", math.MaxInt)
	if len(stored) != 10 || again.seq != 10 {
		t.Fatalf("%d conversations are stored, up to event %d", len(stored), again.seq)
	}
	if err := w.change(t.Context(), func(tr *tx) {
		if live := tr.conversations.list("", "", math.MaxInt); tr.seq != 10 || !reflect.DeepEqual(live, stored) {
			rules.Must(errors.New("the live state differs from the stored one"))
		}
	}); err != nil {
		t.Error(err)
	}
}

// Waiting requests share a commit.
func TestWriter_SharesACommit(t *testing.T) {
	w := newWriter(t)
	var commits atomic.Int64
	w.committed = func(*tx) { commits.Add(1) }
	release := hold(t, w)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			r := request{from: "cli:will", messageID: protocol.MessageID(fmt.Sprint(i)), content: protocol.CollabRequest{
				Method: "conversation.create", Params: []byte(`{"kind":"group"}`), RequestID: fmt.Sprint(i),
			}}
			if err := w.change(t.Context(), func(t *tx) { answerRequest(t, r) }); err != nil {
				t.Error(err)
			}
		})
	}
	for len(w.jobs) < 50 {
		runtime.Gosched() // until all of them wait
	}
	close(release)
	wg.Wait()
	w.change(t.Context(), func(*tx) {}) //nolint:errcheck // the commits before it are counted then
	if n := commits.Load(); n > 4 {
		t.Errorf("52 jobs took %d commits", n)
	}
}

// TestWriter_BoundsABatch checks that further requests are left to the next batch.
func TestWriter_BoundsABatch(t *testing.T) {
	w := &writer{jobs: make(chan job, 600)}
	for range 300 {
		w.jobs <- job{}
	}
	if first, second := len(w.collect(nil)), len(w.collect([]job{{}})); first != 256 || second != 45 {
		t.Errorf("batches of %d and %d; want 256 and the other 44 beside one", first, second)
	}
	if queueLength != 1024 {
		t.Errorf("%d jobs may wait", queueLength)
	}
}

// TestWriter_RunsDeferredWorkOnce checks that it runs with the next commit or after a second,
// again if the commit fails, and at the stop.
func TestWriter_RunsDeferredWorkOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWriter(t)
		var done atomic.Int64
		later := func() { w.deferToCommit(func(*store.Tx) { done.Add(1) }) }
		want := func(when string, n int64) {
			t.Helper()
			if got := done.Load(); got != n {
				t.Errorf("%s it was done %d times; want %d", when, got, n)
			}
		}
		timetest.Advance(100 * time.Millisecond)
		later()
		timetest.Advance(899 * time.Millisecond)
		want("before a second is over", 0)
		timetest.Advance(time.Millisecond)
		want("after it", 1)
		timetest.Advance(10 * time.Second)
		want("long after it", 1)
		later()
		if err := w.change(t.Context(), func(*tx) {}); err != nil {
			t.Error(err)
		}
		want("with a commit", 2)
		later()
		if err := w.change(t.Context(), func(*tx) { panic("a mistake") }); err == nil {
			t.Error("a mistake is no error")
		}
		want("in a commit that failed", 3)
		timetest.Advance(2 * time.Second)
		want("and after it", 4)
	})
}

// TestWriter_AnswersWaitingJobsOnStop also checks that deferred work is done.
func TestWriter_AnswersWaitingJobsOnStop(t *testing.T) {
	w := newWriter(t)
	other := &writer{db: w.db, opts: w.opts, jobs: make(chan job, 600), enqueue: w.enqueue, enqueueSpawn: w.enqueueSpawn, committed: w.committed, state: w.state}
	jobs, done := make([]job, 600), 0
	for i := range jobs {
		jobs[i] = job{func(*tx) {}, make(chan error, 1)}
		other.jobs <- jobs[i]
	}
	other.deferToCommit(func(*store.Tx) { done++ })
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := other.run(ctx); err != nil || done != 1 {
		t.Errorf("%v, done %d times", err, done)
	}
	refused := 0
	for i, j := range jobs {
		select {
		case err := <-j.done:
			if errors.Is(err, errStopping) {
				refused++
			} else if err != nil {
				t.Error(err)
			}
		default:
			t.Fatalf("job %d is not answered", i)
		}
	}
	if len(other.jobs) != 0 {
		t.Errorf("%d jobs are left, %d refused", len(other.jobs), refused)
	}
}

// TestWriter_ReportsAChangeOnlyWhenDurable also covers callers that no longer wait and callers
// without room.
func TestWriter_ReportsAChangeOnlyWhenDurable(t *testing.T) {
	w := &writer{jobs: make(chan job, 1)} // the writer does not run
	ctx, stop := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- w.change(ctx, func(*tx) {}) }()
	for len(w.jobs) == 0 {
		runtime.Gosched()
	}
	stop()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("a job that waits: %v", err)
	}
	if err := w.change(ctx, func(*tx) {}); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "the broker is busy") {
		t.Errorf("a job without room: %v", err)
	}
	why := errors.New("why")
	go func() { result <- w.change(t.Context(), func(*tx) {}) }()
	(<-w.jobs).done <- nil // of the first
	(<-w.jobs).done <- why
	if err := <-result; !errors.Is(err, why) {
		t.Errorf("a job that failed: %v", err)
	}
}

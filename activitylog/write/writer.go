package write

import (
	"context"
	"errors"
	"sync"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol/defaults"
	"hubbub/protocol/notify"

	"github.com/rs/zerolog"
)

// Options are the optional settings of a Writer. Nil is valid.
type Options struct {
	QueueRows  int    `flag:"activity-queue" positive:"65536" usage:"rows that may wait for the activity log"`
	QueueBytes int    `flag:"activity-queue-bytes" positive:"64<<20" usage:"bytes that may wait for the activity log"`
	Required   bool   `flag:"activity-required" usage:"refuse messages while the activity log cannot keep up"`
	Bus        string // name of this bus, for the column `bus`

	// Hold is how long Append waits for a slow commit that has not failed.
	Hold time.Duration `flag:"activity-hold" positive:"5s" usage:"how long publishers wait for a commit of the activity log that takes long, before rows are lost"`

	// MaxWAL bounds the write-ahead log, in bytes, while a reader keeps a transaction open.
	// At the bound nothing is written until the reader ends, as on a full disk.
	MaxWAL int64 `flag:"activity-wal" positive:"4<<30" usage:"bytes that the activity log's write-ahead file may grow to while a reader keeps it from being cut"`

	// SegmentRows, SegmentBytes and SegmentAge bound the active segment. When it reaches one of
	// them, it is sealed, and a new one begins.
	SegmentRows  int64         `flag:"activity-segment-rows" positive:"1000000" usage:"rows of the activity log's active segment before it is sealed and a new one begins"`
	SegmentBytes int64         `flag:"activity-segment-bytes" positive:"256<<20" usage:"bytes of the active segment before it is sealed"`
	SegmentAge   time.Duration `flag:"activity-segment-age" positive:"168h" usage:"age of the active segment's first row before it is sealed"`

	// Retention is how much of the log is kept; the zero Retention keeps everything.
	Retention activitylog.Retention

	// StopTimeout bounds a stop after the context of Run has ended, if the disk fails or no rows
	// wait. While rows wait and the disk makes progress, a stop may take longer: each sync may
	// take as long as Hold.
	StopTimeout time.Duration `positive:"5s"`

	// OnStopExtended is called with the new deadline of a stop that takes longer; may be nil.
	OnStopExtended func(until time.Time)

	// OnCommit is called after each commit, in the order of the log. It must not block. The ids
	// of the rows are consecutive. The slice is valid only during the call; its strings and
	// payloads stay valid.
	OnCommit func(firstID int64, rows []activitylog.Row)

	step func(syncs int) // called before each step that syncs, with the number of its syncs; may be nil

	Log *zerolog.Logger // default: no log
}

// A Writer is the only writer of an activity log. Its methods may be called from any goroutine.
type Writer struct {
	path string
	opts Options
	open func() (sink, error)

	wake      notify.Signal // rows are queued
	commits   notify.Signal // rows are committed but not yet durable
	opened    chan struct{} // closed after the first attempt to open the database
	compactor *compactor

	mu          sync.Mutex
	q           queue
	loggedError string
	loggedAt    time.Time
	stop        deadlines
	abandoned   int64 // queued rows that were never written

	// Only the goroutine in Run changes sink, and holds sinkMu to do so. A goroutine that syncs
	// also holds sinkMu.
	sinkMu channelMutex
	sink   sink
}

// deadlines are those of a stop; zero before it begins.
type deadlines struct {
	by       time.Time // if the disk fails or no rows wait
	extended time.Time // time until which the program is known to wait
}

// A channelMutex is a lock that may be held while the disk is slow. Unlike a goroutine that waits
// for a sync.Mutex, one that waits for a channel is durably blocked for package synctest.
type channelMutex chan struct{}

func (m channelMutex) Lock() { m <- struct{}{} }

func (m channelMutex) Unlock() { <-m }

// NewWriter returns a Writer of the log at path, a SQLite database that Run creates if it does
// not exist. It does no I/O.
func NewWriter(path string, opts *Options) *Writer {
	o := defaults.Of(opts)
	defaults.Log(&o.Log)
	w := &Writer{path: path, opts: o, wake: notify.New(), commits: notify.New(), opened: make(chan struct{}),
		sinkMu: make(channelMutex, 1)}
	w.opts.step = w.beginStep
	w.open = func() (sink, error) { return openDatabase(path, &w.opts) }
	w.compactor = &compactor{path: path, retention: o.Retention, log: o.Log, wake: notify.New(), record: w.record}
	return w
}

const (
	// linger is how long the first row of a transaction waits for more rows.
	linger = 20 * time.Millisecond
	// retryEvery is the pause before a failed write is repeated.
	retryEvery = 50 * time.Millisecond
	// reopenEvery is how often the writer tries to open the database while no rows wait.
	reopenEvery = time.Second
)

// Run opens the database, creates the schema and writes appended rows until ctx ends. Then it
// writes all queued rows and closes the database, within Options.StopTimeout. If a slow disk
// needs longer, the rest of the work ends with the process, and the next start repeats it.
//
// Run retries if the database cannot be opened or written. Its error says how many rows were
// never written.
func (w *Writer) Run(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.work(ctx)
	}()
	if !w.awaitEnd(ctx, ended) {
		w.leave()
	}
	return w.stopError()
}

// work is Run without a time limit for the disk.
func (w *Writer) work(ctx context.Context) {
	w.openIdle()
	close(w.opened)
	var others sync.WaitGroup
	others.Go(func() { w.settleCommits(ctx) })
	others.Go(func() { w.compactor.run(ctx) })
	w.writeQueued(ctx)
	w.drain(ctx)
	others.Wait()
	if err := errors.Join(w.closeSink(), publishCheckpoint(w.path)); err != nil {
		w.opts.Log.Warn().Err(err).Msg("activity log: not closed cleanly")
	}
}

// Opened returns a channel that is closed after the first attempt to open the database. Rows
// appended before that must wait.
func (w *Writer) Opened() <-chan struct{} { return w.opened }

// writeQueued writes appended rows until ctx ends.
func (w *Writer) writeQueued(ctx context.Context) {
	timer := time.NewTimer(reopenEvery)
	defer timer.Stop()
	for ctx.Err() == nil {
		c, wait := w.next()
		if c != nil {
			w.writeChunk(ctx, c)
			continue
		}
		timer.Reset(wait)
		select {
		case <-w.wake.C():
		case <-timer.C:
			if w.sink == nil {
				w.openIdle()
			} else if w.sink.due() {
				w.rotate()
			} else {
				w.idle()
			}
		case <-ctx.Done():
		}
	}
}

// idle lets the database do its work while no rows wait. Rows that arrived while it waited for
// the disk get the full hold. A success ends an earlier failure, unless rows are not yet durable:
// then their sync decides.
func (w *Writer) idle() {
	began := time.Now()
	if err := w.sink.idle(); err != nil {
		w.failed(err)
		return
	}
	if time.Since(began) > maxLag {
		w.beginStep(1)
	}
	w.mu.Lock()
	durable := w.q.rows == 0
	w.mu.Unlock()
	if durable {
		w.recovered()
	}
}

// openIdle opens the database while no rows wait, so that an error, and its end, are noticed
// early.
func (w *Writer) openIdle() {
	if err := w.ensureOpen(); err != nil {
		w.failed(err)
		return
	}
	w.recovered()
}

// next returns the oldest chunk if it must be written now: it is full, its first row has
// lingered, or a caller waits in Sync. Otherwise it returns how long to wait.
func (w *Writer) next() (*chunk, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &w.q
	if len(q.chunks) > 0 && len(q.chunks[0].rows) < chunkRows && q.settled >= q.syncTo {
		if left := linger - time.Since(q.chunks[0].since); left > 0 {
			return nil, left
		}
	}
	return q.take(), reopenEvery
}

// record appends a row for the compactor, unless the log is closed, and waits until it is
// durable.
func (w *Writer) record(ctx context.Context, row activitylog.Row) error {
	w.mu.Lock()
	closed := w.q.closed
	w.mu.Unlock()
	if closed {
		return errClosed
	}
	w.Append(row)
	return w.Sync(ctx)
}

package activitylog

import (
	"context"
	"sync"
	"time"

	"hubbub/protocol/defaults"

	"github.com/rs/zerolog"
)

// The default bounds of the queue.
const (
	DefaultQueueRows  = 65536
	DefaultQueueBytes = 64 << 20
	DefaultMaxWAL     = int64(4 << 30)
	DefaultHold       = 5 * time.Second
)

// Options are the optional settings of a Writer. Nil is valid.
type Options struct {
	QueueRows  int    // rows that may wait; default DefaultQueueRows
	QueueBytes int    // bytes that may wait; default DefaultQueueBytes
	Required   bool   // Admit refuses while the log cannot keep up
	Bus        string // name of this bus, for the column `bus`

	// Hold is how long Append waits for a commit that takes long, while no error has
	// come of it; default DefaultHold.
	Hold time.Duration

	// MaxWAL bounds the write-ahead log, in bytes, when a reader keeps a
	// transaction open; default 4 GiB. Beyond it nothing is written until the
	// reader ends, as with a full disk.
	MaxWAL int64

	// StopTimeout is how long Run, once its context has ended, tries to write
	// what is queued to a database that does not take it; default 5s.
	StopTimeout time.Duration

	// OnCommit is called after each commit, in the order of the log, by the
	// writing goroutine: it must not block. The ids of rows are consecutive.
	// The slice is valid during the call; the strings and payloads stay valid.
	OnCommit func(firstID int64, rows []Row)

	Log *zerolog.Logger // default: no log
}

// A Writer is the one writer of an activity log. Its methods may be called from
// any goroutine.
type Writer struct {
	path string
	opts Options
	open func() (sink, error)

	wake chan struct{} // capacity 1

	mu sync.Mutex
	q  queue

	// Of the goroutine in Run alone.
	sink        sink
	stopBy      time.Time // when a stop must have ended
	gaveUp      int64     // rows that were queued and not written at the end
	loggedError string
	loggedAt    time.Time
}

// NewWriter makes a writer of the log at path, a SQLite database that Run
// creates if it does not exist. It does no I/O.
func NewWriter(path string, opts *Options) *Writer {
	o := defaults.Of(opts)
	defaults.Positive(&o.QueueRows, DefaultQueueRows)
	defaults.Positive(&o.QueueBytes, DefaultQueueBytes)
	defaults.Positive(&o.MaxWAL, DefaultMaxWAL)
	defaults.Positive(&o.Hold, DefaultHold)
	defaults.Positive(&o.StopTimeout, 5*time.Second)
	defaults.Log(&o.Log)
	w := &Writer{path: path, opts: o, wake: make(chan struct{}, 1)}
	w.open = func() (sink, error) { return openDatabase(path, o.Bus, o.MaxWAL) }
	return w
}

const (
	// linger is how long the first row of a transaction waits for company.
	linger = 20 * time.Millisecond
	// retryEvery is how long the writer waits before it tries a failed write again.
	retryEvery = 50 * time.Millisecond
	// reopenEvery is how often the writer tries to open the database while
	// nothing waits to be written.
	reopenEvery = time.Second
)

// Run opens the database, creates the schema and writes what is appended, until
// ctx ends; then it writes everything that is queued and closes the database.
//
// A database that cannot be opened or written does not end it: it tries again
// until it can. The error tells how many rows were not written in the end.
func (w *Writer) Run(ctx context.Context) error {
	defer func() {
		if err := w.closeSink(); err != nil {
			w.opts.Log.Warn().Err(err).Msg("activity log not closed cleanly")
		}
	}()
	w.openIdle()
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
		case <-w.wake:
		case <-timer.C:
			if w.sink == nil {
				w.openIdle()
			}
		case <-ctx.Done():
		}
	}
	return w.drain(ctx)
}

// openIdle opens the database while no row waits, so that a fault, and its end, is
// known early.
func (w *Writer) openIdle() {
	if err := w.ensureOpen(); err != nil {
		w.failed(err)
		return
	}
	w.recovered()
}

// next takes the oldest chunk when it is time to write it: it is full, or its
// first row has lingered, or somebody syncs. Otherwise it says how long to wait.
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

// signal wakes the writing goroutine.
func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

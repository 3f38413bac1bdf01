package activitylog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// The default bounds of the queue.
const (
	DefaultQueueRows  = 65536
	DefaultQueueBytes = 64 << 20
)

// Options are the optional settings of a Writer. Nil is valid.
type Options struct {
	QueueRows  int    // rows that may wait; default DefaultQueueRows
	QueueBytes int    // bytes that may wait; default DefaultQueueBytes
	Required   bool   // Admit refuses while the log cannot keep up
	Bus        string // name of this bus, for the column `bus`

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
	path        string
	bus         string
	required    bool
	maxRows     int
	maxBytes    int
	maxWAL      int64
	stopTimeout time.Duration
	onCommit    func(firstID int64, rows []Row)
	log         zerolog.Logger
	open        func() (sink, error)

	wake chan struct{} // capacity 1

	mu sync.Mutex
	q  queue

	sink        sink // of the goroutine in Run alone
	loggedError string
	loggedAt    time.Time
}

// NewWriter makes a writer of the log at path, a SQLite database that Run
// creates where it does not exist. It does no I/O.
func NewWriter(path string, opts *Options) *Writer {
	if opts == nil {
		opts = &Options{}
	}
	w := &Writer{
		path:        path,
		bus:         opts.Bus,
		required:    opts.Required,
		maxRows:     positive(opts.QueueRows, DefaultQueueRows),
		maxBytes:    positive(opts.QueueBytes, DefaultQueueBytes),
		maxWAL:      positive(opts.MaxWAL, int64(4<<30)),
		stopTimeout: positive(opts.StopTimeout, 5*time.Second),
		onCommit:    opts.OnCommit,
		log:         zerolog.Nop(),
		wake:        make(chan struct{}, 1),
	}
	if opts.Log != nil {
		w.log = *opts.Log
	}
	w.open = func() (sink, error) { return openDatabase(w.path, w.bus, w.maxWAL) }
	return w
}

func positive[T int | int64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// linger is how long the first row of a transaction waits for company.
const linger = 20 * time.Millisecond

// Run opens the database, creates the schema and writes what is appended, until
// ctx ends; then it writes everything that is queued and closes the database.
//
// A database that cannot be opened or written does not end it: it tries again
// until it can. The error tells how many rows were not written in the end.
func (w *Writer) Run(ctx context.Context) error {
	defer w.closeSink()
	reopen := time.NewTimer(0) // opens before the first row, so that a fault is known early
	defer reopen.Stop()
	for {
		select {
		case <-reopen.C:
			if !w.openIdle() {
				reopen.Reset(reopenEvery)
			}
			continue
		case <-w.wake:
		case <-ctx.Done():
			return w.drain(ctx)
		}
		if w.lingerForCompany(ctx) {
			w.writeQueued(ctx, time.Time{})
		}
	}
}

// reopenEvery is how often the writer tries to open the database while nothing
// waits to be written.
const reopenEvery = time.Second

// openIdle opens the database when no row is there to be written.
func (w *Writer) openIdle() bool {
	if err := w.ensureOpen(); err != nil {
		w.failed(err)
		return false
	}
	w.recovered()
	return true
}

// lingerForCompany waits until a whole chunk waits, somebody syncs, or the
// oldest row has waited for linger. It reports whether there is work to do.
func (w *Writer) lingerForCompany(ctx context.Context) bool {
	for {
		w.mu.Lock()
		left, work := w.lingerLocked()
		w.mu.Unlock()
		if left <= 0 {
			return work
		}
		timer := time.NewTimer(left)
		select {
		case <-w.wake:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return true
		}
	}
}

func (w *Writer) lingerLocked() (left time.Duration, work bool) {
	q := &w.q
	if len(q.chunks) == 0 {
		return 0, q.lost.rows > 0
	}
	if q.flush || len(q.chunks[0].rows) >= chunkRows {
		return 0, true
	}
	return linger - time.Since(q.chunks[0].since), true
}

// writeQueued writes until nothing waits. Without a deadline it never gives up,
// except that it returns when ctx has ended.
func (w *Writer) writeQueued(ctx context.Context, deadline time.Time) {
	for {
		w.mu.Lock()
		c := w.q.take()
		if c == nil {
			w.q.flush = false
		}
		w.mu.Unlock()
		if c == nil {
			return
		}
		w.writeChunk(ctx, c, deadline)
	}
}

// writeChunk writes one chunk, again and again until it is committed.
func (w *Writer) writeChunk(ctx context.Context, c *chunk, deadline time.Time) {
	for {
		first, err := w.tryWrite(c)
		if err == nil {
			w.committed(c, first)
			return
		}
		w.failed(err)
		if ctx.Err() != nil && deadline.IsZero() {
			deadline = time.Now().Add(w.stopTimeout)
		}
		if !deadline.IsZero() && time.Now().After(deadline) {
			w.giveUp()
			return
		}
		w.pause(ctx)
	}
}

// retryEvery is how long the writer waits before it tries a failed write again.
const retryEvery = 50 * time.Millisecond

func (w *Writer) pause(ctx context.Context) {
	done := ctx.Done()
	if ctx.Err() != nil {
		done = nil // draining: the deadline ends it
	}
	timer := time.NewTimer(retryEvery)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-done:
	}
}

func (w *Writer) tryWrite(c *chunk) (first int64, err error) {
	if err := w.ensureOpen(); err != nil {
		return 0, err
	}
	first, err = w.sink.write(c.rows)
	if err != nil && !isBusy(err) {
		w.closeSink() // begin anew with a fresh connection
	}
	return first, err
}

func (w *Writer) ensureOpen() error {
	if w.sink != nil {
		return nil
	}
	s, err := w.open()
	if err != nil {
		return err
	}
	w.sink = s
	return nil
}

func (w *Writer) closeSink() {
	if w.sink == nil {
		return
	}
	if err := w.sink.close(); err != nil {
		w.log.Warn().Err(err).Msg("closing the activity log")
	}
	w.sink = nil
}

// committed accounts for a chunk that is on disk.
func (w *Writer) committed(c *chunk, first int64) {
	if w.onCommit != nil {
		w.onCommit(first, c.rows)
	}
	gaps := int64(0)
	for i := range c.rows {
		if c.rows[i].Event == LogGap {
			gaps++
		}
	}
	w.mu.Lock()
	w.q.totals.Written += int64(len(c.rows))
	w.q.totals.Gaps += gaps
	w.q.totals.Commits++
	w.q.totals.WALBytes = w.sink.walBytes()
	w.q.settle()
	w.q.wakeWaiters()
	w.mu.Unlock()
	w.recovered()
}

// recovered notes that the database takes rows.
func (w *Writer) recovered() {
	w.mu.Lock()
	w.q.reason = ""
	w.mu.Unlock()
	if w.loggedError != "" {
		w.loggedError = ""
		w.log.Info().Str("path", w.path).Msg("the activity log is written again")
	}
}

// failed notes why the writer does not get on, and logs it when it is new or
// a minute old.
func (w *Writer) failed(err error) {
	text := err.Error()
	w.mu.Lock()
	w.q.reason = text
	w.q.totals.Failures++
	w.q.totals.LastError = text
	if w.q.progress.IsZero() {
		w.q.progress = time.Now()
	}
	queued := w.q.rows
	w.mu.Unlock()
	if text == w.loggedError && time.Since(w.loggedAt) < time.Minute {
		return
	}
	w.loggedError, w.loggedAt = text, time.Now()
	w.log.Error().Err(err).Str("path", w.path).Int("queued", queued).
		Msg("the activity log cannot be written; rows wait in memory and routing goes on")
}

// drain writes all that is queued and refuses what comes after.
func (w *Writer) drain(ctx context.Context) error {
	before := w.Stats().Lost
	deadline := time.Now().Add(w.stopTimeout)
	for {
		w.writeQueued(ctx, deadline)
		w.mu.Lock()
		done := w.q.rows == 0
		if done {
			w.q.closed = true
			w.q.wakeWaiters()
		}
		w.mu.Unlock()
		if done {
			break
		}
	}
	if lost := w.Stats().Lost - before; lost > 0 {
		return fmt.Errorf("%d rows could not be written to %s before the end: %s", lost, w.path, w.Stats().LastError)
	}
	return nil
}

// giveUp drops the chunk in flight at the very end.
func (w *Writer) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.q.totals.Lost += int64(len(w.q.inFlight.rows))
	w.q.settle()
	w.q.wakeWaiters()
}

// signal makes the writing goroutine look at the queue.
func (w *Writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Sync waits until every row appended before the call is committed, at most
// until ctx ends. It returns an error when some could not be.
func (w *Writer) Sync(ctx context.Context) error {
	w.mu.Lock()
	target, lost := w.q.appended, w.q.totals.Lost
	w.mu.Unlock()
	for {
		w.mu.Lock()
		q := &w.q
		if q.settled >= target {
			defer w.mu.Unlock()
			if q.totals.Lost > lost {
				return errors.New(q.stallReason())
			}
			return nil
		}
		q.flush = true
		if q.space == nil {
			q.space = make(chan struct{})
		}
		space := q.space
		w.mu.Unlock()
		w.signal()
		select {
		case <-space:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the activity log: %w", ctx.Err())
		}
	}
}

func gapRow(lost gap, at time.Time) Row {
	payload, err := json.Marshal(struct {
		Lost   int64  `json:"lost"`
		Reason string `json:"reason"`
	}{lost.rows, lost.reason})
	if err != nil {
		panic("a gap cannot be marshalled: " + err.Error())
	}
	return Row{At: at.UnixMicro(), Event: LogGap, Payload: payload, Error: lost.reason}
}

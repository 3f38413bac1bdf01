package write

import (
	"errors"
	"fmt"
	"time"
)

// Stats is a snapshot of a Writer's counters, for metrics and readiness.
type Stats struct {
	QueuedRows  int           // appended, not yet durable
	QueuedBytes int           // of these rows
	Lag         time.Duration // since the oldest of these rows was appended
	Stalled     bool          // no progress for 250 ms although rows wait
	Written     int64         // rows committed since the start
	Commits     int64         // transactions
	Failures    int64         // attempts to open or write that failed
	Lost        int64         // rows that could not be queued or written
	Gaps        int64         // log_gap rows committed
	WALBytes    int64         // size of the write-ahead log after the last commit
	LastError   string        // the last failure, even if it has passed
	Failing     bool          // the last failure persists
	Bounds
}

// Bounds are the effective Options that limit the queue and the files.
type Bounds struct {
	MaxRows, MaxBytes int
	MaxWAL            int64
	Hold              time.Duration

	SegmentRows, SegmentBytes int64
	SegmentAge                time.Duration
}

// Stats returns the counters. It does no I/O.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &w.q
	s := q.totals
	s.QueuedRows, s.QueuedBytes = q.rows, q.bytes
	s.Bounds = Bounds{w.opts.QueueRows, w.opts.QueueBytes, w.opts.MaxWAL, w.opts.Hold, w.opts.SegmentRows,
		w.opts.SegmentBytes, w.opts.SegmentAge}
	s.Failing = q.reason != ""
	if c := q.oldest(); c != nil {
		s.Lag = time.Since(c.since)
		s.Stalled = time.Since(q.progress) >= stallAfter
	}
	return s
}

// ErrBehind is wrapped by Admit's errors.
var ErrBehind = errors.New("the activity log cannot keep up")

// Admit returns an error, which wraps ErrBehind, if no new message may start. That happens only
// if Options.Required is set and the log has made no progress for 250 ms, or for 50 ms with a
// queue that is more than half full. The queue then still has room for the rows of admitted
// messages.
func (w *Writer) Admit() error {
	if !w.opts.Required {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &w.q
	if q.closed || q.lost.rows > 0 {
		return fmt.Errorf("%w: %s", ErrBehind, q.stallReason(stallAfter))
	}
	if q.rows == 0 && q.reason == "" {
		return nil
	}
	limit := stallAfter
	if q.rows*2 > w.opts.QueueRows || q.bytes*2 > w.opts.QueueBytes {
		limit = freshProgress
	}
	if time.Since(q.progress) < limit {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrBehind, q.stallReason(stallAfter))
}

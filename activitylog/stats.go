package activitylog

import "time"

// Stats is a picture of a Writer at one moment, for metrics and readiness.
type Stats struct {
	QueuedRows  int           // appended, not yet committed
	QueuedBytes int           // of those
	Lag         time.Duration // since the oldest of those was appended
	Stalled     bool          // no progress for 250 ms although rows wait
	Written     int64         // rows committed since the start
	Commits     int64         // transactions
	Failures    int64         // attempts to open or write that failed
	Lost        int64         // rows that could not be queued or written
	Gaps        int64         // log_gap rows committed
	WALBytes    int64         // size of the write-ahead log after the last commit
	LastError   string        // the last failure, also after it has passed
	Failing     bool          // whether that failure persists
	Bounds
}

// Bounds are the Options in force that bound what waits.
type Bounds struct {
	MaxRows, MaxBytes int
	MaxWAL            int64
	Hold              time.Duration
}

// Stats returns the counters. It does not block on I/O.
func (w *Writer) Stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &w.q
	s := q.totals
	s.QueuedRows, s.QueuedBytes = q.rows, q.bytes
	s.Bounds = Bounds{w.opts.QueueRows, w.opts.QueueBytes, w.opts.MaxWAL, w.opts.Hold}
	s.Failing = q.reason != ""
	if c := q.oldest(); c != nil {
		s.Lag = time.Since(c.since)
		s.Stalled = time.Since(q.progress) >= stallAfter
	}
	return s
}

package activitylog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// drain writes all queued rows and refuses later ones. It makes few, large commits, so
// that the writer of a very slow disk stops in time.
func (w *Writer) drain(ctx context.Context) error {
	if w.sink != nil {
		w.sink.ending()
	}
	for {
		w.mu.Lock()
		w.q.share = len(w.q.chunks)
		c := w.q.take()
		if c == nil {
			w.q.closed = true
			w.q.wakeWaiters()
		}
		w.mu.Unlock()
		if c == nil {
			break
		}
		w.writeChunk(ctx, c)
	}
	if w.gaveUp > 0 {
		return fmt.Errorf("%d rows could not be written to %s before the end: %s", w.gaveUp, w.path, w.Stats().LastError)
	}
	return nil
}

// giveUp drops the chunk in flight and all queued rows.
func (w *Writer) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &w.q
	q.closed = true
	for c := q.inFlight; c != nil; {
		n := len(c.rows) - c.done
		w.gaveUp += int64(n)
		q.totals.Lost += int64(n)
		q.settle(n)
		c = nil
		if len(q.chunks) > 0 {
			c = q.take()
		}
	}
	w.gaveUp += q.lost.rows // counted as lost already
	q.lost = gap{}
	q.wakeWaiters()
}

// mustStop reports whether the time that a stop may take has passed.
func (w *Writer) mustStop(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	if w.stopBy.IsZero() {
		w.stopBy = time.Now().Add(w.opts.StopTimeout)
	}
	return time.Now().After(w.stopBy)
}

// Sync waits until every row appended before the call is committed, at most
// until ctx ends; also the log_gap row of what was lost until now. It returns
// an error when rows were lost meanwhile.
func (w *Writer) Sync(ctx context.Context) error {
	w.mu.Lock()
	if w.q.lost.rows > 0 && !w.q.closed {
		w.q.push([]Row{w.q.takeGap()})
	}
	target, lost := w.q.appended, w.q.totals.Lost
	w.mu.Unlock()
	for {
		w.mu.Lock()
		q := &w.q
		if q.settled >= target {
			defer w.mu.Unlock()
			if q.totals.Lost > lost {
				return errors.New(q.stallReason(w.patienceLocked()))
			}
			return nil
		}
		q.syncTo = max(q.syncTo, target)
		space := q.nextCommit()
		w.mu.Unlock()
		w.signal()
		select {
		case <-space:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the activity log: %w", ctx.Err())
		}
	}
}

package activitylog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// stepTime is how much longer than StopTimeout a stop waits for what the disk is doing.
const stepTime = 5 * time.Second

// writeUntilStop writes what is appended until ctx ends. It returns false if the disk then takes
// longer than a stop may, as the syncs of a new file do on a slow disk. What it does ends with the
// process, and the next start repeats it.
func (w *Writer) writeUntilStop(ctx context.Context) bool {
	written := make(chan struct{})
	go func() {
		defer close(written)
		w.writeQueued(ctx)
	}()
	select {
	case <-written:
		return true
	case <-ctx.Done():
	}
	timer := time.NewTimer(w.opts.StopTimeout + stepTime)
	defer timer.Stop()
	select {
	case <-written:
		return true
	case <-timer.C:
		return false
	}
}

// leave ends a stop although the disk is still at work. Rows that wait are lost. The goroutine that
// writes still uses them.
func (w *Writer) leave() error {
	w.mu.Lock()
	rows := int64(w.q.rows) + w.q.lost.rows
	w.q.closed, w.q.stopping = true, true
	w.q.wakeWaiters()
	w.abandoned += rows
	w.q.totals.Lost += int64(w.q.rows)
	if w.q.totals.LastError == "" {
		w.q.totals.LastError = "the disk is too slow to begin a new file before the stop"
	}
	w.mu.Unlock()
	w.commits.Notify()
	w.opts.Log.Warn().Str("path", w.path).Int64("lost_rows", rows).
		Msg("activity log: the disk is too slow to begin a new file before the stop; the next start continues")
	return w.stopError()
}

// drain writes all queued rows and refuses new ones.
func (w *Writer) drain(ctx context.Context) {
	if w.sink == nil {
		w.openIdle() // committed rows still have to be synced
	}
	for {
		w.mu.Lock()
		c := w.q.take()
		if c == nil {
			w.q.closed, w.q.stopping = true, true
			w.q.wakeWaiters()
		}
		w.mu.Unlock()
		if c == nil {
			break
		}
		w.writeChunk(ctx, c)
	}
	w.commits.Notify()
}

// warnSlowStop logs why a stop takes long.
func (w *Writer) warnSlowStop() {
	w.opts.Log.Warn().Str("path", w.path).Int("queued_rows", w.Stats().QueuedRows).
		Msg("activity log: still stopping: the disk is slow to sync rows or to rename files")
}

// closeTime is the minimum time that closeBy waits.
const closeTime = 200 * time.Millisecond

// closeBy closes the log after its compactor has ended. All rows are durable by then, and the
// next start completes what is left. A disk that takes longer than a stop may take is not waited
// for: closing then ends with the process.
func (w *Writer) closeBy(kept <-chan struct{}, stopBy time.Time) {
	closed := make(chan error, 1)
	go func() {
		<-kept
		closed <- errors.Join(w.closeSink(), publishCheckpoint(w.path))
	}()
	select {
	case err := <-closed:
		if err != nil {
			w.opts.Log.Warn().Err(err).Msg("activity log: not closed cleanly")
		}
	case <-time.After(max(time.Until(stopBy), closeTime)):
		w.opts.Log.Warn().Str("path", w.path).
			Msg("activity log: the disk is too slow to close the log in time; every row is on it, and the next start " +
				"continues")
	}
}

// stopError returns an error if rows were abandoned.
func (w *Writer) stopError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.abandoned == 0 {
		return nil
	}
	return fmt.Errorf("%d rows could not be written to %s before the end: %s", w.abandoned, w.path,
		w.q.totals.LastError)
}

// abandonRows drops the rows that were not written.
func (w *Writer) abandonRows() {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := &w.q
	q.closed = true
	w.abandoned += q.lost.rows // counted as lost already
	q.lost = gap{}
	w.countAbandonedLocked(q.drop())
}

// abandonCommits drops the commits that could not be made durable.
func (w *Writer) abandonCommits() {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.q.written
	w.q.commits = nil
	w.q.settle(n)
	w.countAbandonedLocked(n)
}

func (w *Writer) countAbandonedLocked(rows int) {
	w.abandoned += int64(rows)
	w.q.totals.Lost += int64(rows)
	w.q.wakeWaiters()
}

// mustStop reports whether the time for a stop has passed.
func (w *Writer) mustStop(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopBy.IsZero() {
		w.stopBy = time.Now().Add(w.opts.StopTimeout)
	}
	return time.Now().After(w.stopBy)
}

// Sync waits until every row that was appended before the call is durable, including the log_gap
// row for rows that were lost before. It returns an error if rows are lost meanwhile, or if ctx
// ends.
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
				return errors.New(q.stallReason(w.holdLimitLocked()))
			}
			return nil
		}
		q.syncTo = max(q.syncTo, target)
		space := q.nextCommit()
		w.mu.Unlock()
		w.wake.Notify()
		select {
		case <-space:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the activity log: %w", ctx.Err())
		}
	}
}

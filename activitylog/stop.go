package activitylog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// closeTime is how much longer than a stop may take its last step is waited for.
	closeTime = 200 * time.Millisecond
	// extendEvery is how often a stop checks whether it takes longer.
	extendEvery = time.Second
)

// awaitEnd waits until the writer has ended. It returns false if a stop takes too long.
func (w *Writer) awaitEnd(ctx context.Context, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.beginStopLocked()
	told := w.stopBy.Add(closeTime)
	w.mu.Unlock()
	for {
		until := w.stopUntil()
		left := time.Until(until)
		if left <= 0 {
			return false
		}
		if until.After(told) && time.Until(told) <= 3*extendEvery {
			told = until
			w.extendStop(until)
		}
		timer := time.NewTimer(min(left, extendEvery))
		select {
		case <-ended:
			timer.Stop()
			return true
		case <-timer.C:
		}
	}
}

// extendStop tells that a stop takes longer, and why.
func (w *Writer) extendStop(until time.Time) {
	w.opts.Log.Warn().Str("path", w.path).Int("queued_rows", w.Stats().QueuedRows).Time("until", until).
		Msg("activity log: still stopping: the disk is slow to sync rows or to rename files")
	if w.opts.OnStopExtended != nil {
		w.opts.OnStopExtended(until)
	}
}

// leave ends a stop although the disk is still at work. Rows that wait are lost. The goroutine that
// writes still uses them.
func (w *Writer) leave() {
	w.mu.Lock()
	rows := int64(w.q.rows) + w.q.lost.rows
	w.q.closed, w.q.stopping = true, true
	w.q.wakeWaiters()
	w.abandoned += rows
	w.q.totals.Lost += int64(w.q.rows)
	if rows > 0 && w.q.reason == "" {
		w.q.totals.LastError = "the disk is too slow, or hangs"
	}
	w.mu.Unlock()
	w.commits.Notify()
	text := "the disk is too slow to close the log in time; every row is on it, and the next start continues"
	if rows > 0 {
		text = "the disk is too slow for the stop, or hangs; rows that wait are lost, and the next start continues"
	}
	w.opts.Log.Warn().Str("path", w.path).Int64("lost_rows", rows).Msg("activity log: " + text)
}

// stopUntil returns the deadline of a stop. While rows wait, progress of the disk extends it.
func (w *Writer) stopUntil() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := w.stopBy
	progress := w.q.progress // all rows are durable since then
	if w.q.rows > 0 || w.q.lost.rows > 0 {
		progress = w.holdUntilLocked()
	}
	if progress.After(until) {
		until = progress
	}
	return until.Add(closeTime)
}

// drain writes all queued rows and refuses new ones.
func (w *Writer) drain(ctx context.Context) {
	if w.sink == nil && w.Stats().QueuedRows > 0 {
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

// mustStop reports whether a failing database is no longer waited for.
func (w *Writer) mustStop(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beginStopLocked()
	return time.Now().After(w.stopBy)
}

// beginStopLocked sets the deadline of a stop unless it is set.
func (w *Writer) beginStopLocked() {
	if w.stopBy.IsZero() {
		w.stopBy = time.Now().Add(w.opts.StopTimeout)
	}
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

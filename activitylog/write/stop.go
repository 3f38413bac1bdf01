package write

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/activitylog"
)

const (
	// closeTime is how long a stop waits for its last step after its deadline.
	closeTime = 200 * time.Millisecond
	// extendEvery is how often a stop checks whether its deadline has moved.
	extendEvery = time.Second
)

// awaitEnd waits until the writer has ended. It returns false if the stop takes too long.
func (w *Writer) awaitEnd(ctx context.Context, ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	case <-ctx.Done():
	}
	w.mu.Lock()
	w.beginStopLocked()
	if w.stop.extended.IsZero() {
		w.stop.extended = w.stop.by.Add(closeTime)
	}
	w.mu.Unlock()
	for {
		until := w.stopUntil()
		left := time.Until(until)
		if left <= 0 {
			return false
		}
		w.extendStop(until)
		select {
		case <-ended:
			return true
		case <-time.After(min(left, extendEvery)):
		}
	}
}

// ExtendStop extends a stop of the program until ended is closed, while callers still append rows
// and the log may hold them. The context of Run must end after that.
func (w *Writer) ExtendStop(ended <-chan struct{}) {
	w.mu.Lock()
	w.stop.extended = time.Now().Add(2 * w.opts.StopTimeout)
	w.mu.Unlock()
	for {
		select {
		case <-ended:
			return
		case <-time.After(extendEvery):
			w.extendStop(w.stopUntil())
		}
	}
}

// extendStop reports that a stop takes longer, if what was reported before is about to end.
func (w *Writer) extendStop(until time.Time) {
	w.mu.Lock()
	due := until.After(w.stop.extended) && time.Until(w.stop.extended) <= 3*extendEvery
	if due {
		w.stop.extended = until
	}
	w.mu.Unlock()
	if !due {
		return
	}
	w.opts.Log.Warn().Str("path", w.path).Int("queued_rows", w.Stats().QueuedRows).Time("until", until).
		Msg("activity log: still stopping: the disk is slow to sync rows or to rename files")
	if w.opts.OnStopExtended != nil {
		w.opts.OnStopExtended(until)
	}
}

// leave ends a stop while the disk is still working. Waiting rows are lost. The writing goroutine
// still uses them.
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
	text := "the disk is too slow to close the log in time; all rows are stored, and the next start continues"
	if rows > 0 {
		text = "the disk is too slow for the stop, or hangs; waiting rows are lost, and the next start continues"
	}
	w.opts.Log.Warn().Str("path", w.path).Int64("lost_rows", rows).Msg("activity log: " + text)
}

// stopUntil returns the deadline of a stop. While rows wait, progress of the disk extends it.
func (w *Writer) stopUntil() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	until := w.stop.by
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
		w.openIdle() // committed rows must still be synced
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

// mustStop reports whether the time to wait for a failing database is over.
func (w *Writer) mustStop(ctx context.Context) bool {
	if ctx.Err() == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beginStopLocked()
	return time.Now().After(w.stop.by)
}

// beginStopLocked sets the deadline of a stop if there is none.
func (w *Writer) beginStopLocked() {
	if w.stop.by.IsZero() {
		w.stop.by = time.Now().Add(w.opts.StopTimeout)
	}
}

// Sync waits until every row that was appended before the call is durable, including the log_gap
// row for rows that were lost earlier. It returns an error if rows are lost meanwhile, or if ctx
// ends.
func (w *Writer) Sync(ctx context.Context) error {
	w.mu.Lock()
	if w.q.lost.rows > 0 && !w.q.closed {
		w.q.push([]activitylog.Row{w.q.takeGap()})
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

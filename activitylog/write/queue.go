package write

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"hubbub/activitylog"
)

// chunkRows is the number of rows in a transaction while the disk is fast. The queue consists of
// chunks of this size, so that it grows without copying.
const chunkRows = 2048

const (
	// stallAfter is how long a writer without progress holds publishers, if it has failed or only
	// limits their pace.
	stallAfter = 250 * time.Millisecond
	// maxLag is how long writing the queued rows may take before publishers are held, so that a
	// kill loses at most the last 250 ms.
	maxLag = 50 * time.Millisecond
	// freshProgress is how recent the last commit must be to accept messages into a queue that is
	// more than half full, if the log is required.
	freshProgress = 50 * time.Millisecond
	// keptChunks bounds the empty chunks kept for reuse.
	keptChunks = 8
)

// A chunk holds rows that are written together.
type chunk struct {
	rows    []activitylog.Row
	written int       // rows that are committed
	done    int       // committed rows that are settled
	bytes   int       // of the rows not settled
	gaps    int       // log_gap rows among them
	since   time.Time // when its first row was appended
}

// queue is the part of the Writer that mu guards.
type queue struct {
	chunks   []*chunk // waiting; the last one still takes rows
	inFlight []*chunk // being written, or written and not settled
	free     []*chunk
	commits  []commit // not yet settled
	backlog
	pacing
	appended uint64        // rows accepted since the start
	settled  uint64        // appended rows that are durable, or abandoned at the end
	syncTo   uint64        // a caller of Sync waits until this many rows are settled
	space    chan struct{} // closed at the next commit; nil if nobody waits for it
	closed   bool          // Run has ended; new rows are lost
	stopping bool          // nothing more is written

	lost   gap    // rows lost since the last log_gap row
	totals Stats  // the counters for Stats
	reason string // why the writer makes no progress; empty if it makes progress
}

// backlog is the size of the queue.
type backlog struct {
	rows    int // rows not settled
	bytes   int // of these rows
	written int // how many of these rows are committed
}

// pacing is what is known about the speed of the disk.
type pacing struct {
	progress time.Time // time of the last commit, or when the queue became non-empty
	steps    time.Time // deadline of the current steps of the writer and of its checkpoint
	limit    int       // rows that the writer can write within maxLag; 0 if unknown
	credit   int       // rows that may be queued beyond limit
	slow     bool      // the disk is so slow that publishers are held only when the queue is full
}

// A commit is a part of a chunk that was written and is not yet durable.
type commit struct {
	first int64 // id of the first row
	rows  []activitylog.Row
	gaps  bool // some may be log_gap rows
}

// A gap counts rows that could not be queued.
type gap struct {
	rows   int64
	reason string
}

// TryAppend queues rows, all or none, and reports whether it did. While the writer makes
// progress, the caller must wait if the queue is full, or if its oldest row is about to exceed
// what a kill may lose. TryAppend waits for the given time at most, and then returns false.
//
// If the queue is full and the writer makes no progress, the rows are counted as lost, a log_gap
// row will report them, and TryAppend returns true.
func (w *Writer) TryAppend(wait time.Duration, rows ...activitylog.Row) bool {
	if len(rows) == 0 {
		return true
	}
	size := sizeOf(rows)
	for began := (time.Time{}); ; {
		w.mu.Lock()
		left := w.holdLocked(rows, size)
		if left <= 0 {
			signal := w.enqueueLocked(rows, size)
			w.mu.Unlock()
			if signal {
				w.wake.Notify()
			}
			return true
		}
		now := time.Now()
		if began.IsZero() {
			began = now
		}
		if left = min(left, wait-now.Sub(began)); left <= 0 {
			w.mu.Unlock()
			return false
		}
		space := w.q.nextCommit() // under the lock that announces commits: none is missed
		w.mu.Unlock()
		timer := time.NewTimer(left)
		select {
		case <-space:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// Append queues rows like TryAppend, and waits as long as the caller must. It does not wait for a
// writer that has failed and made no progress for 250 ms, nor longer than Options.Hold for each
// sync of the disk.
func (w *Writer) Append(rows ...activitylog.Row) { w.TryAppend(math.MaxInt64, rows...) }

// holdLocked returns the longest time that the caller must wait for the next commit, or 0.
// Callers wait while the queue is full and the writer may make progress. They also wait while
// more rows are queued than the writer can write in time. After each commit, half as many rows
// may follow, so that the writer catches up and publishers continue.
func (w *Writer) holdLocked(rows []activitylog.Row, size int) time.Duration {
	q := &w.q
	switch {
	case q.rows == 0 || q.closed:
		return 0
	case w.fullLocked(len(rows), size):
		return time.Until(w.holdUntilLocked())
	case !q.slow && q.limit > 0 && q.rows-q.written+len(rows) > q.limit && q.credit <= 0:
		return stallAfter - time.Since(q.progress)
	default:
		return 0
	}
}

// holdUntilLocked returns the time until which callers wait for a writer without progress. An
// operation without an error may still succeed, and each of its syncs may take as long as a
// commit.
func (w *Writer) holdUntilLocked() time.Time {
	q := &w.q
	if q.reason != "" {
		return q.progress.Add(stallAfter)
	}
	until := q.progress.Add(w.opts.Hold)
	if q.steps.After(until) {
		return q.steps
	}
	return until
}

// holdLimitLocked returns how long callers wait for a single sync.
func (w *Writer) holdLimitLocked() time.Duration {
	if w.q.reason != "" {
		return stallAfter
	}
	return w.opts.Hold
}

// beginStep records that the previous step is done, and how many syncs the next step of the
// writer or of its checkpoint needs at most.
func (w *Writer) beginStep(syncs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beginStepLocked(syncs)
}

// beginStepLocked extends the time for steps but never shortens it: the writer may have to wait
// for a concurrent checkpoint.
func (w *Writer) beginStepLocked(syncs int) {
	if until := time.Now().Add(time.Duration(syncs) * w.opts.Hold); until.After(w.q.steps) {
		w.q.steps = until
	}
}

// fullLocked reports whether that many more rows would exceed a bound. An empty queue is never
// full, so no row is too large for it.
func (w *Writer) fullLocked(rows, size int) bool {
	return w.q.rows > 0 && (w.q.rows+rows > w.opts.QueueRows || w.q.bytes+size > w.opts.QueueBytes)
}

// enqueueLocked queues the rows or counts them as lost. It reports whether the writer must be
// notified: a chunk now waits where none waited, or the oldest waiting chunk is now full. Rows in
// flight do not matter.
func (w *Writer) enqueueLocked(rows []activitylog.Row, size int) bool {
	q := &w.q
	admitted := w.opts.Required && rows[0].Of != nil // its message was accepted; Admit refuses the next one
	if q.closed || !admitted && w.fullLocked(len(rows), size) {
		w.countLostLocked(len(rows), q.stallReason(w.holdLimitLocked()))
		return false
	}
	waiting, full := len(q.chunks), q.oldestIsFull()
	if q.lost.rows > 0 {
		q.push([]activitylog.Row{q.takeGap()})
	}
	q.push(rows)
	if q.credit > 0 {
		q.credit -= len(rows)
	}
	return waiting == 0 || !full && q.oldestIsFull()
}

// oldestIsFull reports whether the oldest waiting chunk is full.
func (q *queue) oldestIsFull() bool {
	return len(q.chunks) > 0 && len(q.chunks[0].rows) == chunkRows
}

func (w *Writer) countLostLocked(rows int, reason string) {
	w.q.lost.rows += int64(rows)
	w.q.lost.reason = reason
	w.q.totals.Lost += int64(rows)
}

// push appends rows to the last chunk, or to a new one if that is full.
func (q *queue) push(rows []activitylog.Row) {
	if q.rows == 0 {
		q.progress = time.Now()
	}
	for len(rows) > 0 {
		c := q.tail()
		n := min(len(rows), chunkRows-len(c.rows))
		c.rows = append(c.rows, rows[:n]...)
		size := 0
		for i := range rows[:n] {
			size += rowSize(&rows[i])
			if rows[i].Event == activitylog.LogGap {
				c.gaps++
			}
		}
		c.bytes += size
		q.bytes += size
		q.rows += n
		q.appended += uint64(n)
		rows = rows[n:]
	}
}

// tail returns a chunk that has room.
func (q *queue) tail() *chunk {
	if n := len(q.chunks); n > 0 && len(q.chunks[n-1].rows) < chunkRows {
		return q.chunks[n-1]
	}
	var c *chunk
	if n := len(q.free); n > 0 {
		c, q.free = q.free[n-1], q.free[:n-1]
	} else {
		c = &chunk{rows: make([]activitylog.Row, 0, chunkRows)}
	}
	c.since = time.Now()
	q.chunks = append(q.chunks, c)
	return c
}

// oldest returns the chunk with the oldest unsettled row, or nil.
func (q *queue) oldest() *chunk {
	switch {
	case len(q.inFlight) > 0:
		return q.inFlight[0]
	case len(q.chunks) > 0:
		return q.chunks[0]
	}
	return nil
}

// take returns the oldest waiting chunk and marks it as in flight. It returns nil if none waits.
// If rows were lost after the chunk, it ends with a log_gap row.
func (q *queue) take() *chunk {
	if len(q.chunks) == 0 {
		if q.lost.rows == 0 {
			return nil
		}
		q.push([]activitylog.Row{q.takeGap()})
	}
	c := q.chunks[0]
	q.chunks[0] = nil
	q.chunks = q.chunks[1:]
	q.inFlight = append(q.inFlight, c)
	return c
}

// markWritten records that the next n rows of a chunk were committed with ids from first. It
// derives from the time taken how many rows may wait.
func (q *queue) markWritten(c *chunk, first int64, n int, took time.Duration) {
	q.commits = append(q.commits, commit{first, c.rows[c.written : c.written+n], c.gaps > 0})
	c.written += n
	q.written += n
	if n >= chunkRows { // the writer wrote as fast as it could
		q.limit = int(int64(n) * int64(maxLag) / max(int64(took), 1))
	}
}

// recycle keeps an empty chunk for reuse.
func (q *queue) recycle(c *chunk) {
	clear(c.rows) // release the payloads
	c.rows, c.written, c.done, c.bytes, c.gaps = c.rows[:0], 0, 0, 0, 0
	if len(q.free) < keptChunks && cap(c.rows) == chunkRows {
		q.free = append(q.free, c)
	}
}

// settle removes the oldest n committed rows, which are durable or abandoned.
func (q *queue) settle(n int) {
	q.progress = time.Now()
	q.credit = min(q.credit+n/2, chunkRows)
	for n > 0 {
		c := q.inFlight[0]
		part := min(n, len(c.rows)-c.done)
		size := c.bytes
		if c.done+part < len(c.rows) {
			size = sizeOf(c.rows[c.done : c.done+part])
		}
		q.written -= part
		c.done += part
		c.bytes -= size
		q.bytes -= size
		q.rows -= part
		q.settled += uint64(part)
		n -= part
		if c.done == len(c.rows) {
			q.inFlight[0] = nil
			q.inFlight = q.inFlight[1:]
			q.recycle(c)
		}
	}
}

// drop removes all rows that are not committed, and returns how many.
func (q *queue) drop() (rows int) {
	for _, c := range slices.Concat(q.inFlight, q.chunks) {
		size := sizeOf(c.rows[c.written:])
		rows += len(c.rows) - c.written
		c.rows, c.bytes, q.bytes = c.rows[:c.written], c.bytes-size, q.bytes-size
	}
	q.rows -= rows
	q.settled += uint64(rows)
	q.chunks = nil
	q.inFlight = slices.DeleteFunc(q.inFlight, func(c *chunk) bool { return c.done == len(c.rows) })
	return rows
}

// nextCommit returns a channel that is closed at the next commit.
func (q *queue) nextCommit() <-chan struct{} {
	if q.space == nil {
		q.space = make(chan struct{})
	}
	return q.space
}

// wakeWaiters wakes all goroutines that wait for a commit.
func (q *queue) wakeWaiters() {
	if q.space != nil {
		close(q.space)
		q.space = nil
	}
}

// takeGap returns a log_gap row for the lost rows, and resets their count.
func (q *queue) takeGap() activitylog.Row {
	row := gapRow(q.lost, time.Now())
	q.lost = gap{}
	return row
}

// gapRow returns the log_gap row for a gap.
func gapRow(lost gap, at time.Time) activitylog.Row {
	payload, err := json.Marshal(struct {
		Lost   int64  `json:"lost"`
		Reason string `json:"reason"`
	}{lost.rows, lost.reason})
	if err != nil {
		panic("a gap cannot be marshalled: " + err.Error())
	}
	return activitylog.Row{At: at.UnixMicro(), Event: activitylog.LogGap, Payload: payload, Error: lost.reason}
}

// stallReason returns why rows are lost or messages refused.
func (q *queue) stallReason(after time.Duration) string {
	switch {
	case q.reason != "":
		return q.reason
	case q.closed:
		return "the log was closed"
	default:
		return fmt.Sprintf("the log made no progress for %s", after)
	}
}

// rowOverhead is the memory of a row without its strings, in bytes.
const rowOverhead = 152

// sizeOf returns the size of rows for Options.QueueBytes.
func sizeOf(rows []activitylog.Row) (size int) {
	for i := range rows {
		size += rowSize(&rows[i])
	}
	return size
}

// rowSize returns the size of a row for Options.QueueBytes.
func rowSize(r *activitylog.Row) int {
	return rowOverhead + len(r.MessageID) + len(r.RPCID) + len(r.Actor) + len(r.Topic) +
		len(r.Status) + len(r.Payload) + len(r.Error)
}

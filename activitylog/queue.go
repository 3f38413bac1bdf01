package activitylog

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// chunkRows is how many rows one transaction holds while the disk is fast. Rows wait in chunks of
// this size, so that the queue grows without copying.
const chunkRows = 2048

const (
	// stallAfter is how long the writer may make no progress before publishers stop waiting for
	// it, if it has failed or only sets their pace.
	stallAfter = 250 * time.Millisecond
	// maxLag is how long writing the queued rows may take before publishers are held, so that a
	// kill loses at most the last 250 ms.
	maxLag = 50 * time.Millisecond
	// freshProgress is how recent the last commit must be to accept messages into a queue that is
	// more than half full, if the log is required.
	freshProgress = 50 * time.Millisecond
	// keptChunks is how many empty chunks are kept for reuse.
	keptChunks = 8
)

// A chunk holds rows that are written together.
type chunk struct {
	rows    []Row
	written int       // rows that are committed
	done    int       // committed rows that are settled
	bytes   int       // of the rows that are not settled
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
	syncTo   uint64        // a caller waits in Sync until so many rows are settled
	space    chan struct{} // closed at the next commit; nil if nobody waits for it
	closed   bool          // Run has ended; new rows are lost
	stopping bool          // nothing more is written

	lost   gap    // rows lost since the last log_gap row
	totals Stats  // the counters of it
	reason string // why the writer makes no progress; empty if it does
}

// backlog is what waits.
type backlog struct {
	rows    int // not settled
	bytes   int // of those
	written int // of those rows, the ones that are committed
}

// pacing is what commits have taught about the speed of the disk.
type pacing struct {
	progress time.Time // time of the last commit, or when the queue became non-empty
	steps    time.Time // until when the steps that the writer and its checkpoint began may take
	limit    int       // rows that the writer writes within maxLag; 0 if unknown
	credit   int       // rows that may be queued beyond limit
	slow     bool      // the disk is so slow that nobody waits for it before the queue is full
}

// A commit is a part of a chunk that was written and becomes durable next.
type commit struct {
	first int64 // id of the first row
	rows  []Row
	gaps  bool // some may be log_gap rows
}

// A gap counts rows that could not be queued.
type gap struct {
	rows   int64
	reason string
}

// TryAppend queues rows, all or none, and reports whether the caller may continue. It returns
// false only if the caller must wait: the queue is full, or its oldest row is about to exceed
// what a kill may lose, and the writer makes progress. Then nothing was queued, and the caller
// calls Append.
//
// If the queue is full and the writer makes no progress, the rows are counted as lost, a log_gap
// row will report them, and TryAppend returns true. It never blocks.
func (w *Writer) TryAppend(rows ...Row) bool {
	if len(rows) == 0 {
		return true
	}
	size := sizeOf(rows)
	w.mu.Lock()
	if w.holdLocked(rows, size) > 0 {
		w.mu.Unlock()
		return false
	}
	signal := w.enqueueLocked(rows, size)
	w.mu.Unlock()
	if signal {
		w.wake.Notify()
	}
	return true
}

// Append queues rows like TryAppend, and waits where TryAppend would return false. It does not
// wait for a writer that has failed and made no progress for 250 ms, nor longer than Options.Hold
// for each sync of the disk.
func (w *Writer) Append(rows ...Row) {
	for !w.TryAppend(rows...) {
		w.awaitSpace(rows)
	}
}

// awaitSpace waits for the next commit, at most as long as the caller must be held. It decides
// again under the lock that announces commits: the last one may have come since TryAppend.
func (w *Writer) awaitSpace(rows []Row) {
	size := sizeOf(rows)
	w.mu.Lock()
	left := w.holdLocked(rows, size)
	if left <= 0 {
		w.mu.Unlock()
		return
	}
	space := w.q.nextCommit()
	w.mu.Unlock()

	timer := time.NewTimer(left)
	select {
	case <-space:
	case <-timer.C:
	}
	timer.Stop()
}

// holdLocked returns how long the caller has to wait at most for the next commit. It waits while
// the queue is full and the writer makes progress, or may do so. It also waits while more rows
// are queued than the writer keeps up with. Half as many rows as are written may follow, so that
// the writer catches up and publishers keep moving.
func (w *Writer) holdLocked(rows []Row, size int) time.Duration {
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

// holdUntilLocked returns until when the writer is waited for, unless it makes progress: what
// runs without an error may end well. Each sync of the running step may take as long as a commit.
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

// holdLimitLocked is how long a single sync is waited for.
func (w *Writer) holdLimitLocked() time.Duration {
	if w.q.reason != "" {
		return stallAfter
	}
	return w.opts.Hold
}

// beginStep says that the disk has finished what it did before, and how often the next step of the
// writer, or of its checkpoint, syncs at most.
func (w *Writer) beginStep(syncs int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.beginStepLocked(syncs)
}

// beginStepLocked keeps the end of a longer step: a checkpoint runs beside the writer, which may
// then wait for it.
func (w *Writer) beginStepLocked(syncs int) {
	if until := time.Now().Add(time.Duration(syncs) * w.opts.Hold); until.After(w.q.steps) {
		w.q.steps = until
	}
}

// fullLocked reports whether so many more rows would exceed a bound. An empty queue is never
// full, so that no row is too large for it.
func (w *Writer) fullLocked(rows, size int) bool {
	return w.q.rows > 0 && (w.q.rows+rows > w.opts.QueueRows || w.q.bytes+size > w.opts.QueueBytes)
}

// enqueueLocked queues the rows or counts them as lost. It reports whether the
// writer needs a signal: it sleeps while no chunk waits, and lingers while the oldest
// waiting chunk is not full. Rows that are in flight say nothing about that.
func (w *Writer) enqueueLocked(rows []Row, size int) bool {
	q := &w.q
	admitted := w.opts.Required && rows[0].Of != nil // its message was accepted: Admit refuses the next one
	if q.closed || !admitted && w.fullLocked(len(rows), size) {
		w.countLostLocked(len(rows), q.stallReason(w.holdLimitLocked()))
		return false
	}
	waiting, full := len(q.chunks), q.oldestIsFull()
	if q.lost.rows > 0 {
		q.push([]Row{q.takeGap()})
	}
	q.push(rows)
	if q.credit > 0 {
		q.credit -= len(rows)
	}
	return waiting == 0 || !full && q.oldestIsFull()
}

// oldestIsFull reports whether the oldest chunk that is not in flight takes no more rows.
func (q *queue) oldestIsFull() bool {
	return len(q.chunks) > 0 && len(q.chunks[0].rows) == chunkRows
}

func (w *Writer) countLostLocked(rows int, reason string) {
	w.q.lost.rows += int64(rows)
	w.q.lost.reason = reason
	w.q.totals.Lost += int64(rows)
}

// push appends rows to the last chunk, or to a new one when that is full.
func (q *queue) push(rows []Row) {
	if q.rows == 0 {
		q.progress = time.Now()
	}
	for len(rows) > 0 {
		c := q.tail()
		n := min(len(rows), chunkRows-len(c.rows))
		c.rows = append(c.rows, rows[:n]...)
		size := 0
		for i := range rows[:n] {
			size += rows[i].size()
			if rows[i].Event == LogGap {
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
		c = &chunk{rows: make([]Row, 0, chunkRows)}
	}
	c.since = time.Now()
	q.chunks = append(q.chunks, c)
	return c
}

// oldest returns the chunk with the oldest unsettled row; nil if there is none.
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
		q.push([]Row{q.takeGap()})
	}
	c := q.chunks[0]
	q.chunks[0] = nil
	q.chunks = q.chunks[1:]
	q.inFlight = append(q.inFlight, c)
	return c
}

// markWritten takes the next n rows of a chunk, which were committed with ids from first on, and
// learns from the time that it took how many may wait.
func (q *queue) markWritten(c *chunk, first int64, n int, took time.Duration) {
	q.commits = append(q.commits, commit{first, c.rows[c.written : c.written+n], c.gaps > 0})
	c.written += n
	q.written += n
	if n >= chunkRows { // as fast as it can
		q.limit = int(int64(n) * int64(maxLag) / max(int64(took), 1))
	}
}

// recycle keeps an empty chunk for reuse.
func (q *queue) recycle(c *chunk) {
	clear(c.rows) // let go of the payloads
	c.rows, c.written, c.done, c.bytes, c.gaps = c.rows[:0], 0, 0, 0, 0
	if len(q.free) < keptChunks && cap(c.rows) == chunkRows {
		q.free = append(q.free, c)
	}
}

// settle removes the oldest n committed rows: they are durable, or abandoned.
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
func (q *queue) takeGap() Row {
	row := gapRow(q.lost, time.Now())
	q.lost = gap{}
	return row
}

// gapRow returns the log_gap row for a gap.
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

// stallReason says why rows are lost, or messages refused, after so long without progress.
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

package activitylog

import (
	"encoding/json"
	"fmt"
	"time"
)

// chunkRows is how many rows one transaction holds while the disk is quick. Rows
// wait in chunks of this size, so that the queue grows without copying itself.
const chunkRows = 2048

// maxShare is how many chunks share one transaction at most: on a slow disk the
// rows that wait share its delay.
const maxShare = 16

const (
	// stallAfter is how long the writer may make no progress before nobody waits
	// for it any more if it has failed, or for its pace.
	stallAfter = 250 * time.Millisecond
	// maxLag is how long writing the queued rows may take before publishers are
	// held, so that a kill loses at most the last 250 ms.
	maxLag = 50 * time.Millisecond
	// freshProgress is how recent the last commit must be for a log that is
	// required to be trusted with a queue more than half full.
	freshProgress = 50 * time.Millisecond
	// slowCommit is the duration from which a commit makes more chunks share the next.
	slowCommit = 100 * time.Millisecond
	// keptChunks is how many empty chunks are kept for reuse.
	keptChunks = 8
)

// A chunk is a run of rows that is written in one transaction.
type chunk struct {
	rows  []Row
	done  int       // of rows, those that are settled
	bytes int       // of those that are not
	since time.Time // when its first row was appended
}

// queue is the part of the Writer that mu guards.
type queue struct {
	chunks   []*chunk // waiting; the last one still takes rows
	inFlight *chunk   // being written
	free     []*chunk
	rows     int // waiting and in flight
	bytes    int // waiting and in flight
	pacing
	progress time.Time     // of the last commit, or when the queue became non-empty
	appended uint64        // rows accepted since the start
	settled  uint64        // rows of those that are committed, or given up at the end
	syncTo   uint64        // somebody waits in Sync until so many are settled
	space    chan struct{} // closed at the next commit; nil if nobody waits
	closed   bool          // Run has ended; whatever comes is lost

	lost   gap    // rows lost since the last log_gap row
	totals Stats  // the counters of it
	reason string // why the writer makes no progress; empty while it does
}

// pacing is what commits have taught about the disk.
type pacing struct {
	share  int // chunks that one transaction takes; 0 is 1
	limit  int // rows that the writer writes within maxLag; 0 if unknown, or if the disk is too slow
	credit int // rows that may be queued beyond limit
}

// A gap counts the rows that could not be queued.
type gap struct {
	rows   int64
	reason string
}

// TryAppend queues rows, all or none, and reports whether the caller may go on.
// It returns false only when the caller must wait: the queue is full, or its
// oldest row is about to exceed what a kill may lose, and the writer makes
// progress. Then nothing was queued, and the caller calls Append.
//
// When the queue is full and the writer does not get on, the rows are counted
// as lost (a log_gap row will say so) and TryAppend returns true. It never
// blocks, and may be called by any number of goroutines.
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
	signal := w.pushOrLoseLocked(rows, size)
	w.mu.Unlock()
	if signal {
		w.signal()
	}
	return true
}

// Append queues rows like TryAppend, and waits while TryAppend would return
// false. It does not wait for a writer that has failed and made no progress for
// 250 ms, nor longer than Options.Hold for a commit that takes long.
func (w *Writer) Append(rows ...Row) {
	for !w.TryAppend(rows...) {
		w.awaitSpace(rows)
	}
}

// awaitSpace waits for the next commit, at most until nobody need be held. It
// decides anew under the lock under which commits are announced: a commit since
// TryAppend looked may have been the last one.
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

// holdLocked decides whether the caller has to wait for the next commit, and for
// how long at most: while the queue is full and the writer gets on, or may do so; and
// while more waits than the writer keeps up with, though half of what it writes may
// follow, so that it catches up and nobody stands still meanwhile.
func (w *Writer) holdLocked(rows []Row, size int) time.Duration {
	q := &w.q
	switch {
	case q.rows == 0 || q.closed:
		return 0
	case w.fullLocked(len(rows), size):
		return w.patienceLocked() - time.Since(q.progress)
	case q.limit > 0 && q.rows+len(rows) > q.limit && q.credit <= 0:
		return stallAfter - time.Since(q.progress)
	default:
		return 0
	}
}

// patienceLocked is how long after its last progress the writer is waited for: a commit
// that runs without an error may end well.
func (w *Writer) patienceLocked() time.Duration {
	if w.q.reason != "" {
		return stallAfter
	}
	return w.opts.Hold
}

// fullLocked reports whether so many rows more would pass a bound. An empty
// queue is never full, so that no row is too large for it.
func (w *Writer) fullLocked(rows, size int) bool {
	return w.q.rows > 0 && (w.q.rows+rows > w.opts.QueueRows || w.q.bytes+size > w.opts.QueueBytes)
}

// pushOrLoseLocked queues the rows or counts them as lost, and reports whether
// the writer needs a signal.
func (w *Writer) pushOrLoseLocked(rows []Row, size int) bool {
	q := &w.q
	if q.closed || w.fullLocked(len(rows), size) {
		w.loseLocked(len(rows), q.stallReason(w.patienceLocked()))
		return false
	}
	before := q.rows
	if q.lost.rows > 0 {
		q.push([]Row{q.takeGap()})
	}
	q.push(rows)
	if q.credit > 0 {
		q.credit -= len(rows)
	}
	return before == 0 || before/chunkRows != q.rows/chunkRows
}

func (w *Writer) loseLocked(rows int, reason string) {
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
		size := sizeOf(rows[:n])
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

// oldest returns the chunk with the oldest unwritten row; nil if there is none.
func (q *queue) oldest() *chunk {
	switch {
	case q.inFlight != nil:
		return q.inFlight
	case len(q.chunks) > 0:
		return q.chunks[0]
	}
	return nil
}

// take makes the oldest chunk the one in flight and returns it; nil when
// nothing waits. Rows that were lost behind it end it as a log_gap row.
func (q *queue) take() *chunk {
	if len(q.chunks) == 0 {
		if q.lost.rows == 0 {
			return nil
		}
		q.push([]Row{q.takeGap()})
	}
	c := q.chunks[0]
	taken := 1
	for taken < min(q.share, len(q.chunks)) {
		more := q.chunks[taken]
		c.rows = append(c.rows, more.rows...)
		c.bytes += more.bytes
		q.recycle(more)
		taken++
	}
	clear(q.chunks[:taken])
	q.chunks = q.chunks[taken:]
	q.inFlight = c
	return c
}

// pace learns from a commit of n rows how many may wait, and how many chunks
// share the next one.
func (q *queue) pace(n int, took time.Duration) {
	switch {
	case took >= stallAfter:
		q.limit = 0 // nobody waits for such a disk before the queue is full
	case n >= chunkRows: // as fast as it can
		q.limit = int(int64(n) * int64(maxLag) / max(int64(took), 1))
	}
	if took >= slowCommit {
		q.share = min(2*max(q.share, 1), maxShare)
	} else {
		q.share /= 2
	}
}

// recycle keeps a chunk whose rows are settled, or in another one, for reuse.
func (q *queue) recycle(c *chunk) {
	clear(c.rows) // let go of the payloads
	c.rows, c.done, c.bytes = c.rows[:0], 0, 0
	if len(q.free) < keptChunks && cap(c.rows) == chunkRows {
		q.free = append(q.free, c)
	}
}

// settle ends the next n rows of the chunk in flight: committed, or given up.
func (q *queue) settle(n int) {
	c := q.inFlight
	size := c.bytes
	if c.done+n < len(c.rows) {
		size = sizeOf(c.rows[c.done : c.done+n])
	}
	c.done += n
	c.bytes -= size
	q.bytes -= size
	q.rows -= n
	q.settled += uint64(n)
	q.progress = time.Now()
	q.credit = min(q.credit+n/2, chunkRows)
	if c.done < len(c.rows) {
		return
	}
	q.inFlight = nil
	q.recycle(c)
}

// nextCommit returns a channel that is closed at the next commit.
func (q *queue) nextCommit() <-chan struct{} {
	if q.space == nil {
		q.space = make(chan struct{})
	}
	return q.space
}

// wakeWaiters lets everyone who waits for room look again.
func (q *queue) wakeWaiters() {
	if q.space != nil {
		close(q.space)
		q.space = nil
	}
}

// takeGap turns the lost rows into the row that tells of them.
func (q *queue) takeGap() Row {
	row := gapRow(q.lost, time.Now())
	q.lost = gap{}
	return row
}

// gapRow is the row that tells of a gap.
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

// stallReason says why rows are lost, or messages refused, after a time without
// progress.
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

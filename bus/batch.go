package bus

import (
	"runtime"
	"sync"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol/jsonrpc"
)

// A batch lists the sessions that one goroutine has written to. Each is flushed once, just before
// the goroutine waits. A batch belongs to its goroutine.
type batch struct {
	server  *Server
	at      time.Time // when the goroutine last stopped waiting; all input that has arrived by then has this time
	counts  batchCounters
	dirty   []*session
	held    int               // bytes that a fan-out has left for a later flush
	routing *session          // whose message is being routed, with its order locked; nil without a cluster
	parser  jsonrpc.Parser    // for the frames that the reader of a session reads
	rows    []activitylog.Row // scratch
	frame   []byte            // scratch
}

func (srv *Server) newBatch() *batch { return &batch{server: srv, at: time.Now()} }

// batches pools the unused batches. A reader holds one only while it acts, so an idle session
// keeps no scratch memory.
var batches = sync.Pool{New: func() any { return new(batch) }}

// release flushes a batch and returns it to the pool.
func (b *batch) release() {
	b.flush()
	if cap(b.frame) > keptFrame {
		b.frame = nil
	}
	batches.Put(b)
}

// keptFrame is the largest scratch frame that a pooled batch keeps, in bytes.
const keptFrame = 16 << 10

// now returns b.at in the form of the activity log.
func (b *batch) now() int64 { return b.at.UnixMicro() }

// touch notes that a session was written to. If another batch has already noted it, that batch
// flushes the session.
func (b *batch) touch(s *session) {
	if s.dirty.CompareAndSwap(false, true) {
		b.dirty = append(b.dirty, s)
	}
}

// flush sends what was written. It updates the counters before it sends.
func (b *batch) flush() {
	b.counts.addTo(&b.server.metrics)
	for i, s := range b.dirty {
		s.dirty.Store(false)
		s.stream.Flush()
		b.dirty[i] = nil
		if i%fanOutSlice == fanOutSlice-1 {
			runtime.Gosched()
		}
	}
	b.dirty, b.held = b.dirty[:0], 0
}

// maxHeld is how many bytes fan-outs may leave for a later flush. It bounds the memory that they take
// and how long the first of them waits.
const maxHeld = 2 << 20

// hold reports whether a fan-out of size bytes may be flushed later, together with other
// fan-outs. That is useful if its sender has sent several at once: one system call then sends all
// of them to a subscriber.
func (b *batch) hold(sender *session, size int) bool {
	if sender == nil {
		return false
	}
	input, ok := sender.stream.(inputReporter)
	if !ok || len(b.dirty) == 0 && !input.HasBuffered() {
		return false
	}
	b.held += size
	return b.held <= maxHeld
}

// record appends rows to the activity log, with their secrets removed. If the log makes it wait,
// it flushes first, but not a fan-out that has not waited for long.
func (b *batch) record(rows ...activitylog.Row) {
	if b.server.log == nil {
		return
	}
	for i := range rows {
		r := &rows[i]
		r.Payload, r.Error = b.server.options.Redact.Bytes(r.Payload), b.server.options.Redact.String(r.Error)
	}
	if b.server.log.TryAppend(rows...) {
		return
	}
	b.flush()
	b.server.log.Append(rows...)
	b.at = time.Now()
}

// keep keeps a slice of rows for reuse.
func (b *batch) keep(rows []activitylog.Row) {
	clear(rows)
	b.rows = rows[:0]
	if cap(rows) > 256 {
		b.rows = nil
	}
}

package bus

import (
	"runtime"
	"sync"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// A batch lists the sessions that one goroutine has written to. Each is flushed once, just before
// the goroutine waits. A batch belongs to its goroutine.
type batch struct {
	server *Server
	at     time.Time // when the goroutine last stopped waiting; all input that has arrived by then has this time
	counts batchCounters
	dirty  []*session
	held   int // bytes that fan-outs have left for a later flush
	settling
	routing *session          // the session whose message is being routed, with its order locked; nil without a cluster
	parser  jsonrpc.Parser    // for the frames that the reader of a session reads
	rows    []activitylog.Row // scratch
	frame   []byte            // scratch
}

// A settling holds the deliveries and messages that a peer's answers have ended but that are not
// yet in the log. All answers that arrived together are recorded together, before anything is
// sent.
type settling struct {
	processed []*delivery    // processed by the peer, and still without an outcome
	finished  []*publication // whose last delivery has an outcome
	gathering bool           // more may finish: they are recorded together
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
	b.settle()
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

// maxHeld bounds the bytes that fan-outs may leave for a later flush. It limits their memory and
// how long the first of them waits.
const maxHeld = 4 << 20

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

// maxProcessed is how many answers are recorded together at most.
const maxProcessed = 64

// settle finishes the deliveries that the peer has processed, and then the messages that end with
// them.
func (b *batch) settle() {
	if len(b.processed) == 0 {
		return
	}
	list := b.processed
	b.processed = nil
	if b.server.log != nil {
		rows := b.rows[:0]
		for _, d := range list {
			rows = append(rows, d.finishRow(b, protocol.OutcomeOK, processedResult, ""))
		}
		b.record(rows...)
		b.keep(rows)
	}
	b.gathering = true
	for _, d := range list {
		b.counts.countOutcome(protocol.OutcomeOK)
		d.publication.addOutcome(b, d, protocol.OutcomeOK, "")
	}
	b.gathering = false
	b.conclude()
	clear(list)
	b.processed = list[:0]
}

// conclude records the outcomes of messages and answers their senders.
func (b *batch) conclude() {
	list := b.finished
	b.finished = nil
	rows := b.rows[:0]
	for _, p := range list {
		if p.sender != nil {
			rows = append(rows, p.finishRow(b))
		}
	}
	if len(rows) > 0 {
		b.record(rows...)
		b.keep(rows)
	}
	for _, p := range list {
		p.reply(b)
	}
	clear(list)
	b.finished = list[:0]
}

// maxBatchWait is how long batched fan-outs wait for the log, counted from the arrival of their
// messages. Sent in parts, they take more system calls, and so do their answers.
const maxBatchWait = 250 * time.Millisecond

// record appends rows to the activity log, with their secrets removed. If the log makes it wait,
// it flushes first, unless only a recent fan-out is waiting.
func (b *batch) record(rows ...activitylog.Row) {
	if b.server.log == nil {
		return
	}
	for i := range rows {
		r := &rows[i]
		r.Payload, r.Error = b.server.options.Redact.Bytes(r.Payload), b.server.options.Redact.String(r.Error)
	}
	wait := time.Duration(0)
	if b.held > 0 {
		wait = maxBatchWait - time.Since(b.at)
	}
	if b.server.log.TryAppend(wait, rows...) {
		return
	}
	b.flush()
	b.server.log.Append(rows...)
	b.at = time.Now()
}

// keep keeps a slice of rows for reuse unless it is large. It clears the rows, so that their
// messages can be freed.
func (b *batch) keep(rows []activitylog.Row) {
	clear(rows)
	b.rows = rows[:0]
	if cap(rows) > 256 {
		b.rows = nil
	}
}

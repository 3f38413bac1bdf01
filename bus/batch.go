package bus

import (
	"sync"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol/jsonrpc"
)

// A batch remembers the sessions that one goroutine wrote to, so that each is
// flushed once, just before the goroutine waits. It belongs to that goroutine.
type batch struct {
	server  *Server
	at      time.Time // when its goroutine last stopped waiting; the clock is read once for everything that arrived
	counts  batchCounters
	dirty   []*session
	routing *session          // whose message is being routed, with its order held; nil in a bus that is alone
	parser  jsonrpc.Parser    // for the frames that a session's reader gets
	rows    []activitylog.Row // scratch
	frame   []byte            // scratch
}

func (srv *Server) newBatch() *batch { return &batch{server: srv, at: time.Now()} }

// batches pools the batches that are not in use. A session's reader holds one only
// while it acts, so an idle session keeps no scratch memory.
var batches = sync.Pool{New: func() any { return new(batch) }}

// release flushes a batch and returns it to the pool, before its goroutine waits.
func (b *batch) release() {
	b.flush()
	if cap(b.frame) > keptFrame {
		b.frame = nil
	}
	batches.Put(b)
}

// keptFrame is the largest scratch frame that a pooled batch keeps, in bytes.
const keptFrame = 16 << 10

// now returns b.at as rows store it.
func (b *batch) now() int64 { return b.at.UnixMicro() }

// touch remembers that a session was written to. If another batch has marked the
// session, that batch flushes it.
func (b *batch) touch(s *session) {
	if s.dirty.CompareAndSwap(false, true) {
		b.dirty = append(b.dirty, s)
	}
}

// flush sends what was written. The counters are updated before the data is
// flushed.
func (b *batch) flush() {
	b.counts.addTo(&b.server.metrics)
	for i, s := range b.dirty {
		s.dirty.Store(false)
		s.stream.Flush()
		b.dirty[i] = nil
	}
	b.dirty = b.dirty[:0]
}

// record appends rows to the activity log, without the secrets that they hold. If the
// log makes it wait, it flushes first.
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

// keep takes back a slice of rows, to use it again.
func (b *batch) keep(rows []activitylog.Row) {
	clear(rows)
	b.rows = rows[:0]
	if cap(rows) > 256 {
		b.rows = nil
	}
}

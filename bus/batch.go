package bus

import (
	"sync"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol/jsonrpc"
)

// A batch collects what one goroutine wrote to many sessions, so that each is
// flushed once, just before the goroutine waits. It belongs to one goroutine.
type batch struct {
	server *Server
	at     time.Time // when its goroutine last stopped waiting: the clock is read once for all that came
	counts tally
	dirty  []*session
	parser jsonrpc.Parser    // of a session's reader
	rows   []activitylog.Row // scratch
	frame  []byte            // scratch
}

func (srv *Server) newBatch() *batch { return &batch{server: srv, at: time.Now()} }

// batches are those that no goroutine uses. A session's reader has one only while
// it acts, so that an idle session keeps no scratch.
var batches = sync.Pool{New: func() any { return new(batch) }}

// rest gives a batch back when its goroutine waits.
func (b *batch) rest() {
	b.flush()
	if cap(b.frame) > keptFrame {
		b.frame = nil
	}
	batches.Put(b)
}

// keptFrame is the largest scratch buffer for frames that is kept.
const keptFrame = 16 << 10

// now is the time of the present step, as rows have it.
func (b *batch) now() int64 { return b.at.UnixMicro() }

// touch remembers that a session was written to. A session that another
// goroutine has remembered is left to it.
func (b *batch) touch(s *session) {
	if s.dirty.CompareAndSwap(false, true) {
		b.dirty = append(b.dirty, s)
	}
}

// flush sends what was written. Who reads it finds it counted.
func (b *batch) flush() {
	b.counts.addTo(&b.server.metrics)
	for i, s := range b.dirty {
		s.dirty.Store(false)
		s.stream.Flush()
		b.dirty[i] = nil
	}
	b.dirty = b.dirty[:0]
}

// record appends rows to the activity log. Where the log makes it wait, it
// first sends what was written.
func (b *batch) record(rows ...activitylog.Row) {
	if b.server.log == nil || b.server.log.TryAppend(rows...) {
		return
	}
	b.flush()
	b.server.log.Append(rows...)
	b.at = time.Now()
}

// keep takes a slice of rows back for reuse.
func (b *batch) keep(rows []activitylog.Row) {
	clear(rows)
	b.rows = rows[:0]
	if cap(rows) > 256 {
		b.rows = nil
	}
}

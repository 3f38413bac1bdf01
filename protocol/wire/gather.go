package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// errSlowConsumer ends a stream whose other side takes nothing.
var errSlowConsumer = errors.New("slow consumer: the other side took nothing for the write timeout")

// A gatherConn is a net.Conn that gathers what is written to it. Until start
// it passes everything through, which the handshake needs.
//
// Written bytes wait in pending, whole frames always. flush takes them and tries
// one write that does not block; the rest is left to the drain goroutine. At most
// one of flush and drain writes at a time (busy), so bytes keep their order.
type gatherConn struct {
	net.Conn
	raw          syscall.RawConn // nil where a write cannot be tried without blocking
	writeTimeout time.Duration
	maxBuffered  int
	client       bool          // frames are masked: no close frame can be made here
	beforeWait   func()        // called before each read from the network
	closing      atomic.Bool   // Close is reading
	released     chan struct{} // closed by Close: nobody else reads any more
	input
	output
}

// An output is what was written to a gatherConn and the network has not taken.
type output struct {
	mu       sync.Mutex // guards the fields below
	drained  *sync.Cond // pending shrank, or err was set
	started  bool
	ending   bool    // a close frame was written: no message may follow
	pending  *[]byte // written and not yet taken, from outputs; nil where there is nothing
	closed   bool    // Close was called
	farewell bool    // the drain writes its last words, and then closes the connection
	inFlight int     // bytes taken from pending that the network has not taken yet
	busy     bool    // a flush or the drain is writing
	again    bool    // a flush came while busy
	err      error
	draining sync.WaitGroup
}

// outputs are the buffers that hold nothing: a stream has one only while it has
// something to send.
var outputs = sync.Pool{New: func() any { return new([]byte) }}

// keptOutput is the largest buffer that goes back to outputs.
const keptOutput = 64 << 10

func newGatherConn(conn net.Conn, o *Options) *gatherConn {
	g := &gatherConn{Conn: conn, writeTimeout: o.writeTimeout(), maxBuffered: o.maxBuffered(), released: make(chan struct{})}
	g.drained = sync.NewCond(&g.mu)
	g.beforeWait, g.tryRead = g.flush, g.read
	g.raw = rawOf(conn)
	return g
}

// start begins to gather.
func (g *gatherConn) start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.started = true
}

func (g *gatherConn) waitBelow(limit int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.err == nil && g.bufferedLocked() > limit {
		g.drained.Wait()
	}
	if errors.Is(g.err, errSlowConsumer) {
		return g.err
	}
	return nil
}

// Write takes what the library writes: the handshake, and then whole control
// frames, which are sent at once.
func (g *gatherConn) Write(p []byte) (int, error) {
	g.mu.Lock()
	if !g.started {
		g.mu.Unlock()
		return g.Conn.Write(p)
	}
	if g.err != nil {
		g.mu.Unlock()
		return 0, g.err
	}
	g.ending = g.ending || p[0] == closeFrame
	out := g.pendingLocked()
	*out = append(*out, p...)
	g.mu.Unlock()
	g.flush()
	return len(p), nil
}

// writeMessage gathers a message as one frame.
func (g *gatherConn) writeMessage(first byte, payload []byte) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.err != nil:
		return g.err
	case g.ending:
		return net.ErrClosed
	}
	out := g.pendingLocked()
	*out = appendFrame(*out, first, payload, g.client)
	return nil
}

func (g *gatherConn) pendingLocked() *[]byte {
	if g.pending == nil {
		g.pending = outputs.Get().(*[]byte)
	}
	return g.pending
}

func (g *gatherConn) buffered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bufferedLocked()
}

func (g *gatherConn) bufferedLocked() int {
	if g.pending == nil {
		return g.inFlight
	}
	return len(*g.pending) + g.inFlight
}

// flush sends what is pending, without waiting.
func (g *gatherConn) flush() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.busy {
		g.again = true
		return
	}
	g.busy = true
	for g.pending != nil && g.err == nil {
		chunk := g.takeLocked()
		g.mu.Unlock()
		n, err := g.try(*chunk)
		g.mu.Lock()
		if g.err != nil {
			break // closed meanwhile: no drain begins that Close does not wait for
		}
		g.inFlight -= n
		if err != nil {
			g.breakLocked(err)
			break
		}
		if n < len(*chunk) {
			g.draining.Go(func() { g.drain(chunk, n) })
			return // still busy: the drain goes on
		}
		giveBack(chunk)
		if !g.again {
			break
		}
		g.again = false
	}
	g.doneLocked()
}

func (g *gatherConn) takeLocked() (chunk *[]byte) {
	chunk, g.pending = g.pending, nil
	g.inFlight = len(*chunk)
	return chunk
}

// giveBack keeps a buffer that was sent for whoever has something to send.
func giveBack(chunk *[]byte) {
	if cap(*chunk) <= keptOutput {
		*chunk = (*chunk)[:0]
		outputs.Put(chunk)
	}
}

func (g *gatherConn) doneLocked() {
	g.busy, g.again = false, false
	g.drained.Broadcast()
}

// breakLocked ends the stream after a failed write, its reader's waiting too.
func (g *gatherConn) breakLocked(err error) {
	g.failLocked(err)
	g.Conn.Close() //nolint:errcheck // it ends either way
}

func (g *gatherConn) failLocked(err error) {
	if g.err == nil {
		g.err = err
	}
	g.pending, g.inFlight = nil, 0
	g.drained.Broadcast() // a reader that waits for room must learn of it now
}

// try writes once and returns what the network took. Without a raw connection
// it takes nothing, and the drain does the work.
func (g *gatherConn) try(chunk []byte) (n int, err error) {
	if g.raw == nil {
		return 0, nil
	}
	rawErr := g.raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), chunk)
		return true // never wait here
	})
	if rawErr != nil {
		return 0, rawErr
	}
	if n < 0 {
		n = 0
	}
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return n, err
}

// drain writes what try left, and what came meanwhile, until nothing is left
// or the other side takes nothing for the write timeout.
func (g *gatherConn) drain(chunk *[]byte, sent int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.doneLocked()
	for {
		g.mu.Unlock()
		n, err := g.writeAll((*chunk)[sent:])
		g.mu.Lock()
		if errors.Is(err, errSlowConsumer) {
			g.sayFarewellLocked(*chunk, sent+n)
			return
		}
		if err != nil {
			g.breakLocked(err)
			return
		}
		g.inFlight = 0
		giveBack(chunk)
		if g.pending == nil || g.err != nil {
			return
		}
		chunk, sent = g.takeLocked(), 0
		g.drained.Broadcast()
	}
}

const (
	drainChunk = 64 << 10 // what one write hands to the kernel
	drainLooks = 8        // how often a write timeout is divided to look for progress
)

// writeAll writes b and returns how much the network took. The other side is
// slow once it took nothing for the write timeout. It may read less than the
// kernel wants to have free before that takes more: then the kernel's queue
// shrinks, which counts.
func (g *gatherConn) writeAll(b []byte) (taken int, err error) {
	if g.raw == nil {
		return g.writeAllWatched(b)
	}
	look := g.writeTimeout / drainLooks
	progress := time.Now()
	for taken < len(b) {
		queued := unread(g.raw)
		if err := g.SetWriteDeadline(time.Now().Add(look)); err != nil {
			return taken, err
		}
		n, err := g.Conn.Write(b[taken:min(taken+drainChunk, len(b))])
		taken += n
		g.took(n)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return taken, err
		}
		switch {
		case n > 0 || unread(g.raw) < queued:
			progress = time.Now()
		case time.Since(progress) >= g.writeTimeout:
			return taken, errSlowConsumer
		}
	}
	return taken, g.SetWriteDeadline(time.Time{}) // or it would pass, and the next try fail
}

// took counts n bytes of the drain that the network has taken.
func (g *gatherConn) took(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight -= n
	g.drained.Broadcast()
}

// lastWords are what a slow side still gets, should it read again: the rest of
// the frame that it has a part of, and a close frame with 1008.
func lastWords(frames []byte, sent int) []byte {
	end := 0
	for end < sent {
		end += frameSize(frames[end:])
	}
	const reason = "slow consumer"
	words := bytes.Clone(frames[sent:end])
	words = append(words, closeFrame, byte(2+len(reason)), byte(ClosePolicy>>8), byte(ClosePolicy&0xff))
	return append(words, reason...)
}

// farewellTimeout is the least time that a slow side has to read its last words.
const farewellTimeout = time.Minute

func (g *gatherConn) patience() time.Duration { return max(g.writeTimeout, farewellTimeout) }

// sayFarewellLocked ends the stream for its owner at once and goes on for a
// while to bring the last words out.
func (g *gatherConn) sayFarewellLocked(frames []byte, sent int) {
	if !g.farewell {
		g.partLocked()
	}
	stays := g.farewell
	g.mu.Unlock()
	if stays {
		if _, err := g.Conn.Write(lastWords(frames, sent)); err == nil {
			g.outlast(g.patience())
		}
		g.Conn.Close() //nolint:errcheck // it ends either way
	}
	g.mu.Lock()
}

// outlast keeps the connection until the other side has closed it: were it
// closed here, whatever the other side still sends would make the kernel throw
// away the last words that it has not delivered yet.
func (g *gatherConn) outlast(patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-g.released:
	case <-timer.C:
		return
	}
	g.SetReadDeadline(time.Now().Add(patience)) //nolint:errcheck // the read fails then
	io.Copy(io.Discard, g.Conn)                 //nolint:errcheck // it ends either way
}

// Close closes the connection and wakes a Read that waits for the drain. A
// farewell is left to end by itself.
func (g *gatherConn) Close() error {
	g.mu.Lock()
	farewell := g.farewell
	if !g.closed {
		g.closed = true
		close(g.released)
	}
	g.failLocked(net.ErrClosed)
	g.drained.Broadcast()
	g.mu.Unlock()
	if farewell {
		return nil
	}
	return g.Conn.Close()
}

// cut ends the connection at once, last words or not.
func (g *gatherConn) cut() { g.Conn.Close() } //nolint:errcheck // it ends either way

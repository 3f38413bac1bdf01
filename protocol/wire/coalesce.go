package wire

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// errSlowConsumer ends a stream whose peer has read nothing for too long.
var errSlowConsumer = errors.New("slow consumer: the other side took nothing for the write timeout")

// A coalescingConn is a net.Conn that collects writes and sends them together. Until start is
// called, it writes immediately, as the handshake requires.
//
// Written bytes wait in pending, which always holds whole frames. flush takes them and tries one
// write that does not block; the drain goroutine writes the rest. Only one of flush and drain
// writes at a time (busy), so the bytes keep their order.
type coalescingConn struct {
	net.Conn
	raw          syscall.RawConn // nil if writes cannot be tried without blocking
	writeTimeout time.Duration
	maxBuffered  int
	backlog      *Backlog
	client       bool          // a client masks its frames, so this code cannot make a close frame for it
	beforeWait   func()        // called before each read from the network
	closing      atomic.Bool   // Close has started and reads the input
	released     chan struct{} // closed by Close: no other goroutine reads after that
	input
	output
}

// An output holds written bytes that were not sent.
type output struct {
	mu           sync.Mutex // guards the fields below
	drained      *sync.Cond // pending shrank, or err was set
	started      bool
	ending       bool    // a close frame was written; no message may follow
	pending      *[]byte // written and not sent; from outputs; nil if empty
	closed       bool    // Close was called
	sendingClose bool    // the drain sends the close frame and then closes the connection
	inFlight     int     // bytes taken from pending that have not been sent
	busy         bool    // a flush or the drain is writing
	again        bool    // flush was called while busy
	slow         bool    // the drain is writing: the peer is slow
	counted      int     // bytes of this stream in the backlog
	err          error
	draining     sync.WaitGroup
}

// outputs pools unused buffers. A stream has one only while it has something to send.
var outputs = sync.Pool{New: func() any { return new([]byte) }}

// maxPooledOutput is the size of the largest buffer that is returned to outputs, in bytes.
const maxPooledOutput = 64 << 10

func newCoalescingConn(conn net.Conn, o *Options) *coalescingConn {
	o = o.withDefaults()
	g := &coalescingConn{Conn: conn, writeTimeout: o.WriteTimeout, maxBuffered: o.MaxBuffered, backlog: o.Backlog,
		released: make(chan struct{})}
	g.drained = sync.NewCond(&g.mu)
	g.beforeWait, g.tryRead = g.flush, g.read
	g.raw = rawOf(conn)
	return g
}

// start makes g collect writes.
func (g *coalescingConn) start() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.started = true
}

// waitBelow waits until at most limit bytes wait to be sent, or until none do if the backlog is
// full and this stream is slow.
func (g *coalescingConn) waitBelow(limit int) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.err == nil && (g.bufferedLocked() > limit || g.slow && g.backlog.Full(0)) {
		g.drained.Wait()
	}
	if errors.Is(g.err, errSlowConsumer) {
		return g.err
	}
	return nil
}

// Write is called by the library: during the handshake, and later with whole control frames,
// which it sends immediately.
func (g *coalescingConn) Write(p []byte) (int, error) {
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
	g.countLocked()
	g.mu.Unlock()
	g.flush()
	return len(p), nil
}

// writeMessage adds a message to pending as one frame.
func (g *coalescingConn) writeMessage(first byte, payload []byte) error {
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
	g.countLocked()
	return nil
}

func (g *coalescingConn) pendingLocked() *[]byte {
	if g.pending == nil {
		g.pending = outputs.Get().(*[]byte)
	}
	return g.pending
}

// countLocked updates the backlog while the peer is slow.
func (g *coalescingConn) countLocked() {
	if !g.slow && g.counted == 0 {
		return
	}
	n := 0
	if g.slow {
		n = g.bufferedLocked()
	}
	g.backlog.Add(n - g.counted)
	g.counted = n
}

// isSlow reports whether bytes wait because the network did not accept them immediately.
func (g *coalescingConn) isSlow() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.slow
}

func (g *coalescingConn) buffered() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.bufferedLocked()
}

func (g *coalescingConn) bufferedLocked() int {
	if g.pending == nil {
		return g.inFlight
	}
	return len(*g.pending) + g.inFlight
}

// flush sends pending without waiting.
func (g *coalescingConn) flush() {
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
		n, err := g.tryWrite(*chunk)
		g.mu.Lock()
		if g.err != nil {
			break // Close would not wait for a drain that starts now
		}
		g.inFlight -= n
		if err != nil {
			g.breakLocked(err)
			break
		}
		if n < len(*chunk) {
			g.slow = true
			g.countLocked()
			g.draining.Go(func() { g.drain(chunk, n) })
			return // still busy: the drain writes the rest
		}
		putOutput(chunk)
		if !g.again {
			break
		}
		g.again = false
	}
	g.doneLocked()
}

func (g *coalescingConn) takeLocked() (chunk *[]byte) {
	chunk, g.pending = g.pending, nil
	g.inFlight = len(*chunk)
	return chunk
}

// putOutput returns a sent buffer to outputs.
func putOutput(chunk *[]byte) {
	if cap(*chunk) <= maxPooledOutput {
		*chunk = (*chunk)[:0]
		outputs.Put(chunk)
	}
}

func (g *coalescingConn) doneLocked() {
	g.busy, g.again, g.slow = false, false, false
	g.countLocked()
	g.drained.Broadcast()
}

// breakLocked ends the stream and a pending Read after a failed write.
func (g *coalescingConn) breakLocked(err error) {
	g.failLocked(err)
	g.Conn.Close() //nolint:errcheck // it ends either way
}

func (g *coalescingConn) failLocked(err error) {
	if g.err == nil {
		g.err = err
	}
	g.pending, g.inFlight = nil, 0
	g.countLocked()
	g.drained.Broadcast() // wakes a reader in waitBelow
}

// tryWrite writes once without blocking and returns the number of bytes written. Without a raw
// connection it writes nothing, and the drain writes everything.
func (g *coalescingConn) tryWrite(chunk []byte) (n int, err error) {
	if g.raw == nil {
		return 0, nil
	}
	rawErr := g.raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), chunk)
		return true // never wait
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

// drain writes the bytes that tryWrite left, and bytes written meanwhile, until none are left or
// the peer reads nothing for the write timeout.
func (g *coalescingConn) drain(chunk *[]byte, sent int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.doneLocked()
	for {
		g.mu.Unlock()
		n, err := g.writeAll((*chunk)[sent:])
		g.mu.Lock()
		if errors.Is(err, errSlowConsumer) {
			words := closeFrameIn(*chunk, sent+n)
			*chunk = nil // release the memory while the peer does not read
			g.sendCloseFrameLocked(words)
			return
		}
		if err != nil {
			g.breakLocked(err)
			return
		}
		g.inFlight = 0
		putOutput(chunk)
		if g.pending == nil || g.err != nil {
			return
		}
		chunk, sent = g.takeLocked(), 0
		g.drained.Broadcast()
	}
}

const (
	drainChunk = 64 << 10 // bytes in one write to the kernel
	drainLooks = 8        // progress checks in one write timeout
)

// writeAll writes b and returns the number of bytes that were sent. The peer is slow if it reads
// nothing for the write timeout. It may read less than the kernel needs to accept more bytes; the
// kernel's queue then shrinks, which counts as progress.
func (g *coalescingConn) writeAll(b []byte) (taken int, err error) {
	if g.raw == nil {
		return g.writeAllWatched(b)
	}
	look := g.writeTimeout / drainLooks
	progress := time.Now()
	for taken < len(b) {
		queued := unsentBytes(g.raw)
		if err := g.SetWriteDeadline(time.Now().Add(look)); err != nil {
			return taken, err
		}
		n, err := g.Conn.Write(b[taken:min(taken+drainChunk, len(b))])
		taken += n
		g.countWritten(n)
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return taken, err
		}
		switch {
		case n > 0 || unsentBytes(g.raw) < queued:
			progress = time.Now()
		case time.Since(progress) >= g.writeTimeout:
			return taken, errSlowConsumer
		}
	}
	return taken, g.SetWriteDeadline(time.Time{}) // otherwise it would expire later and fail the next write
}

// countWritten records that the drain has sent n bytes.
func (g *coalescingConn) countWritten(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight -= n
	g.countLocked()
	g.drained.Broadcast()
}

// closeFrameIn returns the last bytes for a slow peer: the rest of a partly sent frame, and a
// close frame with 1008.
func closeFrameIn(frames []byte, sent int) []byte {
	end := 0
	for end < sent {
		end += frameSize(frames[end:])
	}
	const reason = "slow consumer"
	words := make([]byte, 0, end-sent+4+len(reason))
	words = append(words, frames[sent:end]...)
	words = append(words, closeFrame, byte(2+len(reason)), byte(ClosePolicy>>8), byte(ClosePolicy&0xff))
	return append(words, reason...)
}

// minCloseTimeout is the minimum time that a slow peer has to read the close frame.
const minCloseTimeout = time.Minute

func (g *coalescingConn) closeTimeout() time.Duration { return max(g.writeTimeout, minCloseTimeout) }

// sendCloseFrameLocked ends the stream for its owner, and then tries for a while to send the
// close frame. It releases the lock while it sends.
func (g *coalescingConn) sendCloseFrameLocked(words []byte) {
	if !g.sendingClose {
		g.detachLocked()
	}
	stays := g.sendingClose
	g.mu.Unlock()
	if stays {
		if _, err := g.Conn.Write(words); err == nil {
			g.closeAfter(g.closeTimeout())
		}
		g.Conn.Close() //nolint:errcheck // it ends either way
	}
	g.mu.Lock()
}

// closeAfter keeps the connection open until the peer has closed it. If it were closed while the
// peer still sends, the kernel would discard the undelivered close frame.
func (g *coalescingConn) closeAfter(patience time.Duration) {
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

// Close closes the connection and wakes a Read that waits for the drain. While a close frame is
// being sent, the connection closes after it.
func (g *coalescingConn) Close() error {
	g.mu.Lock()
	sending := g.sendingClose
	if !g.closed {
		g.closed = true
		close(g.released)
	}
	g.failLocked(net.ErrClosed)
	g.drained.Broadcast()
	g.mu.Unlock()
	if sending {
		return nil
	}
	return g.Conn.Close()
}

// closeConn closes the connection immediately, even while a close frame is being sent.
func (g *coalescingConn) closeConn() { g.Conn.Close() } //nolint:errcheck // it ends either way

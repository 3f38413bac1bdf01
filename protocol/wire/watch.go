package wire

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// rawOf gives access to the socket of a connection; nil where there is none.
func rawOf(conn net.Conn) syscall.RawConn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// socketUnder is rawOf for the socket below TLS, to look at and not to write to.
func socketUnder(conn net.Conn) syscall.RawConn {
	if t, ok := conn.(*tls.Conn); ok {
		return rawOf(t.NetConn())
	}
	return nil
}

// writeAllWatched is writeAll where no write can be tried without blocking.
func (g *gatherConn) writeAllWatched(b []byte) (taken int, err error) {
	for taken < len(b) {
		n, slow, err := g.writeWatched(b[taken:min(taken+drainChunk, len(b))])
		taken += n
		if slow {
			return taken, errSlowConsumer
		}
		g.took(n)
		if err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// A watch looks after one write to TLS, which cannot go on after a deadline: it
// finds a side that takes nothing while the write still waits, ends the stream
// for its owner, and leaves the write to end by itself, so that the last words
// can follow it.
type watch struct {
	conn     *gatherConn
	socket   syscall.RawConn
	timer    *time.Timer
	queued   int
	progress time.Time
	over     bool // guarded by conn.mu, as is slow
	slow     bool
}

// writeWatched writes b. slow says that the other side took nothing for the
// write timeout meanwhile; n then counts what went out in the end.
func (g *gatherConn) writeWatched(b []byte) (n int, slow bool, err error) {
	w := &watch{conn: g, socket: socketUnder(g.Conn), progress: time.Now()}
	w.queued = unread(w.socket)
	g.mu.Lock()
	w.timer = time.AfterFunc(g.writeTimeout/drainLooks, w.look)
	g.mu.Unlock()
	n, err = g.Conn.Write(b)
	g.mu.Lock()
	defer g.mu.Unlock()
	w.over = true
	w.timer.Stop()
	return n, w.slow, err
}

// look judges a write that is still under way.
func (w *watch) look() {
	g := w.conn
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.over {
		return
	}
	queued := unread(w.socket)
	if queued < w.queued {
		w.progress = time.Now()
	}
	w.queued = queued
	if time.Since(w.progress) < g.writeTimeout {
		w.timer.Reset(g.writeTimeout / drainLooks)
		return
	}
	w.slow = true
	g.partLocked()
}

// partLocked ends the stream for its owner. The connection stays for the last
// words, but for a client, which has none, and where Close was first.
func (g *gatherConn) partLocked() {
	stays := g.err == nil && !g.client
	g.failLocked(errSlowConsumer)
	if !stays {
		g.Conn.Close() //nolint:errcheck // it ends either way
		return
	}
	g.farewell = true
	g.SetReadDeadline(time.Now())                    //nolint:errcheck // wakes the reader
	g.SetWriteDeadline(time.Now().Add(g.patience())) //nolint:errcheck // the write fails then
}

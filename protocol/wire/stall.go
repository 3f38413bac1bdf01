package wire

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"
)

// rawOf returns access to the socket of a connection, or nil if it has none.
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

// socketUnder returns access to the socket below TLS, only for queries.
func socketUnder(conn net.Conn) syscall.RawConn {
	if t, ok := conn.(*tls.Conn); ok {
		return rawOf(t.NetConn())
	}
	return nil
}

// writeAllWatched is writeAll for connections whose writes may block.
func (g *coalescingConn) writeAllWatched(b []byte) (taken int, err error) {
	for taken < len(b) {
		n, slow, err := g.writeWatched(b[taken:min(taken+drainChunk, len(b))])
		taken += n
		if slow {
			return taken, errSlowConsumer
		}
		g.countWritten(n)
		if err != nil {
			return taken, err
		}
	}
	return taken, nil
}

// A stallWatch observes one write to TLS, which cannot continue after a deadline. If the peer
// reads nothing during the write, the watch ends the stream for its owner. It lets the write
// finish, so that the close frame can follow.
type stallWatch struct {
	conn     *coalescingConn
	socket   syscall.RawConn
	timer    *time.Timer
	queued   int
	progress time.Time
	over     bool // guarded by conn.mu, like slow
	slow     bool
}

// writeWatched writes b and returns the number of bytes written. slow is true if the peer read
// nothing for the write timeout during the write.
func (g *coalescingConn) writeWatched(b []byte) (n int, slow bool, err error) {
	w := &stallWatch{conn: g, socket: socketUnder(g.Conn), progress: time.Now()}
	w.queued = unsentBytes(w.socket)
	g.mu.Lock()
	w.timer = time.AfterFunc(g.writeTimeout/drainLooks, w.check)
	g.mu.Unlock()
	n, err = g.Conn.Write(b)
	g.mu.Lock()
	defer g.mu.Unlock()
	w.over = true
	w.timer.Stop()
	return n, w.slow, err
}

// check checks the progress of a write that has not finished.
func (w *stallWatch) check() {
	g := w.conn
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.over {
		return
	}
	queued := unsentBytes(w.socket)
	if queued < w.queued {
		w.progress = time.Now()
	}
	w.queued = queued
	if time.Since(w.progress) < g.writeTimeout {
		w.timer.Reset(g.writeTimeout / drainLooks)
		return
	}
	w.slow = true
	g.detachLocked()
}

// detachLocked ends the stream for its owner. The connection stays open for the close frame,
// except after Close and at a client, which sends none.
func (g *coalescingConn) detachLocked() {
	stays := g.err == nil && !g.client
	g.failLocked(errSlowConsumer)
	if !stays {
		g.Conn.Close() //nolint:errcheck // it ends either way
		return
	}
	g.sendingClose = true
	g.SetReadDeadline(time.Now())                        //nolint:errcheck // wakes the reader
	g.SetWriteDeadline(time.Now().Add(g.closeTimeout())) //nolint:errcheck // the write fails then
}

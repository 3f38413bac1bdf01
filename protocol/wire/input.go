package wire

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

const (
	inputSize    = 32 << 10 // read from a socket at once
	inputSizeTLS = 4 << 10  // kept by each stream that has no socket of its own
)

// inputs are the buffers that hold nothing. A stream on a socket has one only
// while there is something in it, so that an idle one costs none.
var inputs = sync.Pool{New: func() any { return new([inputSize]byte) }}

// An input is what a gatherConn has read from the network and nobody has taken.
type input struct {
	reading sync.Mutex       // held while reading from the network, and by Read
	in      []byte           // not taken yet
	lies    *[inputSize]byte // where in lies; nil where it does not come from inputs
	own     []byte           // where in lies without a socket
	failed  error            // of the last try
	tryRead func(fd uintptr) bool
}

// Read gives what was read, or reads from the network.
func (g *gatherConn) Read(p []byte) (int, error) {
	g.reading.Lock()
	defer g.reading.Unlock()
	if err := g.fillLocked(); err != nil {
		return 0, err
	}
	n := copy(p, g.in)
	g.in = g.in[n:]
	return n, nil
}

// fill reads from the network if all that was read is taken. What was taken
// before is no longer valid.
func (g *gatherConn) fill() error {
	g.reading.Lock()
	defer g.reading.Unlock()
	return g.fillLocked()
}

func (g *gatherConn) fillLocked() error {
	if len(g.in) > 0 {
		return nil
	}
	if err := g.prepareWait(); err != nil {
		return err
	}
	if g.closing.Load() {
		g.lies, g.own = nil, nil // the stream's reader may still look at a frame in it
	}
	if g.lies != nil {
		inputs.Put(g.lies)
		g.lies = nil
	}
	if g.raw != nil {
		if err := g.raw.Read(g.tryRead); err != nil {
			return err
		}
		return g.failed
	}
	if g.own == nil {
		g.own = make([]byte, inputSizeTLS)
	}
	n, err := g.Conn.Read(g.own)
	g.in = g.own[:n]
	if n > 0 {
		return nil
	}
	return err
}

// prepareWait calls beforeWait, and waits while too much is buffered towards
// the other side.
func (g *gatherConn) prepareWait() error {
	g.mu.Lock()
	started := g.started
	g.mu.Unlock()
	switch {
	case !started:
		return nil
	case g.closing.Load():
		g.flush() // Close reads here, while beforeWait is the reader's
	default:
		g.beforeWait()
	}
	return g.waitBelow(g.maxBuffered)
}

// read reads from the socket if there is something to read. It is for
// RawConn.Read, which calls it again when there may be.
func (i *input) read(fd uintptr) bool {
	buffer := inputs.Get().(*[inputSize]byte)
	n, err := syscall.Read(int(fd), buffer[:])
	for errors.Is(err, syscall.EINTR) {
		n, err = syscall.Read(int(fd), buffer[:])
	}
	if err == nil && n > 0 {
		i.lies, i.in, i.failed = buffer, buffer[:n], nil
		return true
	}
	inputs.Put(buffer)
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return false
	case err != nil:
		i.failed = os.NewSyscallError("read", err)
	default:
		i.failed = io.EOF
	}
	return true
}

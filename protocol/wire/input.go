package wire

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

const (
	inputSize    = 32 << 10 // bytes read from a socket at once
	inputSizeTLS = 4 << 10  // size of the read buffer of a stream over TLS
)

// inputs pools unused buffers. A stream on a socket has one only while it has input.
var inputs = sync.Pool{New: func() any { return new([inputSize]byte) }}

// An input holds bytes that were read from the network and not returned.
type input struct {
	reading sync.Mutex       // held while reading from the network, and by Read
	in      []byte           // read but not returned
	lies    *[inputSize]byte // the buffer of in; nil if it is not from inputs
	own     []byte           // the buffer of in, if there is no socket
	failed  error            // of the last read from the socket
	frames  frameParser      // in the bytes that Read returned
	tryRead func(fd uintptr) bool
}

// errTooLarge ends a stream whose peer announced a message that is too large.
var errTooLarge = errors.New("the frame is too large")

// Read returns buffered bytes, or reads from the network. If a message is too large, it returns
// only the header; Close then reads on, to find the peer's close frame.
func (g *coalescingConn) Read(p []byte) (int, error) {
	g.reading.Lock()
	defer g.reading.Unlock()
	if g.frames.exceeded && !g.closing.Load() {
		return 0, errTooLarge
	}
	if err := g.fillLocked(); err != nil {
		return 0, err
	}
	n := copy(p, g.in)
	if !g.closing.Load() {
		n = g.frames.follow(p[:n])
	}
	g.in = g.in[n:]
	return n, nil
}

// fill reads from the network if all earlier input has been returned. Bytes returned before are
// then no longer valid.
func (g *coalescingConn) fill() error {
	g.reading.Lock()
	defer g.reading.Unlock()
	return g.fillLocked()
}

func (g *coalescingConn) fillLocked() error {
	if len(g.in) > 0 {
		return nil
	}
	if err := g.prepareWait(); err != nil {
		return err
	}
	if g.closing.Load() {
		g.lies, g.own = nil, nil // the stream's reader may still use a frame in it
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

// prepareWait calls beforeWait, and waits while too many bytes wait to be sent.
func (g *coalescingConn) prepareWait() error {
	g.mu.Lock()
	started := g.started
	g.mu.Unlock()
	switch {
	case !started:
		return nil
	case g.closing.Load():
		g.flush() // Close is reading; only the reader may call beforeWait
	default:
		g.beforeWait()
	}
	return g.waitBelow(g.maxBuffered)
}

// read reads from the socket. It returns false if there is no input; RawConn.Read then calls it
// again when there may be some.
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

package wire

import (
	"errors"
	"net"
	"sync"

	"hubbub/protocol/jsonrpc"
)

// Pipe returns the two ends of an in-memory stream. A frame can be read as soon as it is written;
// Flush does nothing. Frames written before Close can still be read, and then Read returns the
// CloseError.
func Pipe(o *Options) (a, b jsonrpc.Stream) {
	there, back := newLane(o), newLane(o)
	return &end{in: back, out: there}, &end{in: there, out: back}
}

// A lane is one direction of a pipe.
type lane struct {
	mu     sync.Mutex // guards the fields below
	more   *sync.Cond // frames grew or err was set
	frames [][]byte
	bytes  int
	limit  int
	max    int
	err    error
}

// pipeBound is the number of bytes in a lane above which writes fail.
const pipeBound = 256 << 20

func newLane(o *Options) *lane {
	l := &lane{limit: pipeBound, max: o.withDefaults().MaxFrame}
	l.more = sync.NewCond(&l.mu)
	return l
}

func (l *lane) end(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
		l.more.Broadcast()
	}
}

type end struct {
	in, out    *lane
	beforeWait func()
	closeOnce  sync.Once
}

// BeforeWait sets the function that Read calls before it waits.
func (e *end) BeforeWait(f func()) { e.beforeWait = f }

// Read returns the next frame.
func (e *end) Read() ([]byte, error) {
	l := e.in
	l.mu.Lock()
	if len(l.frames) == 0 && l.err == nil && e.beforeWait != nil {
		l.mu.Unlock()
		e.beforeWait()
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	for len(l.frames) == 0 && l.err == nil {
		l.more.Wait()
	}
	if len(l.frames) == 0 {
		return nil, l.err
	}
	frame := l.frames[0]
	l.frames = l.frames[1:]
	l.bytes -= len(frame)
	if len(frame) > l.max {
		return nil, &CloseError{Code: CloseTooLarge, Reason: "the frame is too large"}
	}
	return frame, nil
}

// Write writes one frame.
func (e *end) Write(frame []byte) error {
	l := e.out
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return net.ErrClosed
	}
	if l.bytes+len(frame) > l.limit {
		return errors.New("the other end of the pipe does not read")
	}
	l.frames = append(l.frames, append([]byte(nil), frame...))
	l.bytes += len(frame)
	l.more.Signal()
	return nil
}

// Flush does nothing: a frame can be read as soon as it is written.
func (e *end) Flush() {}

// Buffered returns the bytes that the other end has not read.
func (e *end) Buffered() int {
	e.out.mu.Lock()
	defer e.out.mu.Unlock()
	return e.out.bytes
}

// Close ends both directions.
func (e *end) Close(code int, reason string) {
	e.closeOnce.Do(func() {
		closed := &CloseError{Code: code, Reason: reason}
		e.out.end(closed)
		e.in.end(closed)
	})
}

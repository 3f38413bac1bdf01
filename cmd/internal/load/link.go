package load

import "net"

// A framing cuts a stream of bytes into frames.
type framing interface {
	// append adds a frame to dst.
	append(dst, frame []byte) []byte
	// next returns the first frame of in and its length in in, or 0 if in contains no whole
	// frame. A nil frame was not a message. next appends a necessary reply to out.
	next(in []byte, out *[]byte) (frame []byte, used int, err error)
}

// A link is one connection of the driver. It belongs to one goroutine. Sent frames are written
// just before the link waits for input.
type link struct {
	net.Conn
	framing framing
	in      []byte // read and not used yet, a part of buffer
	buffer  []byte
	full    bool   // set if the last read filled the buffer
	out     []byte // sent and not written yet

	beforeWait func() error // flush, unless others write to the link, too
}

func newLink(conn net.Conn, f framing, early []byte) *link {
	l := &link{Conn: conn, framing: f, in: early}
	l.beforeWait = l.flush
	return l
}

// send adds a frame to the next write.
func (l *link) send(frame []byte) { l.out = l.framing.append(l.out, frame) }

// flush writes the sent frames.
func (l *link) flush() error {
	if len(l.out) == 0 {
		return nil
	}
	_, err := l.Conn.Write(l.out)
	l.out = l.out[:0]
	return err
}

// next returns the next frame. It is valid until the next call.
func (l *link) next() ([]byte, error) {
	for {
		frame, used, err := l.framing.next(l.in, &l.out)
		if err != nil {
			return nil, err
		}
		l.in = l.in[used:]
		if frame != nil {
			return frame, nil
		}
		if used > 0 {
			continue
		}
		if err := l.beforeWait(); err != nil {
			return nil, err
		}
		if err := l.fill(); err != nil {
			return nil, err
		}
	}
}

const (
	smallestRead = 2 << 10 // room for the answers of a quiet connection
	largestRead  = 64 << 10
)

// fill waits for more input. The buffer doubles when a read fills it, so a busy link reads much
// at once and an idle one uses little memory.
func (l *link) fill() error {
	if l.full && len(l.buffer) < largestRead || len(l.in) >= len(l.buffer)/2 {
		l.buffer = make([]byte, max(smallestRead, 2*len(l.buffer), 2*len(l.in)))
	}
	kept := copy(l.buffer, l.in)
	n, err := l.Conn.Read(l.buffer[kept:])
	l.in = l.buffer[:kept+n]
	l.full = kept+n == len(l.buffer)
	if n > 0 {
		return nil
	}
	return err
}

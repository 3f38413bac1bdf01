package wire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"hubbub/protocol/defaults"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/text"

	"github.com/coder/websocket"
)

// Options are the settings of a stream. Nil is valid.
type Options struct {
	MaxFrame     int           // largest frame to read, in bytes; default 1 MiB
	WriteTimeout time.Duration // a peer that reads nothing for this long is slow; default 10 s
	MaxBuffered  int           // reading stops while more bytes wait to be sent; default 8 MiB

	// Upgrades limits the upgrades that use the processor at once, if it is not nil: each holds a
	// place in it, except while it waits for the network.
	Upgrades chan struct{}

	// Backlog counts the bytes that wait for slow peers, over all streams that share it. It may
	// be nil.
	Backlog *Backlog

	// Cut is closed when streams must end immediately; a slow peer then gets no close frame. It
	// may be nil.
	Cut <-chan struct{}
}

// withDefaults sets the defaults. They are not tags, which would also apply to the Options in
// DialOptions: a client reads larger frames by default.
func (o *Options) withDefaults() *Options {
	d := defaults.Of(o)
	defaults.Positive(&d.MaxFrame, 1<<20)
	defaults.Positive(&d.WriteTimeout, 10*time.Second)
	defaults.Positive(&d.MaxBuffered, 8<<20)
	return &d
}

// A CloseError is the end of a stream by a close frame: that of the peer or, if the peer broke a
// rule, the one to send to it.
type CloseError struct {
	Code   int
	Reason string
}

// Error returns code and reason.
func (e *CloseError) Error() string {
	return fmt.Sprintf("the stream was closed with code %d: %s", e.Code, e.Reason)
}

// CloseCode returns the close code of a CloseError, or 1006 (abnormal closure) for any
// other error.
func CloseCode(err error) int {
	var c *CloseError
	if errors.As(err, &c) {
		return c.Code
	}
	return int(websocket.StatusAbnormalClosure)
}

// The close codes that this package and its users send.
const (
	CloseNormal    = int(websocket.StatusNormalClosure)
	CloseGoingAway = int(websocket.StatusGoingAway)
	CloseProtocol  = int(websocket.StatusProtocolError)
	CloseBinary    = int(websocket.StatusUnsupportedData)
	CloseNotUTF8   = int(websocket.StatusInvalidFramePayloadData)
	ClosePolicy    = int(websocket.StatusPolicyViolation)
	CloseTooLarge  = int(websocket.StatusMessageTooBig)
	CloseTryLater  = int(websocket.StatusTryAgainLater)
)

// A WebSocket is a Stream over one WebSocket connection.
type WebSocket struct {
	conn     *websocket.Conn
	net      *coalescingConn
	in       *bufio.Reader // the library's read buffer; nil if inaccessible
	max      int           // largest frame to read
	maxWrite int           // largest frame that the peer reads; 0 if unknown
	cut      <-chan struct{}

	frame []byte // buffer for frames that the library reads; nil while all frames are read whole
	whole []byte // the last frame that was read whole; a span of the input

	onPing func() // called for each ping of the peer; may be nil

	readMu    sync.Mutex // held to use in and the input directly, and to begin closing
	closeOnce sync.Once
}

var _ jsonrpc.Stream = (*WebSocket)(nil)

func (s *WebSocket) open(conn *websocket.Conn, g *coalescingConn, in *bufio.Reader, o *Options) {
	o = o.withDefaults()
	conn.SetReadLimit(int64(o.MaxFrame))
	g.start()
	s.conn, s.net, s.in, s.max, s.cut = conn, g, in, o.MaxFrame, o.Cut
}

// OnPing sets the function that Read calls for each ping of the peer before it answers. It is for
// streams of Accept.
func (s *WebSocket) OnPing(f func()) { s.onPing = f }

func (s *WebSocket) pinged(context.Context, []byte) bool {
	if s.onPing != nil {
		s.onPing()
	}
	return true
}

// BeforeWait sets what Read calls before it waits.
func (s *WebSocket) BeforeWait(f func()) { s.net.beforeWait = f }

// maxKeptFrame is the largest frame buffer that an idle stream keeps.
const maxKeptFrame = 16 << 10

// Read returns the next text frame.
func (s *WebSocket) Read() ([]byte, error) {
	if s.readWhole() || s.waitForInput() && s.readWhole() {
		return s.whole, nil
	}
	kind, r, err := s.conn.Reader(context.Background())
	if err != nil {
		return nil, s.readError(err)
	}
	if kind != websocket.MessageText {
		return nil, &CloseError{Code: CloseBinary, Reason: "frames must be text"}
	}
	frame := s.frame[:0]
	if cap(frame) > maxKeptFrame {
		frame = nil
	}
	for {
		if len(frame) == cap(frame) {
			frame = append(frame, make([]byte, max(512, len(frame)))...)[:len(frame)]
		}
		n, err := r.Read(frame[len(frame):cap(frame)])
		frame = frame[:len(frame)+n]
		if errors.Is(err, io.EOF) {
			s.frame = frame
			return frame, nil
		}
		if err != nil {
			return nil, s.readError(err)
		}
	}
}

// readWhole reads a message that is complete in the input, which avoids five locks of the
// library. It returns false if there is none, or if Close has started, which reads the input
// itself.
func (s *WebSocket) readWhole() bool {
	if s.in == nil {
		return false
	}
	s.readMu.Lock()
	defer s.readMu.Unlock()
	if s.net.closing.Load() || s.in.Buffered() > 0 {
		return false
	}
	payload, key, size := maskedText(s.net.in)
	if size == 0 || len(payload) > s.max {
		return false
	}
	mask(payload, key)
	s.whole, s.net.in = payload[:len(payload):len(payload)], s.net.in[size:]
	s.frame = nil
	return true
}

// waitForInput waits for input if all input has been returned. The library would wait in deeper
// calls, where the goroutine of an idle stream needs twice the stack.
func (s *WebSocket) waitForInput() bool {
	return s.allSent() && s.net.fill() == nil // the library finds the same error again
}

func (s *WebSocket) allSent() bool {
	if s.in == nil {
		return false
	}
	s.readMu.Lock()
	defer s.readMu.Unlock()
	return !s.net.closing.Load() && s.in.Buffered() == 0 && len(s.net.in) == 0
}

func (s *WebSocket) readError(err error) error {
	var closed websocket.CloseError
	switch {
	case errors.Is(err, websocket.ErrMessageTooBig), errors.Is(err, errTooLarge):
		return &CloseError{Code: CloseTooLarge, Reason: errTooLarge.Error()}
	case errors.As(err, &closed):
		return &CloseError{Code: int(closed.Code), Reason: closed.Reason}
	case errors.Is(s.net.failure(), errSlowConsumer):
		return &CloseError{Code: ClosePolicy, Reason: "slow consumer"}
	}
	return err
}

func (g *coalescingConn) failure() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}

// Write takes one text frame; Flush sends it.
func (s *WebSocket) Write(frame []byte) error { return s.net.writeMessage(wholeText, frame) }

// Flush starts sending what was written.
func (s *WebSocket) Flush() { s.net.flush() }

// MaxWrite returns the largest frame that the peer reads, or 0 if that is unknown. A larger frame
// would end the stream.
func (s *WebSocket) MaxWrite() int { return s.maxWrite }

// Buffered returns the number of bytes that have not been sent.
func (s *WebSocket) Buffered() int { return s.net.buffered() }

// Slow reports whether bytes wait that the network did not accept immediately.
func (s *WebSocket) Slow() bool { return s.net.isSlow() }

// Ping sends a ping and waits for its pong. Another goroutine must be in Read.
func (s *WebSocket) Ping(ctx context.Context) error { return s.conn.Ping(ctx) }

// HasBuffered reports whether more of the peer's input has been read than Read has returned. Only the
// goroutine that calls Read may call it.
func (s *WebSocket) HasBuffered() bool {
	s.readMu.Lock()
	defer s.readMu.Unlock()
	return s.in != nil && !s.net.closing.Load() && (s.in.Buffered() > 0 || len(s.net.in) > 0)
}

// HasUnread reports whether input waits that was not read yet. It may contain a pong.
func (s *WebSocket) HasUnread() bool { return unreadBytes(s.socket()) > 0 }

// HungUp reports whether the other side has closed the connection, even if earlier input
// was not read yet.
func (s *WebSocket) HungUp() bool { return hungUp(s.socket()) }

func (s *WebSocket) socket() syscall.RawConn {
	if s.net.raw != nil {
		return s.net.raw
	}
	return socketUnder(s.net.Conn)
}

// maxReason is the most bytes that a close frame has for a reason.
const maxReason = 123

// closeTimeout is how long Close waits for the other side's close frame.
const closeTimeout = time.Second

// Close sends a close frame, waits at most 1 s for the other side's, and ends
// the connection.
func (s *WebSocket) Close(code int, reason string) {
	s.closeOnce.Do(func() {
		s.readMu.Lock()
		s.net.closing.Store(true)
		s.readMu.Unlock()
		cut := time.AfterFunc(closeTimeout, func() { s.net.Close() }) //nolint:errcheck // it ends either way
		//nolint:errcheck // the stream ends either way
		s.conn.Close(websocket.StatusCode(code), text.Prefix(reason, maxReason))
		cut.Stop()
		s.net.Close() //nolint:errcheck // closed already, as a rule
		s.await()
	})
}

// await waits for the drain, which may try to send the last bytes for a while.
func (s *WebSocket) await() {
	done := make(chan struct{})
	go func() { // ends with the drain, which cut ends as well
		s.net.draining.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-s.cut:
		s.net.closeConn()
		<-done
	}
}

// WriteBinary sends a binary frame, which the protocol forbids, to test the other side.
func (s *WebSocket) WriteBinary(frame []byte) error {
	defer s.Flush()
	return s.net.writeMessage(wholeBinary, frame)
}

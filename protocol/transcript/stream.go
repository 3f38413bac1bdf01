package transcript

import (
	"context"
	"sync"

	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// A streamConn is a Conn over a stream. Its reader goroutine ends with the stream.
type streamConn struct {
	stream jsonrpc.Stream
	binary func([]byte) error
	code   func(error) int
	frames chan []byte
	reader sync.WaitGroup
	err    error
}

// OverStream returns a Conn over a stream. binary sends a binary frame and may be nil; code
// returns the close code for the error that ended the stream.
func OverStream(stream jsonrpc.Stream, binary func([]byte) error, code func(error) int) Conn {
	c := &streamConn{stream: stream, binary: binary, code: code, frames: make(chan []byte, 4096)}
	c.reader.Go(c.readLoop)
	return c
}

func (c *streamConn) readLoop() {
	defer close(c.frames)
	for {
		frame, err := c.stream.Read()
		if err != nil {
			c.err = err
			return
		}
		c.frames <- append([]byte(nil), frame...)
	}
}

// Send sends one frame.
func (c *streamConn) Send(frame []byte, binary bool) error {
	if binary {
		if c.binary == nil {
			return ErrSkipped
		}
		return c.binary(frame)
	}
	err := c.stream.Write(frame)
	c.stream.Flush()
	return err
}

// Close ends the connection and its reader.
func (c *streamConn) Close() {
	c.stream.Close(1000, "")
	for range c.frames { // frees a reader that waits for room
	}
	c.reader.Wait()
}

// Frames returns the frames from the bus.
func (c *streamConn) Frames() <-chan []byte { return c.frames }

// CloseCode returns the WebSocket close code.
func (c *streamConn) CloseCode() int { return c.code(c.err) }

// WebSocket returns a Dialer for the bus at a URL, with a bearer token unless it is
// empty.
func WebSocket(url, token string) Dialer {
	return func(ctx context.Context) (Conn, error) {
		s, err := wire.Dial(ctx, url, &wire.DialOptions{Token: token})
		if err != nil {
			return nil, err
		}
		return OverStream(s, s.WriteBinary, wire.CloseCode), nil
	}
}

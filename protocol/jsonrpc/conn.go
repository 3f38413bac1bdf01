package jsonrpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
)

// ErrClosed is the error of a call whose connection ended before the answer.
var ErrClosed = errors.New("the connection ended before the answer")

// A Handler handles requests and notifications. Conn.Run calls it with one message at a
// time; the message is valid until the Handler returns. A request is answered with
// Conn.Reply or Conn.ReplyError, then or later.
type Handler func(c *Conn, m Message)

// A Conn is one side of a JSON-RPC connection.
type Conn struct {
	stream  Stream
	handler Handler
	parser  Parser // used only by Run

	mu    sync.Mutex // guards the fields below
	calls Calls[chan answer]
	ended bool
}

type answer struct {
	result []byte
	err    error
}

// NewConn returns a connection over a stream. It does not read before Run.
func NewConn(stream Stream, h Handler) *Conn { return &Conn{stream: stream, handler: h} }

// Run reads until the stream ends, and returns the reason. Waiting calls then fail with
// ErrClosed.
func (c *Conn) Run() error {
	defer c.end()
	for {
		frame, err := c.stream.Read()
		if err != nil {
			return err
		}
		m, err := c.parser.Parse(frame)
		if err != nil {
			var refusal *Error
			if !errors.As(err, &refusal) {
				return err
			}
			if m.Kind != KindResponse {
				c.ReplyError(m.ID, refusal)
				continue
			}
			c.complete(m.ID, answer{err: fmt.Errorf("unusable answer: %w", err)})
			continue
		}
		if m.Kind == KindResponse {
			c.complete(m.ID, answerOf(m))
			continue
		}
		c.handler(c, m)
	}
}

func answerOf(m Message) answer {
	if m.Error == nil {
		return answer{result: append([]byte(nil), m.Result...)}
	}
	e := new(Error)
	if err := json.Unmarshal(m.Error, e); err != nil {
		return answer{err: fmt.Errorf("unusable error in an answer: %w", err)}
	}
	return answer{err: e}
}

func (c *Conn) complete(id ID, a answer) {
	n, ok := ParseCallID(id)
	if !ok {
		return
	}
	c.mu.Lock()
	waiting, ok := c.calls.Take(n)
	c.mu.Unlock()
	if ok {
		waiting <- a // it has room for its one answer
	}
}

func (c *Conn) end() {
	c.mu.Lock()
	c.ended = true
	waiting := c.calls.TakeAll()
	c.mu.Unlock()
	for _, ch := range waiting {
		ch <- answer{err: ErrClosed}
	}
}

// Call sends a request and waits for its answer until ctx ends. It returns the JSON of the
// result. The error is an *Error if the other side refused the request, and a *TooLargeError if
// the frame exceeds the other side's limit. Requests of one goroutine are sent in order.
func (c *Conn) Call(ctx context.Context, method string, params []byte) ([]byte, error) {
	ch := make(chan answer, 1)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil, ErrClosed
	}
	id := c.calls.Add(ch)
	c.mu.Unlock()
	frame := AppendRequest(nil, id, method, params)
	if err := checkSize(c.stream, frame); err != nil {
		c.forget(id)
		return nil, err
	}
	if err := c.stream.Write(frame); err != nil {
		c.forget(id)
		return nil, ErrClosed
	}
	c.stream.Flush()
	select {
	case a := <-ch:
		return a.result, a.err
	case <-ctx.Done():
		c.forget(id)
		return nil, context.Cause(ctx)
	}
}

func (c *Conn) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.Take(id)
}

// Reply answers a request. It does nothing if id is nil, as for a notification.
func (c *Conn) Reply(id ID, result []byte) {
	if id != nil {
		c.write(AppendResult(nil, id, result))
	}
}

// ReplyError answers a request with an error. A nil id is written as null.
func (c *Conn) ReplyError(id ID, e *Error) { c.write(AppendError(nil, id, e)) }

// write sends a frame. It ignores errors: they end the stream, which Run reports.
func (c *Conn) write(frame []byte) {
	if c.stream.Write(frame) == nil {
		c.stream.Flush()
	}
}

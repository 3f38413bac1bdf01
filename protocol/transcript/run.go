package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/text"
)

// A Conn is one connection to the bus under test.
type Conn interface {
	Send(frame []byte, binary bool) error
	Close()
	// Frames returns the frames from the bus. The channel is closed when the connection ends.
	Frames() <-chan []byte
	// CloseCode returns the WebSocket close code, after the channel of Frames is closed.
	CloseCode() int
}

// A Dialer opens a connection.
type Dialer func(ctx context.Context) (Conn, error)

// ErrSkipped is the error of a case that cannot run over this kind of connection, such as binary
// frames over a pipe.
var ErrSkipped = errors.New("this kind of connection cannot send binary frames")

// patience is how long a frame may take to arrive.
const patience = time.Minute

// Run runs one case. The error describes the first difference.
func (c *Case) Run(ctx context.Context, dial Dialer) error {
	r := &run{dial: dial, conns: map[string]Conn{}, names: names{}}
	defer r.close()
	for _, s := range c.steps {
		for range s.times {
			if err := r.step(ctx, s); err != nil {
				return fmt.Errorf("-- %s --: %w", s.header, err)
			}
		}
	}
	return nil
}

type run struct {
	dial  Dialer
	conns map[string]Conn
	names names
	pings int
}

func (r *run) close() {
	for _, c := range r.conns {
		c.Close()
	}
}

func (r *run) step(ctx context.Context, s step) error {
	conn, err := r.conn(ctx, s)
	if err != nil {
		return err
	}
	switch s.verb {
	case "send", "binary":
		for _, line := range s.lines {
			if err := conn.Send([]byte(r.names.fill(line)), s.verb == "binary"); err != nil {
				return err
			}
		}
	case "expect":
		return r.expect(ctx, conn, s.lines)
	case "expectAny":
		return r.expectAny(ctx, conn, s.lines, false)
	case "expectAmong":
		return r.expectAny(ctx, conn, s.lines, true)
	case "end":
		conn.Close()
		delete(r.conns, s.conn)
	case "closed":
		return r.closed(ctx, conn, s)
	case "silent":
		return r.silent(ctx, conn)
	}
	return nil
}

func (r *run) conn(ctx context.Context, s step) (Conn, error) {
	if c, ok := r.conns[s.conn]; ok && s.verb != "connect" {
		return c, nil
	}
	c, err := r.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("dialing: %w", err)
	}
	r.conns[s.conn] = c
	return c, nil
}

func (r *run) expect(ctx context.Context, conn Conn, lines []string) error {
	for _, line := range lines {
		frame, err := next(ctx, conn)
		if err != nil {
			return fmt.Errorf("%w; want %s", err, line)
		}
		if err := r.names.match(line, string(frame)); err != nil {
			return fmt.Errorf("%w\n  got  %s\n  want %s", err, text.Cut(string(frame), maxShown), line)
		}
	}
	return nil
}

// expectAny expects frames in any order, and skips others if they are allowed.
func (r *run) expectAny(ctx context.Context, conn Conn, lines []string, others bool) error {
	left := slices.Clone(lines)
	for len(left) > 0 {
		frame, err := next(ctx, conn)
		if err != nil {
			return fmt.Errorf("%w; still want %q", err, left)
		}
		i := slices.IndexFunc(left, func(line string) bool {
			tried := names{}
			for k, v := range r.names {
				tried[k] = v
			}
			if tried.match(line, string(frame)) != nil {
				return false
			}
			r.names = tried
			return true
		})
		switch {
		case i >= 0:
			left = slices.Delete(left, i, i+1)
		case !others:
			return fmt.Errorf("got %s; want one of %q", text.Cut(string(frame), maxShown), left)
		default: // a sender may wait for the answer before it sends the expected frame
			if err := process(conn, frame); err != nil {
				return err
			}
		}
	}
	return nil
}

// process answers a processMessage.
func process(conn Conn, frame []byte) error {
	var m struct {
		ID     json.RawMessage
		Method string
	}
	if json.Unmarshal(frame, &m) != nil || m.Method != protocol.MethodProcessMessage {
		return nil
	}
	return conn.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"processed":true}}`, m.ID), false)
}

// closed ignores frames until the bus closes the connection, and checks its code.
func (r *run) closed(ctx context.Context, conn Conn, s step) error {
	for {
		if _, err := next(ctx, conn); err != nil {
			if !errors.Is(err, errEnded) {
				return err
			}
			if code := conn.CloseCode(); code != s.code {
				return fmt.Errorf("closed with %d; want %d", code, s.code)
			}
			conn.Close()
			delete(r.conns, s.conn)
			return nil
		}
	}
}

// silent sends a ping and expects no other frame before its answer.
func (r *run) silent(ctx context.Context, conn Conn) error {
	r.pings++
	id := fmt.Sprintf(`"silence-%d"`, r.pings)
	if err := conn.Send(jsonrpc.AppendRequestText(nil, id, "ping", "{}"), false); err != nil {
		return err
	}
	return r.expect(ctx, conn, []string{`{"jsonrpc":"2.0","id":` + id + `,"$more":1}`})
}

var errEnded = errors.New("the connection ended")

func next(ctx context.Context, conn Conn) ([]byte, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case frame, ok := <-conn.Frames():
		if !ok {
			return nil, errEnded
		}
		return frame, nil
	case <-timer.C:
		return nil, errors.New("no frame came")
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// maxShown bounds a frame in an error message, in bytes.
const maxShown = 500

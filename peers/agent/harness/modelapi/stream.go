package modelapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/turnloop"
)

// Bounds of an answer.
const (
	maxLine   = 4 << 20
	maxAnswer = 32 << 20
)

// A stream is an answer as it comes. One goroutine reads it.
type stream struct {
	whole    bool // the API ignored the wish for a stream: it answers in one piece
	endpoint *Endpoint
	key      string
	ctx      context.Context
	cancel   context.CancelCauseFunc
	watchdog *time.Timer
	body     io.ReadCloser
	lines    *bufio.Scanner
	taken    int // bytes of the body
}

func (s *stream) start() {
	s.lines = bufio.NewScanner(awake{s})
	s.lines.Buffer(make([]byte, 0, 16<<10), maxLine)
}

var errTooLong = fmt.Errorf("it is longer than %d MiB", maxAnswer>>20)

// awake reads the body as far as it may be long, and resets the watchdog whenever
// the API says something.
type awake struct{ s *stream }

func (a awake) Read(p []byte) (int, error) {
	if a.s.tooLong() {
		return 0, errTooLong
	}
	n, err := a.s.body.Read(p)
	if n > 0 {
		a.s.watchdog.Reset(a.s.endpoint.opts.Idle)
	}
	a.s.taken += n
	return n, err
}

func (s *stream) tooLong() bool { return s.taken > maxAnswer }

// drainLimit is how long the end of an answer may take when all of it has come.
const drainLimit = 250 * time.Millisecond

// drain reads the end of an answer that came whole. A connection whose answer was
// not read to its end is closed, and the next request would wait for a new one.
func (s *stream) drain() {
	s.watchdog.Reset(drainLimit)
	io.CopyN(io.Discard, s.body, 4<<10) //nolint:errcheck // it costs a connection
}

// close ends the request.
func (s *stream) close() {
	s.watchdog.Stop()
	s.cancel(nil)
	s.body.Close() //nolint:errcheck // nothing is left to lose
}

// next returns the data of the next server-sent event, or an answer in one
// piece whole. The error is io.EOF at the end, else *RequestError or the cause
// of the context.
func (s *stream) next() ([]byte, error) {
	if s.whole {
		return s.piece()
	}
	var data []byte
	for s.lines.Scan() {
		line := bytes.TrimSuffix(s.lines.Bytes(), []byte("\r"))
		if len(line) == 0 {
			if data != nil {
				return data, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		if string(field) != "data" {
			continue
		}
		value = bytes.TrimPrefix(value, []byte(" "))
		if len(data)+len(value) > maxLine {
			return nil, s.broken(bufio.ErrTooLong)
		}
		if data == nil {
			data = make([]byte, 0, len(value))
		} else {
			data = append(data, '\n')
		}
		data = append(data, value...)
	}
	if err := s.lines.Err(); err != nil {
		return nil, s.broken(err)
	}
	if s.ctx.Err() != nil {
		return nil, s.broken(context.Cause(s.ctx))
	}
	if data != nil {
		return data, nil
	}
	return nil, io.EOF
}

// piece reads an answer that comes in one piece; io.EOF the second time.
func (s *stream) piece() ([]byte, error) {
	raw, err := io.ReadAll(awake{s})
	if err != nil {
		return nil, s.broken(err)
	}
	if len(raw) == 0 {
		return nil, io.EOF
	}
	return raw, nil
}

// broken makes the error of a stream that ended before its answer did, or that
// is not what the API promises.
func (s *stream) broken(err error) error {
	if cause := context.Cause(s.ctx); cause != nil {
		if !errors.Is(cause, errIdle) {
			return cause
		}
		err = cause
	}
	if s.tooLong() { // what came before may have been cut in the middle of a line
		err = errTooLong
	}
	return &turnloop.RequestError{
		Retry: !errors.Is(err, errTooLong) && !errors.Is(err, bufio.ErrTooLong),
		Err:   fmt.Errorf("the answer of %s broke off: %s", s.endpoint.opts.BaseURL, harness.Redact(err.Error(), s.key)),
	}
}

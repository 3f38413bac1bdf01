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

// A Stream is an answer as it comes. One goroutine reads it.
type Stream struct {
	// Whole: the API ignored the wish for a stream and answers in one piece;
	// read it with All.
	Whole bool

	endpoint *Endpoint
	key      string
	ctx      context.Context
	cancel   context.CancelCauseFunc
	watchdog *time.Timer
	idle     time.Duration
	body     io.ReadCloser
	lines    *bufio.Scanner
}

func (s *Stream) start() {
	s.lines = bufio.NewScanner(io.LimitReader(awake{s}, maxAnswer))
	s.lines.Buffer(make([]byte, 0, 16<<10), maxLine)
}

// awake resets the watchdog whenever the API says something.
type awake struct{ s *Stream }

func (a awake) Read(p []byte) (int, error) {
	n, err := a.s.body.Read(p)
	if n > 0 {
		a.s.watchdog.Reset(a.s.idle)
	}
	return n, err
}

// Close ends the request.
func (s *Stream) Close() {
	s.watchdog.Stop()
	s.cancel(nil)
	s.body.Close() //nolint:errcheck // nothing is left to lose
}

// Next returns the next server-sent event: its name ("" where it has none) and
// its data. The error is io.EOF at the end of the stream, else *RequestError or
// the cause of the context. The data is valid until the next call.
func (s *Stream) Next() (event string, data []byte, err error) {
	var joined []byte
	for s.lines.Scan() {
		line := bytes.TrimSuffix(s.lines.Bytes(), []byte("\r"))
		if len(line) == 0 {
			if joined != nil {
				return event, joined, nil
			}
			event = ""
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			event = string(value)
		case "data":
			if joined != nil {
				joined = append(joined, '\n')
			}
			if len(joined)+len(value) > maxLine {
				return "", nil, s.broken(bufio.ErrTooLong)
			}
			joined = append(append(make([]byte, 0, len(joined)+len(value)), joined...), value...)
		}
	}
	if err := s.lines.Err(); err != nil {
		return "", nil, s.broken(err)
	}
	if s.ctx.Err() != nil {
		return "", nil, s.broken(context.Cause(s.ctx))
	}
	if joined != nil {
		return event, joined, nil
	}
	return "", nil, io.EOF
}

// All reads an answer that came in one piece.
func (s *Stream) All() ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(awake{s}, maxAnswer))
	if err != nil {
		return nil, s.broken(err)
	}
	return raw, nil
}

// Broken is the error of a stream that ended before its answer did.
func (s *Stream) Broken() error { return s.broken(io.ErrUnexpectedEOF) }

// Unreadable is the error of a stream that is not what the API promises.
func (s *Stream) Unreadable(err error) error {
	return s.broken(fmt.Errorf("it cannot be read: %w", err))
}

func (s *Stream) broken(err error) error {
	if cause := context.Cause(s.ctx); cause != nil {
		if !errors.Is(cause, errIdle) {
			return cause
		}
		err = cause
	}
	return &turnloop.RequestError{
		Retry: !errors.Is(err, bufio.ErrTooLong),
		Err:   fmt.Errorf("the answer of %s broke off: %s", s.endpoint.BaseURL, harness.Redact(err.Error(), s.key)),
	}
}

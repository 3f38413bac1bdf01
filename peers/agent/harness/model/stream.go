package model

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"time"

	"hubbub/peers/agent/harness"

	"github.com/tmaxmax/go-sse"
)

// Bounds of an answer.
const (
	maxLine   = 4 << 20
	maxAnswer = 32 << 20
)

// A stream is an answer as it comes. One goroutine reads it.
type stream struct {
	whole    bool // the API ignored the wish for a stream: it answers in one piece
	endpoint *endpoint
	key      string
	ctx      context.Context
	cancel   context.CancelCauseFunc
	watchdog *time.Timer
	body     io.ReadCloser
	taken    int // bytes of the body
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

// events returns the data of each server-sent event, or an answer in one piece
// whole. An error is the last that it returns.
func (s *stream) events() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if s.whole {
			if raw, err := io.ReadAll(awake{s}); err != nil || len(raw) > 0 {
				yield(raw, err)
			}
			return
		}
		// Some endpoints leave out the empty line behind their last event.
		body := io.MultiReader(awake{s}, strings.NewReader("\n\n"))
		for event, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: maxLine}) {
			if err != nil || event.Data != "" {
				if !yield([]byte(event.Data), err) {
					return
				}
			}
		}
	}
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
	return &requestError{
		Retry: !errors.Is(err, errTooLong) && !errors.Is(err, bufio.ErrTooLong),
		Err:   fmt.Errorf("the answer of %s broke off: %s", s.endpoint.opts.BaseURL, harness.Redact(err.Error(), s.key)),
	}
}

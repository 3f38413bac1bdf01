package mcptools

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"hubbub/protocol/retry"
)

// reconnectDelay is the wait after a stream has ended.
const reconnectDelay = 5 * time.Second

// An eventStream is the stream on which a server of an older protocol version sends its own
// requests, for example a question to a person while a tool runs. The connection does not depend
// on it: many servers have no such stream, some answer only with their first event, and proxies
// cut idle streams. It ends with its context.
type eventStream struct {
	ctx  context.Context
	dial func() (*http.Response, error)

	body    io.ReadCloser // nil before dial and after the end
	partial bool          // the last event has not arrived completely
}

// isStreamRequest reports whether a request opens such a stream, as opposed to resuming another
// one.
func isStreamRequest(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Accept") == "text/event-stream" &&
		r.Header.Get("Last-Event-ID") == ""
}

// response returns a response before the server has answered.
func (l *eventStream) response(r *http.Request) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"text/event-stream"}}, ContentLength: -1, Body: l,
	}
}

func (l *eventStream) Read(p []byte) (int, error) {
	for l.ctx.Err() == nil {
		if l.body == nil {
			l.open()
			continue
		}
		n, err := l.body.Read(p)
		if n > 0 {
			l.partial = !bytes.HasSuffix(bytes.ReplaceAll(p[:n], []byte("\r"), nil), []byte("\n\n"))
			return n, nil
		}
		if err == nil {
			continue
		}
		l.Close() //nolint:errcheck // it has ended
		if l.partial {
			return 0, err // the reader starts over
		}
		retry.Sleep(l.ctx, reconnectDelay)
	}
	return 0, context.Cause(l.ctx)
}

// open dials once. If there is nothing to read, it waits.
func (l *eventStream) open() {
	response, err := l.dial()
	if err != nil {
		retry.Sleep(l.ctx, reconnectDelay)
		return
	}
	l.body = response.Body
	if response.StatusCode == http.StatusOK &&
		strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return
	}
	l.Close() //nolint:errcheck // nothing of it is read
	if response.StatusCode >= http.StatusInternalServerError {
		retry.Sleep(l.ctx, reconnectDelay)
		return
	}
	<-l.ctx.Done() // the server has no such stream
}

// Close closes the open body. The reader calls it last.
func (l *eventStream) Close() error {
	if l.body == nil {
		return nil
	}
	body := l.body
	l.body = nil
	return body.Close()
}

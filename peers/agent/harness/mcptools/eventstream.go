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

// reconnectDelay is how long a stream that ended is left alone.
const reconnectDelay = 5 * time.Second

// A eventStream is the stream on which a server of an older protocol speaks of its own accord, as
// some do to ask a person while a tool runs. No connection depends on it: many servers have none,
// some answer only once they speak, and proxies end what is idle. It ends with its context.
type eventStream struct {
	ctx  context.Context
	dial func() (*http.Response, error)

	body    io.ReadCloser // nil before dial, and once it has ended
	partial bool          // what was read last is not a whole event
}

// isStreamRequest reports whether a request asks for such a stream, rather than for the rest of another.
func isStreamRequest(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Accept") == "text/event-stream" && r.Header.Get("Last-Event-ID") == ""
}

// response answers before the server has.
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
			return 0, err // whoever reads begins anew
		}
		retry.Sleep(l.ctx, reconnectDelay)
	}
	return 0, context.Cause(l.ctx)
}

// open dials once, and waits if there is nothing to read.
func (l *eventStream) open() {
	response, err := l.dial()
	if err != nil {
		retry.Sleep(l.ctx, reconnectDelay)
		return
	}
	l.body = response.Body
	if response.StatusCode == http.StatusOK && strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return
	}
	l.Close() //nolint:errcheck // nothing of it is read
	if response.StatusCode >= http.StatusInternalServerError {
		retry.Sleep(l.ctx, reconnectDelay)
		return
	}
	<-l.ctx.Done() // it has no such stream
}

// Close closes what is open; the reader of a body calls it last.
func (l *eventStream) Close() error {
	if l.body == nil {
		return nil
	}
	body := l.body
	l.body = nil
	return body.Close()
}

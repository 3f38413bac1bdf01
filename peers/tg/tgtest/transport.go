package tgtest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
)

// Transport returns a transport that reaches the server without a socket,
// whatever the address, for tests in a synctest bubble.
func (s *Server) Transport() http.RoundTripper { return transport{s} }

type transport struct{ server *Server }

// A recorder keeps what a handler answers.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
	cut    bool
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	answered := make(chan *recorder, 1)
	go func() {
		r := &recorder{header: http.Header{}, status: http.StatusOK}
		defer func() {
			if p := recover(); p != nil {
				r.cut = true
			}
			answered <- r
		}()
		clone := req.Clone(req.Context())
		if clone.Body == nil {
			clone.Body = http.NoBody
		}
		t.server.ServeHTTP(r, clone)
	}()
	select {
	case r := <-answered:
		if r.cut {
			return nil, errors.New("EOF: the connection was cut")
		}
		r.header.Set("Date", t.server.now().UTC().Format(http.TimeFormat))
		return &http.Response{
			StatusCode: r.status, Status: http.StatusText(r.status), Header: r.header, Request: req,
			Body: io.NopCloser(&r.body), ProtoMajor: 1, ProtoMinor: 1, ContentLength: int64(r.body.Len()),
		}, nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

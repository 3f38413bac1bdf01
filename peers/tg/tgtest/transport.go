package tgtest

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
)

// Transport returns a transport that reaches the server at any address without a socket, for
// tests with synctest.
func (s *Server) Transport() http.RoundTripper { return transport{s} }

type transport struct{ server *Server }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil && trace.WroteHeaders != nil {
		trace.WroteHeaders()
	}
	answered := make(chan *http.Response, 1) // nil if the connection was cut
	go func() {
		defer close(answered)
		defer func() { _ = recover() }() // as net/http does
		w, call := httptest.NewRecorder(), req.Clone(req.Context())
		if call.Body == nil {
			call.Body = http.NoBody
		}
		w.Header().Set("Date", t.server.now().UTC().Format(http.TimeFormat))
		t.server.ServeHTTP(w, call)
		answered <- w.Result()
	}()
	select {
	case r := <-answered:
		if r == nil {
			return nil, errors.New("EOF: the connection was cut")
		}
		r.Request = req
		return r, nil
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

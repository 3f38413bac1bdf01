package model_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
)

// API is an HTTP server that answers like a model's API: each request takes
// the next of the answers, and the last one stays. It lives in memory, so that a
// test of it may run on the clock of testing/synctest; Client reaches it.
type API struct {
	*httptest.Server
	Client *http.Client

	mu       sync.Mutex
	answers  []http.HandlerFunc
	requests []Request
}

// A Request is what the API was sent.
type Request struct {
	Path   string
	Header http.Header
	Body   map[string]any
}

// startAPI starts a server for a test; it is closed when the test ends.
func startAPI(t *testing.T, answers ...http.HandlerFunc) *API {
	t.Helper()
	a := &API{answers: answers}
	a.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request := Request{Path: r.URL.Path, Header: r.Header.Clone()}
		if err := json.NewDecoder(r.Body).Decode(&request.Body); err != nil {
			t.Errorf("a request is not JSON: %v", err)
		}
		a.mu.Lock()
		a.requests = append(a.requests, request)
		answer := a.answers[0]
		if len(a.answers) > 1 {
			a.answers = a.answers[1:]
		}
		a.mu.Unlock()
		answer(w, r)
	}))
	pipes := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
	a.Server.Listener.Close() //nolint:errcheck // it is not used
	a.Server.Listener = pipes
	a.Server.Start()
	transport := &http.Transport{DialContext: pipes.dial}
	a.Client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		a.Server.Close()
	})
	return a
}

// pipes is a listener in memory.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.accepted <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.accepted:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// Requests returns what came so far.
func (a *API) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requests)
}

// Events answers with a stream of server-sent events, each the data of one (or "event: x\ndata:
// y" unchanged), flushed one by one.
func Events(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range events {
			if len(e) < 6 || e[:6] != "event:" && e[0] != ':' {
				e = "data: " + e
			}
			fmt.Fprintf(w, "%s\n\n", e)           //nolint:errcheck // the client may be gone
			http.NewResponseController(w).Flush() //nolint:errcheck // as above
		}
	}
}

// Cut answers with events and then breaks the connection off.
func Cut(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		Events(events...)(w, r)
		panic(http.ErrAbortHandler)
	}
}

// Silent answers with events and then says nothing until the client is gone.
func Silent(events ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		Events(events...)(w, r)
		<-r.Context().Done()
	}
}

// Status answers with a status, a body and headers (name, value).
func Status(code int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body) //nolint:errcheck // the client may be gone
	}
}

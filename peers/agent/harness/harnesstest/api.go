package harnesstest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// An Answer writes one answer of a model's API.
type Answer func(w http.ResponseWriter)

// API is an HTTP server that answers like a model's API: each request takes
// the next of the answers, and the last one stays.
type API struct {
	*httptest.Server

	mu       sync.Mutex
	answers  []Answer
	requests []Request
}

// A Request is what the API was sent.
type Request struct {
	Path   string
	Header http.Header
	Body   map[string]any
	Raw    string
}

// StartAPI starts a server for a test; it is closed at its end.
func StartAPI(t *testing.T, answers ...Answer) *API {
	t.Helper()
	a := &API{answers: answers}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading a request: %v", err)
		}
		request := Request{Path: r.URL.Path, Header: r.Header.Clone(), Raw: string(raw)}
		if err := json.Unmarshal(raw, &request.Body); err != nil {
			t.Errorf("a request is not JSON: %v", err)
		}
		a.mu.Lock()
		a.requests = append(a.requests, request)
		answer := a.answers[0]
		if len(a.answers) > 1 {
			a.answers = a.answers[1:]
		}
		a.mu.Unlock()
		answer(w)
	}))
	t.Cleanup(a.Server.Close)
	return a
}

// Requests returns what came so far.
func (a *API) Requests() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Request(nil), a.requests...)
}

// Events answers with a stream of server-sent events, each the data of one (or
// "event: x\ndata: y" as it is), flushed one by one.
func Events(events ...string) Answer {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, e := range events {
			if len(e) < 6 || e[:6] != "event:" && e[0] != ':' {
				e = "data: " + e
			}
			fmt.Fprintf(w, "%s\n\n", e) //nolint:errcheck // the client may be gone
			w.(http.Flusher).Flush()
		}
	}
}

// Cut answers with events and then breaks the connection off.
func Cut(events ...string) Answer {
	return func(w http.ResponseWriter) {
		Events(events...)(w)
		panic(http.ErrAbortHandler)
	}
}

// Status answers with a status, headers ("Name: value") and a body.
func Status(code int, body string, headers ...string) Answer {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, body) //nolint:errcheck // the client may be gone
	}
}

package model_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/model"
)

// streams answers with these bytes as a stream of events.
func streams(raw string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, raw) //nolint:errcheck // the client may be gone
	}
}

// TestStream_ParsesEvents covers comments, other fields, several lines of data, other line ends,
// and a missing empty line at the end.
func TestStream_ParsesEvents(t *testing.T) {
	each(t, func(r rig) {
		framed := "\ufeff: hello\n\nevent: lost\nid: 7\nretry: 3\n\n\n\n"
		for _, e := range r.Say("one ", "two ", "three") {
			_, data, named := strings.Cut(e, "\ndata: ")
			if !named {
				data = e
			}
			framed += "event: x\r\ndata:" + strings.Replace(data, ",", ",\r\ndata:", 1) + "\r\n\r\n"
		}
		_, h := r.start(nil, streams(strings.TrimRight(framed, "\r\n")))
		out, err := h.Turn(r.Context(), turn("x"), nil)
		if err != nil || out.FinalText != "one two three" {
			r.Errorf("%+v, %v", out, err)
		}
	})
}

// TestStream_EndsEndlessAnswers also checks that the request is not repeated, and that the error
// names the cause.
func TestStream_EndsEndlessAnswers(t *testing.T) {
	piece := strings.Repeat("x", 1<<20)
	for name, c := range map[string]struct {
		kind, line, want string
	}{
		"a line":       {"text/event-stream", piece, "too long"},
		"one event":    {"text/event-stream", "data: " + piece + "\n", "too long"},
		"many events":  {"text/event-stream", ": " + piece + "\n\n", "longer than 32 MiB"},
		"in one piece": {"application/json", piece, "longer than 32 MiB"},
	} {
		each(t, func(r rig) {
			var written atomic.Int64
			api, h := r.start(nil, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				for {
					n, err := io.WriteString(w, c.line)
					if written.Add(int64(n)); err != nil {
						return
					}
				}
			})
			_, err := h.Turn(r.Context(), turn("x"), nil)
			if !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), c.want) || len(api.Requests()) != 1 || written.Load() > 64<<20 {
				r.Errorf("%s: %v after %d requests and %d bytes", name, err, len(api.Requests()), written.Load())
			}
		})
	}
}

// TestAnswer_LimitsParts checks that an answer with too many parts fails at each attempt.
func TestAnswer_LimitsParts(t *testing.T) {
	many := make([]modelCall, 257)
	for i := range many {
		many[i] = modelCall{ID: fmt.Sprint("c", i), Name: "chat_react"}
	}
	for want, calls := range map[string][]modelCall{
		"more than 256 parts":                       many,
		"its arguments are longer":                  {{ID: "c", Name: "chat_react", Arguments: `{"text":"` + strings.Repeat("x", 1<<20) + `"}`}},
		"name of a tool call is longer than 1024 b": {{ID: "c", Name: strings.Repeat("x", 1025), Arguments: `{}`}},
	} {
		each(t, func(r rig) {
			_, h := r.start(func(o *model.Options) { o.Retries = 1 }, r.said(said{Calls: calls}))
			tools := &harnesstest.Tools{}
			if _, err := h.Turn(r.Context(), turn("x"), tools); !errors.Is(err, harness.ErrTemporary) || !strings.Contains(err.Error(), want) || len(tools.Calls()) > 0 {
				r.Errorf("%v, want %q", err, want)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	each(t, func(r rig) {
		now := time.Now() // stands still until all goroutines sleep
		for header, want := range map[string]time.Duration{
			"Retry-After: ": 0, "Retry-After: 301": 301 * time.Second, "Retry-After: -4": 0, "Retry-After: junk": 0, "Retry-After: 9999999": 10 * time.Minute,
			"Retry-After: 300.5": 300500 * time.Millisecond, "Retry-After-Ms: 300500": 300500 * time.Millisecond,
			"Retry-After: " + now.Add(400*time.Second).UTC().Format(http.TimeFormat): 400 * time.Second,
			"Retry-After: " + now.Add(-time.Hour).UTC().Format(http.TimeFormat):      0,
		} {
			name, value, _ := strings.Cut(header, ": ")
			_, h := r.start(func(o *model.Options) { o.Timeout = time.Nanosecond }, Status(429, "", name, value))
			_, err := h.Turn(r.Context(), turn("x"), nil)
			var later *harness.RetryLaterError
			if !errors.As(err, &later) || later.After != want {
				r.Errorf("%q: %v", header, err)
			}
		}
	})
}

// TestKey_IsSentOnlyToItsEndpoint checks that the default client follows no redirect.
func TestKey_IsSentOnlyToItsEndpoint(t *testing.T) {
	for _, r := range rigs {
		var asked atomic.Int32
		elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
		defer elsewhere.Close()
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/v1", http.StatusTemporaryRedirect))
		defer server.Close()
		_, err := r.new(&model.Options{BaseURL: server.URL, Key: func() (string, error) { return secret, nil }}).Turn(t.Context(), turn("x"), nil)
		if !errors.Is(err, harness.ErrPermanent) || !strings.Contains(err.Error(), "--base-url") || asked.Load() > 0 {
			t.Errorf("%s: %v, the other place was asked %d times", r.Name, err, asked.Load())
		}
	}
}

// TestClient_RequestsUseSeparateConnections uses a server that offers HTTP/2, as those of
// the providers do.
func TestClient_RequestsUseSeparateConnections(t *testing.T) {
	r := rigs[0]
	versions := make(chan int, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		versions <- q.ProtoMajor
		Status(200, r.Whole("hello"))(w, q)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := model.NewClient()
	transport := client.Transport.(*http.Transport)
	if transport.TLSClientConfig == nil { // what is there stays
		transport.TLSClientConfig = &tls.Config{}
	}
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	transport.TLSClientConfig.RootCAs.AddCert(server.Certificate())
	h := r.new(&model.Options{BaseURL: server.URL, Client: client, Key: func() (string, error) { return "", nil }})
	if _, err := h.Turn(t.Context(), turn("x"), nil); err != nil {
		t.Fatal(err)
	}
	if version := <-versions; version != 1 {
		t.Errorf("asked over HTTP/%d", version)
	}
}

// readSignal says when the last event of an answer was read from a connection.
type readSignal struct {
	http.RoundTripper
	event string
	read  chan<- struct{}
}

func (t readSignal) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = readSignalBody{response.Body, t}
	}
	return response, err
}

type readSignalBody struct {
	io.ReadCloser
	readSignal
}

func (b readSignalBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if strings.Contains(string(p[:n]), b.event) {
		b.read <- struct{}{}
	}
	return n, err
}

// TestClient_ReusesConnections reads answers that end after their last event was
// read.
func TestClient_ReusesConnections(t *testing.T) {
	for _, r := range rigs {
		var connections atomic.Int32
		read := make(chan struct{}, 1)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			io.Copy(io.Discard, q.Body) //nolint:errcheck // a test server
			r.say("hello")(w, q)
			<-read
		}))
		server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				connections.Add(1)
			}
		}
		server.Start()
		events := r.Say("hello")
		client := model.NewClient()
		client.Transport = readSignal{client.Transport, events[len(events)-1], read}
		h := r.new(&model.Options{BaseURL: server.URL, Client: client, Key: func() (string, error) { return "", nil }})
		const requests = 20
		for range requests {
			if _, err := h.Turn(t.Context(), turn("x"), nil); err != nil {
				t.Fatal(err)
			}
		}
		client.CloseIdleConnections()
		server.Close()
		if n := connections.Load(); n > requests/2 { // a loaded machine may close some
			t.Errorf("%s: %d connections for %d requests", r.Name, n, requests)
		}
	}
}

package modelapi_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/modelapi"
	"hubbub/peers/agent/harness/turnloop"
)

func endpoint(t *testing.T, answer func(w http.ResponseWriter)) *modelapi.Endpoint {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // a test server
		answer(w)
	}))
	t.Cleanup(server.Close)
	return modelapi.NewEndpoint(
		modelapi.API{KeyName: "TEST_KEY", Path: "/chat", Sign: func(h http.Header, key string) { h.Set("X-Key", key) }},
		&modelapi.Options{
			BaseURL: server.URL + "/v1/", Key: func() (string, error) { return "key", nil },
			Loop: turnloop.Options{Clock: harness.Clock{NowFunc: func() time.Time { return now }}},
		})
}

var now = time.Date(2026, 6, 2, 12, 0, 0, 0, time.UTC)

// pieces is an answer that keeps what it was given.
type pieces []string

func (p *pieces) Add(data []byte) (string, bool, error) {
	*p = append(*p, string(data))
	return "", false, nil
}

func (p *pieces) Reply() *turnloop.Reply { return &turnloop.Reply{} }

func ask(t *testing.T, e *modelapi.Endpoint) (pieces, error) {
	t.Helper()
	var got pieces
	_, err := e.Ask(t.Context(), map[string]any{}, &got, func(string) {})
	return got, err
}

func TestEvents(t *testing.T) {
	e := endpoint(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, ": hello\n\nevent: one\r\ndata: first\r\n\r\ndata:second\ndata: line\nid: 7\nretry: 3\n\n\n\nevent: lost\n\ndata: last")
	})
	got, err := ask(t, e)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"first", "second\nline", "last"}; !slices.Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
}

func TestAnEndlessLineIsGivenUp(t *testing.T) {
	e := endpoint(t, func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "text/event-stream")
		piece := strings.Repeat("x", 1<<20)
		for range 6 {
			if _, err := io.WriteString(w, piece); err != nil {
				return
			}
		}
	})
	_, err := ask(t, e)
	var failed *turnloop.RequestError
	if !errors.As(err, &failed) || failed.Retry {
		t.Errorf("err = %v", err)
	}
}

// picky takes nothing but whole pieces.
type picky struct{ pieces }

func (p *picky) Add(data []byte) (string, bool, error) {
	if !strings.HasSuffix(string(data), "x") || len(data) != 1<<20 {
		return "", false, errors.New("half a piece")
	}
	return "", false, nil
}

// TestAnEndlessAnswerIsGivenUp: it is not asked for again, and the error says why.
func TestAnEndlessAnswerIsGivenUp(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/json"} {
		e := endpoint(t, func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", kind)
			line := "data: " + strings.Repeat("x", 1<<20) + "\n\n"
			for range 40 {
				if _, err := io.WriteString(w, line); err != nil {
					return
				}
			}
		})
		_, err := e.Ask(t.Context(), map[string]any{}, &picky{}, func(string) {})
		var failed *turnloop.RequestError
		if !errors.As(err, &failed) || failed.Retry || !strings.Contains(err.Error(), "longer than 32 MiB") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	for header, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "0.5": 500 * time.Millisecond, "-4": 0, "junk": 0, "9999999": 10 * time.Minute,
		now.Add(90 * time.Second).Format(http.TimeFormat): 90 * time.Second,
		now.Add(-time.Hour).Format(http.TimeFormat):       0,
	} {
		e := endpoint(t, func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		_, err := ask(t, e)
		var failed *turnloop.RequestError
		if !errors.As(err, &failed) || !failed.Retry || failed.After != want {
			t.Errorf("%q: %+v", header, failed)
		}
	}
}

func TestErrorBodies(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"no","code":400}}`: "no",
		`{"error":"plain"}`:                     "plain",
		`[{"error":{"message":"listed"}}]`:      "listed",
		`{"message":"top"}`:                     "top",
		`{"detail":"detailed"}`:                 "detailed",
		`<html>oops</html>`:                     "oops",
		``:                                      "Bad Request",
	} {
		e := endpoint(t, func(w http.ResponseWriter) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, body)
		})
		if _, err := ask(t, e); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestAddressesThatCannotBe(t *testing.T) {
	for _, bad := range []string{"", "api.openai.com/v1", "ftp://x/v1", "https://user:pw@x/v1", "https://x/v1?key=1"} {
		if err := modelapi.NewEndpoint(modelapi.API{}, &modelapi.Options{BaseURL: bad}).Check(); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// TestRequestsDoNotShareOneConnection has a server that offers HTTP/2, as those of
// the providers do.
func TestRequestsDoNotShareOneConnection(t *testing.T) {
	versions := make(chan int, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		versions <- r.ProtoMajor
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{}`) //nolint:errcheck // a test server
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := modelapi.NewClient()
	transport := client.Transport.(*http.Transport)
	if transport.TLSClientConfig == nil { // what is there stays
		transport.TLSClientConfig = &tls.Config{}
	}
	transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	transport.TLSClientConfig.RootCAs.AddCert(server.Certificate())

	e := modelapi.NewEndpoint(
		modelapi.API{KeyName: "TEST_KEY", Path: "/chat", Sign: func(http.Header, string) {}},
		&modelapi.Options{BaseURL: server.URL, Client: client, Key: func() (string, error) { return "", nil }})
	if _, err := ask(t, e); err != nil {
		t.Fatal(err)
	}
	if version := <-versions; version != 1 {
		t.Errorf("asked over HTTP/%d", version)
	}
}

// untilDone is an answer that ends with [DONE], and says when that has come.
type untilDone struct {
	pieces
	done chan<- struct{}
}

func (u *untilDone) Add(data []byte) (string, bool, error) {
	if string(data) != "[DONE]" {
		return "", false, nil
	}
	u.done <- struct{}{}
	return "", true, nil
}

// TestRequestsUseAConnectionAgain reads answers that end after their last event was
// read.
func TestRequestsUseAConnectionAgain(t *testing.T) {
	var connections atomic.Int32
	done := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // a test server
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: hello\n\ndata: [DONE]\n\n")
		http.NewResponseController(w).Flush() //nolint:errcheck // a test server
		<-done
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	e := modelapi.NewEndpoint(
		modelapi.API{KeyName: "TEST_KEY", Path: "/chat", Sign: func(http.Header, string) {}},
		&modelapi.Options{BaseURL: server.URL, Key: func() (string, error) { return "", nil }})
	const requests = 20
	for range requests {
		if _, err := e.Ask(t.Context(), map[string]any{}, &untilDone{done: done}, func(string) {}); err != nil {
			t.Fatal(err)
		}
	}
	if n := connections.Load(); n > requests/2 { // a machine under load may give up some
		t.Errorf("%d connections for %d requests", n, requests)
	}
}

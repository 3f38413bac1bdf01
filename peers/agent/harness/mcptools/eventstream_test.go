package mcptools_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/mcptools"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// startSpeaking starts a server of an older protocol whose tool run asks on the stream of the
// session, like servers that do not say which call asks. get serves that stream.
func startSpeaking(t *testing.T, get func(w http.ResponseWriter, r *http.Request, usual http.Handler)) harness.MCPServer {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "deploy", Version: "1"}, &mcp.ServerOptions{SupportedProtocolVersions: []string{"2025-11-25"}})
	mcp.AddTool(s, &mcp.Tool{Name: "run"}, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
		var answer *mcp.ElicitResult
		err := errors.New("stream not connected")
		for err != nil && strings.Contains(err.Error(), "stream not connected") { // the client opens it during the call
			answer, err = r.Session.Elicit(ctx, &mcp.ElicitParams{Message: "Deploy to production?", RequestedSchema: confirming})
		}
		if err != nil {
			return nil, nil, err
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: answer.Action}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "plain"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "done"}}}, nil, nil
	})
	usual := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && get != nil {
			get(w, r, usual)
			return
		}
		usual.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		for session := range s.Sessions() {
			session.Close()
		}
		server.CloseClientConnections()
		server.Close()
	})
	return harness.MCPServer{Name: "deploy", URL: server.URL}
}

// TestEventStream_CarriesQuestions checks that the question reaches the person of the only
// running call.
func TestEventStream_CarriesQuestions(t *testing.T) {
	p := &person{answer: func(context.Context) error { return nil }}
	tools, failures := runPool(t, nil).Tools(t.Context(), []harness.MCPServer{startSpeaking(t, nil)}, p)
	if len(failures) > 0 {
		t.Fatal(failures)
	}
	if got := tools.Call(t.Context(), "deploy__run", nil); got.Text() != "accept" || len(p.asked) != 1 {
		t.Errorf("%+v after asking %q", got, p.asked)
	}
}

// TestEventStream_IsOptional covers servers that have none, refuse it in their own way, answer it
// only with the first event, or end it repeatedly.
func TestEventStream_IsOptional(t *testing.T) {
	for name, get := range map[string]http.HandlerFunc{
		"none":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusMethodNotAllowed) },
		"a page":      func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<p>hello") }, //nolint:errcheck // the client looks
		"broken":      func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"silent":      func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"ends itself": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Type", "text/event-stream") },
	} {
		t.Run(name, func(t *testing.T) {
			server := startSpeaking(t, func(w http.ResponseWriter, r *http.Request, _ http.Handler) { get(w, r) })
			tools, failures := toolsOf(t, runPool(t, nil), server)
			if len(failures) > 0 {
				t.Fatal(failures)
			}
			if got := tools.Call(t.Context(), "deploy__plain", nil); got.Text() != "done" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestEventStream_Reconnects checks that a lost stream is opened again after a pause, even after
// failures. A stream that ends within an event is left to the reader, who starts over. A stream
// that the server does not have, or a closed connection, ends the attempts.
func TestEventStream_Reconnects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		var dials atomic.Int32
		answer := func(status int, body string) (*http.Response, error) {
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
		}
		reader := mcptools.Listening(ctx, func() (*http.Response, error) {
			switch dials.Add(1) {
			case 1:
				return answer(200, "data: 1\n\n")
			case 2:
				return nil, errors.New("nobody is there")
			case 3:
				return answer(503, "")
			case 4:
				return answer(200, "data: 2\n\n")
			case 5:
				return answer(200, "data: ha")
			}
			return answer(404, "gone")
		})
		read, err := io.ReadAll(reader)
		if string(read) != "data: 1\n\ndata: 2\n\ndata: ha" || err != nil || time.Since(began) != 20*time.Second {
			t.Errorf("read %q, %v, in %s", read, err, time.Since(began))
		}
		time.AfterFunc(time.Hour, cancel)
		if n, err := reader.Read(make([]byte, 1)); n != 0 || !errors.Is(err, context.Canceled) || dials.Load() != 6 || time.Since(began) < time.Hour {
			t.Errorf("read %d, %v after %d dials in %s", n, err, dials.Load(), time.Since(began))
		}
	})
}

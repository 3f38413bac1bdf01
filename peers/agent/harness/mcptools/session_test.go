package mcptools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/mcptools"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestPool_ListsEachToolOnce checks that a repeated cursor ends the list, and that a name with an
// unpaired surrogate, which is U+FFFD here, names no tool.
func TestPool_ListsEachToolOnce(t *testing.T) {
	for name, next := range map[string]func(cursor string) string{
		"never advances": func(string) string { return "same" },
		"in turns":       func(cursor string) string { return map[string]string{"": "a", "a": "b", "b": "a"}[cursor] },
		"always another": func(cursor string) string { return cursor + "x" },
		"one page":       func(string) string { return "" },
		"two pages":      func(cursor string) string { return map[string]string{"": "2", "2": ""}[cursor] },
		"no second page": func(string) string { return "bad" },
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				var m struct {
					ID     json.RawMessage
					Method string
					Params struct{ Cursor, ProtocolVersion string }
				}
				if json.NewDecoder(q.Body).Decode(&m) != nil || m.ID == nil {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				result := map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "s", "version": "1"}}
				switch m.Method {
				case "tools/list":
					if m.Params.Cursor == "bad" {
						fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"Invalid cursor"}}`, m.ID)
						return
					}
					schema := map[string]any{"type": "object"}
					result = map[string]any{"tools": []any{map[string]any{"name": "one", "inputSchema": schema}, map[string]any{"name": "two", "inputSchema": schema},
						map[string]any{"name": "\ufffd", "inputSchema": schema}}, "nextCursor": next(m.Params.Cursor)}
				case "initialize":
				default:
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}`, m.ID)
					return
				}
				json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result}) //nolint:errcheck // the client may be gone
			}))
			t.Cleanup(server.Close)
			tools, failures := toolsOf(t, runPool(t, nil), harness.MCPServer{Name: "s", URL: server.URL})
			if got := names(tools); len(failures) > 0 || fmt.Sprint(got) != "[s__one s__two]" {
				t.Errorf("%v, %v", got, failures)
			}
		})
	}
}

// TestCall_OpensALostSessionAgain checks that the call runs once in the new session.
func TestCall_OpensALostSessionAgain(t *testing.T) {
	refusals := map[string]func(http.ResponseWriter){
		"404": nil, // as the library says it
		"404 JSON": func(w http.ResponseWriter) {
			http.Error(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`, 404)
		},
		"400 no valid":    func(w http.ResponseWriter) { http.Error(w, "Bad Request: No valid session ID provided", 400) },
		"400 invalid":     func(w http.ResponseWriter) { http.Error(w, "invalid session", 400) },
		"400 not started": func(w http.ResponseWriter) { http.Error(w, "Session not initialized", 400) },
	}
	for name, refuse := range refusals {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			var mu sync.Mutex
			var inner http.Handler
			begin := func() { // forgets every session
				server := mcp.NewServer(&mcp.Implementation{Name: "s", Version: "1"}, nil)
				mcp.AddTool(server, &mcp.Tool{Name: "count"}, func(_ context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
					return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprint(calls.Add(1))}}}, nil, nil
				})
				t.Cleanup(func() {
					for session := range server.Sessions() {
						session.Close()
					}
				})
				mu.Lock()
				defer mu.Unlock()
				inner = mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
			}
			begin()
			var seen, lost sync.Map
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				if _, gone := lost.Load(q.Header.Get("Mcp-Session-Id")); gone && refuse != nil && q.Method == http.MethodPost {
					refuse(w)
					return
				}
				mu.Lock()
				handler := inner
				mu.Unlock()
				handler.ServeHTTP(w, q)
				if id := w.Header().Get("Mcp-Session-Id"); id != "" {
					seen.Store(id, true)
				}
			}))
			t.Cleanup(s.Close)
			tools, failures := toolsOf(t, runPool(t, &mcptools.PoolOptions{}), harness.MCPServer{Name: "s", URL: s.URL})
			if len(failures) > 0 {
				t.Fatal(failures)
			}
			seen.Range(func(id, _ any) bool { lost.Store(id, true); return true })
			begin()
			for i := range 2 {
				if r := tools.Call(t.Context(), "s__count", nil); r.IsError || r.Text() != fmt.Sprint(i+1) {
					t.Errorf("call %d: %+v", i+1, r)
				}
			}
		})
	}
}

// TestCall_WaitsForNoServerThatIsGone calls a tool while its server is down, and again when
// another server runs at its address.
func TestCall_WaitsForNoServerThatIsGone(t *testing.T) {
	address := bustest.FreeAddress(t)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	serve := func(name string, on net.Listener) *http.Server {
		server := newServer(name, 1)
		t.Cleanup(func() {
			for session := range server.Sessions() {
				session.Close()
			}
		})
		web := &http.Server{Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil), ReadHeaderTimeout: time.Minute}
		go web.Serve(on) //nolint:errcheck // it is closed
		return web
	}
	web := serve("first", listener)
	tools, failures := toolsOf(t, runPool(t, nil), harness.MCPServer{Name: "s", URL: "http://" + address})
	if len(failures) > 0 {
		t.Fatal(failures)
	}
	for i, want := range []string{"first: x", "the tool returned no result", "second: x", "second: x"} {
		switch i {
		case 1:
			web.Close()
		case 2:
			if listener, err = net.Listen("tcp", address); err != nil {
				t.Fatal(err)
			}
			web = serve("second", listener)
			t.Cleanup(func() { web.Close() })
		}
		if r := tools.Call(t.Context(), "s__echo", json.RawMessage(`{"text":"x"}`)); !strings.Contains(r.Text(), want) {
			t.Errorf("call %d: %q, want %q", i+1, r.Text(), want)
		}
	}
}

// TestCall_AfterARefusal refuses the first call of a tool in each way, and checks the result of the call,
// how often the server received it, and that the next call runs.
func TestCall_AfterARefusal(t *testing.T) {
	jsonError := func(code int, message string) func(http.ResponseWriter, json.RawMessage) {
		return func(w http.ResponseWriter, id json.RawMessage) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`, id, code, message)
		}
	}
	for name, c := range map[string]struct {
		refuse func(http.ResponseWriter, json.RawMessage)
		calls  int64
		want   string
	}{
		"no session":     {jsonError(-32001, "Session not found"), 2, "ran"},
		"no valid ID":    {jsonError(-32000, "Bad Request: No valid session ID provided"), 2, "ran"},
		"no transport":   {jsonError(-32000, "No transport found for sessionId"), 2, "ran"},
		"none active":    {jsonError(-32000, "Bad Request: no active session"), 2, "ran"},
		"unknown ID":     {jsonError(-32001, "session_id 7 does not exist"), 2, "ran"},
		"unauthorized":   {func(w http.ResponseWriter, _ json.RawMessage) { w.WriteHeader(401) }, 1, "may or may not have acted"},
		"bad arguments":  {jsonError(-32602, "no such city"), 1, "the server refused the call: calling \"tools/call\": no such city"},
		"internal error": {jsonError(-32603, "the bank's session expired"), 1, "may or may not have acted"},
	} {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				var m struct {
					ID     json.RawMessage
					Method string
				}
				if json.NewDecoder(q.Body).Decode(&m) != nil || m.ID == nil {
					w.WriteHeader(http.StatusAccepted)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				result := map[string]string{
					"initialize": `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`,
					"tools/list": `{"tools":[{"name":"","inputSchema":{"type":"object"}},{"name":"one","inputSchema":{"type":"object"}}]}`,
					"tools/call": `{"content":[{"type":"text","text":"ran"}]}`,
				}[m.Method]
				switch {
				case m.Method == "tools/call" && calls.Add(1) == 1:
					c.refuse(w, m.ID)
				case result == "":
					jsonError(-32601, "no")(w, m.ID)
				default:
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
				}
			}))
			t.Cleanup(server.Close)
			tools, failures := toolsOf(t, runPool(t, nil), harness.MCPServer{Name: "s", URL: server.URL})
			if got := names(tools); len(failures) > 0 || fmt.Sprint(got) != "[s__one]" {
				t.Fatal(got, failures)
			}
			if r := tools.Call(t.Context(), "s__one", nil); !strings.Contains(r.Text(), c.want) || calls.Load() != c.calls {
				t.Errorf("after %d calls: %q", calls.Load(), r.Text())
			}
			if r := tools.Call(t.Context(), "s__one", nil); r.Text() != "ran" {
				t.Errorf("the next call: %q", r.Text())
			}
		})
	}
}

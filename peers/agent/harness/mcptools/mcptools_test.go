package mcptools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/protocol/http1"
	"hubbub/protocol/redact"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
)

// TestMain lets the test binary play an MCP server over stdio, and a client.
func TestMain(m *testing.M) {
	if os.Getenv(clientRole) != "" {
		if err := playClient(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Getenv("MCP_TEST") == "" {
		goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"))
		return
	}
	s := newServer("stdio"+os.Getenv("MCP_TEST_KEY"), 10)
	mcp.AddTool(s, &mcp.Tool{Name: "crash"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		panic("it ends in the middle of a call")
	})
	if err := s.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type echoInput struct {
	Text string `json:"text"`
}

// newServer returns a foreign MCP server with the tools echo and long.
func newServer(name string, long int) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "says it again"}, func(_ context.Context, _ *mcp.CallToolRequest, in echoInput) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: name + ": " + in.Text}}}, nil, nil
	})
	mcp.AddTool(s, &mcp.Tool{Name: "long"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat("é", long)}}}, nil, nil
	})
	return s
}

// remote is an HTTP server that records the headers of its requests.
type remote struct {
	*httptest.Server
	mu     sync.Mutex
	seen   []http.Header
	accept string // the Authorization that it wants; "" = any
}

func startRemote(t *testing.T, name, accept string) *remote {
	t.Helper()
	server := newServer(name, 1000)
	inner := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	r := &remote{accept: accept}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		r.seen = append(r.seen, q.Header.Clone())
		r.mu.Unlock()
		if r.accept != "" && q.Header.Get("Authorization") != r.accept {
			http.Error(w, "bad token "+q.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, q)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *remote) headers(name string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var values []string
	for _, h := range r.seen {
		values = append(values, h.Get(name))
	}
	return values
}

func runPool(t *testing.T, opts *mcptools.PoolOptions) *mcptools.Pool {
	t.Helper()
	p := mcptools.NewPool(opts)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return p
}

func toolsOf(t *testing.T, p *mcptools.Pool, servers ...harness.MCPServer) (harness.Tools, []error) {
	t.Helper()
	return p.Tools(t.Context(), servers, nil)
}

func names(tools harness.Tools) []string {
	var out []string
	for _, t := range tools.List() {
		out = append(out, t.Name)
	}
	slices.Sort(out)
	return out
}

func TestPool_LeavesOutAFailedServer(t *testing.T) {
	docs, wiki := startRemote(t, "docs", "Bearer right"), startRemote(t, "wiki", "")
	p := runPool(t, nil)
	tools, failures := toolsOf(t, p,
		harness.MCPServer{Name: "docs", URL: docs.URL, Headers: map[string]string{"Authorization": "Bearer right", "X-Trace": "abc"}},
		harness.MCPServer{Name: "closed", URL: docs.URL + "/mcp?key=hidden", Headers: map[string]string{"Authorization": "Bearer wrong-secret"}},
		harness.MCPServer{Name: "gone", URL: "http://127.0.0.1:1/mcp"},
		harness.MCPServer{Name: "wiki", URL: wiki.URL},
		harness.MCPServer{Name: "local", Command: []string{os.Args[0]}, Env: map[string]string{"MCP_TEST": "1", "GORACE": "atexit_sleep_ms=0"}})
	if got, want := names(tools), []string{"docs__echo", "docs__long", "local__crash", "local__echo", "local__long", "wiki__echo", "wiki__long"}; !slices.Equal(got, want) {
		t.Errorf("tools %v, want %v", got, want)
	}
	if len(failures) != 2 || !strings.Contains(failures[0].Error(), "closed") || !strings.Contains(failures[1].Error(), "gone") {
		t.Errorf("failures %v", failures)
	}
	for _, err := range failures {
		if strings.Contains(err.Error(), "wrong-secret") || strings.Contains(err.Error(), "hidden") {
			t.Errorf("a secret is in %v", err)
		}
	}
	for _, name := range []string{"docs", "wiki", "local"} {
		r := tools.Call(t.Context(), name+"__echo", json.RawMessage(`{"text":"hi"}`))
		if r.IsError || !strings.HasSuffix(r.Text(), ": hi") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if got := docs.headers("X-Trace"); got[0] != "abc" && !slices.Contains(got, "abc") {
		t.Errorf("headers %v", got)
	}
	if r := tools.Call(t.Context(), "nobody__echo", nil); !r.IsError {
		t.Errorf("an unknown tool answered %+v", r)
	}
}

// TestPool_HidesVariablesFromCommands starts a server whose echo returns its environment.
func TestPool_HidesVariablesFromCommands(t *testing.T) {
	t.Setenv("MCP_TEST_KEY", " has our key")
	own := map[string]string{"MCP_TEST": "1", "GORACE": "atexit_sleep_ms=0"}
	for _, c := range []struct {
		hide []string
		key  string // in the command's own env
		says string
	}{
		{nil, "", "stdio has our key: x"},
		{[]string{"MCP_TEST_KEY"}, "", "stdio: x"},
		{[]string{"MCP_TEST_KEY"}, " has its own", "stdio has its own: x"},
	} {
		env := maps.Clone(own)
		if c.key != "" {
			env["MCP_TEST_KEY"] = c.key
		}
		tools, failures := toolsOf(t, runPool(t, &mcptools.PoolOptions{HideEnv: c.hide}), harness.MCPServer{Name: "local", Command: []string{os.Args[0]}, Env: env})
		if len(failures) > 0 {
			t.Fatal(failures)
		}
		if r := tools.Call(t.Context(), "local__echo", json.RawMessage(`{"text":"x"}`)); r.Text() != c.says {
			t.Errorf("hiding %v, with %q of its own: %q, want %q", c.hide, c.key, r.Text(), c.says)
		}
	}
}

func TestPool_SendsTheHeadersOfTheTurn(t *testing.T) {
	r := startRemote(t, "docs", "")
	p := runPool(t, nil)
	for _, key := range []string{"one", "two"} {
		tools, failures := toolsOf(t, p, harness.MCPServer{Name: "docs", URL: r.URL, Headers: map[string]string{"X-Key": key}})
		if len(failures) > 0 {
			t.Fatal(failures)
		}
		if res := tools.Call(t.Context(), "docs__echo", json.RawMessage(`{"text":"x"}`)); res.IsError {
			t.Fatal(res)
		}
		got := r.headers("X-Key")
		if got[len(got)-1] != key || slices.Contains(got, "") {
			t.Errorf("with %q the server saw %v", key, got)
		}
	}
}

func TestCall_LimitsResults(t *testing.T) {
	r := startRemote(t, "docs", "")
	tools, _ := toolsOf(t, runPool(t, &mcptools.PoolOptions{ResultBytes: 101}), harness.MCPServer{Name: "docs", URL: r.URL})
	text := tools.Call(t.Context(), "docs__long", nil).Text()
	if len(text) > 101+100 || !strings.Contains(text, "[cut") || strings.ContainsRune(text, '\uFFFD') {
		t.Errorf("%d bytes: %q", len(text), text)
	}
}

func TestCall_RedactsResults(t *testing.T) {
	const key = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	server := mcp.NewServer(&mcp.Implementation{Name: "env", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "read", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "TOKEN=" + key}}}, nil
	})
	server.AddTool(&mcp.Tool{Name: "list", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{StructuredContent: map[string]any{"token": key}}, nil
	})
	server.AddTool(&mcp.Tool{Name: "fail", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return nil, errors.New("the host refused " + key)
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	cut, _ := toolsOf(t, runPool(t, &mcptools.PoolOptions{Redact: redact.New(), ResultBytes: 40}), harness.MCPServer{Name: "env", URL: web.URL})
	if text := cut.Call(t.Context(), "env__read", nil).Text(); strings.Contains(text, key[:4]) {
		t.Errorf("a half of the secret is read: %q", text)
	}
	tools, _ := toolsOf(t, runPool(t, &mcptools.PoolOptions{Redact: redact.New()}), harness.MCPServer{Name: "env", URL: web.URL})
	for _, name := range []string{"env__read", "env__list", "env__fail"} {
		got, err := json.Marshal(tools.Call(t.Context(), name, nil))
		if err != nil || strings.Contains(string(got), key) || !strings.Contains(string(got), "[redacted:github-pat]") {
			t.Errorf("%s is read as %s, %v", name, got, err)
		}
	}
}

// TestCall_AcceptsAnEmptyResult checks that an empty text is the result, whatever else the answer
// contains.
func TestCall_AcceptsAnEmptyResult(t *testing.T) {
	server := mcp.NewServer(&mcp.Implementation{Name: "quiet", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "run", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{}}, StructuredContent: map[string]any{"exit": 0}}, nil
	})
	web := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil))
	t.Cleanup(web.Close)
	tools, _ := toolsOf(t, runPool(t, nil), harness.MCPServer{Name: "quiet", URL: web.URL})
	got, err := json.Marshal(tools.Call(t.Context(), "quiet__run", nil))
	if want := `{"content":[{"type":"text","text":""}]}`; string(got) != want || err != nil {
		t.Errorf("read as %s, %v, want %s", got, err, want)
	}
}

func TestCall_IsMadeOnceAndTheNextTurnReconnects(t *testing.T) {
	process := harness.MCPServer{Name: "local", Command: []string{os.Args[0]}, Env: map[string]string{"MCP_TEST": "1", "GORACE": "atexit_sleep_ms=0"}}
	p := runPool(t, nil)
	tools, failures := toolsOf(t, p, process)
	if len(failures) > 0 {
		t.Fatal(failures)
	}
	mcptools.KillPrograms(p)
	if r := tools.Call(t.Context(), "local__echo", json.RawMessage(`{"text":"x"}`)); r.Text() != "stdio: x" {
		t.Errorf("after it had ended, a server answered %+v", r)
	}
	if r := tools.Call(t.Context(), "local__crash", nil); !r.IsError || !strings.Contains(r.Text(), "may or may not") {
		t.Errorf("a dying server answered %+v", r)
	}
	tools, failures = toolsOf(t, p, process)
	if len(failures) > 0 {
		t.Fatal(failures)
	}
	if r := tools.Call(t.Context(), "local__echo", json.RawMessage(`{"text":"back"}`)); r.Text() != "stdio: back" {
		t.Errorf("%+v", r)
	}
}

// TestCall_ResumesAClosedStream checks that the client reconnects for an answer that the server has
// kept, and that the call is made once.
func TestCall_ResumesAClosedStream(t *testing.T) {
	var called atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		if r.Method == http.MethodGet {
			if r.Header.Get("Last-Event-ID") != "e1" {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			fmt.Fprint(w, "id: e2\ndata: {\"jsonrpc\":\"2.0\",\"id\":"+strconv.Itoa(int(called.Load()))+",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"late\"}]}}\n\n")
			return
		}
		var request struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
			t.Error(err)
		}
		result := "{}"
		switch request.Method {
		case "initialize":
			result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		case "tools/list":
			result = `{"tools":[{"name":"slow","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			id, err := strconv.Atoi(string(request.ID))
			if err != nil || !called.CompareAndSwap(0, int32(id)) {
				t.Errorf("call %s is made anew", request.ID)
			}
			fmt.Fprint(w, "id: e1\nretry: 1\ndata: \n\n")
			return
		}
		if request.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", request.ID, result)
	}))
	defer s.Close()
	tools, failures := toolsOf(t, runPool(t, nil), harness.MCPServer{Name: "s", URL: s.URL})
	if len(failures) > 0 {
		t.Fatal(failures)
	}
	if r := tools.Call(t.Context(), "s__slow", nil); r.IsError || r.Text() != "late" {
		t.Errorf("%+v", r)
	}
}

func TestPool_WaitsOnlyTheTimeoutForASilentServer(t *testing.T) {
	release := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer silent.Close()
	defer close(release)
	p := runPool(t, &mcptools.PoolOptions{ConnectTimeout: 50 * time.Millisecond})
	_, failures := toolsOf(t, p, harness.MCPServer{Name: "silent", URL: silent.URL})
	if len(failures) != 1 || !strings.Contains(failures[0].Error(), "did not answer") {
		t.Errorf("%v", failures)
	}
}

func startToolServer(t *testing.T, tools harness.Tools, token string) string {
	t.Helper()
	listener, url, err := mcptools.Listen()
	if err != nil {
		t.Fatal(err)
	}
	serveTools(t, listener, mcptools.NewToolServer(func(string) harness.Tools { return tools }, token, nil))
	return url
}

func serveTools(t *testing.T, listener net.Listener, handler http.Handler) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- http1.Serve(ctx, listener, http1.NewServer(handler), 2*time.Second) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
}

func TestToolServer_OffersTheAgentsTools(t *testing.T) {
	token := mcptools.NewToken()
	own := &harnesstest.Tools{Answer: func(_ context.Context, c harnesstest.Call) (harness.Result, bool) {
		switch c.Name {
		case "chat.send_message":
			return harness.StructuredResult(map[string]any{"messageId": "msg_1", "status": "sent"}), true
		case "chat.claim":
			return harness.ErrorResult("agent:w4 holds the claim; stay out", map[string]any{"granted": false, "owner": "agent:w4"}), true
		}
		return harness.Result{}, false
	}}
	url := startToolServer(t, own, token)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: url, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer(token)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	listed, err := session.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) != 7 {
		t.Fatalf("%v, %v", listed, err)
	}
	sent, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "chat.send_message", Arguments: map[string]any{"text": "hi"}})
	if err != nil || sent.IsError || sent.StructuredContent.(map[string]any)["status"] != "sent" {
		t.Errorf("%+v, %v", sent, err)
	}
	refused, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "chat.claim", Arguments: map[string]any{"eventId": "evt_1"}})
	if err != nil || !refused.IsError || refused.StructuredContent.(map[string]any)["owner"] != "agent:w4" {
		t.Errorf("%+v, %v", refused, err)
	}
	if calls := own.Calls(); len(calls) != 2 || calls[0].Arguments["text"] != "hi" {
		t.Errorf("calls %v", calls)
	}
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

func TestToolServer_RefusesForeignRequests(t *testing.T) {
	const token = "the-token"
	url := startToolServer(t, &harnesstest.Tools{}, token)
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`
	for name, c := range map[string]struct {
		change func(r *http.Request)
		want   int
	}{
		"right":        {func(*http.Request) {}, http.StatusOK},
		"no token":     {func(r *http.Request) { r.Header.Del("Authorization") }, http.StatusUnauthorized},
		"wrong token":  {func(r *http.Request) { r.Header.Set("Authorization", "Bearer the-tokem") }, http.StatusUnauthorized},
		"not a bearer": {func(r *http.Request) { r.Header.Set("Authorization", token) }, http.StatusUnauthorized},
		"token in URL": {func(r *http.Request) { r.Header.Del("Authorization"); r.URL.RawQuery = "token=" + token }, http.StatusUnauthorized},
		"foreign page": {func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }, http.StatusForbidden},
		"null origin":  {func(r *http.Request) { r.Header.Set("Origin", "null") }, http.StatusForbidden},
		"own page":     {func(r *http.Request) { r.Header.Set("Origin", "http://"+r.URL.Host) }, http.StatusOK},
		"rebound name": {func(r *http.Request) { r.Host = "evil.example:80" }, http.StatusForbidden},
		"by name":      {func(r *http.Request) { r.Host = "localhost:80" }, http.StatusOK},
		"another path": {func(r *http.Request) { r.URL.Path = "/" }, http.StatusNotFound},
		"too large": {func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(`{"a":"` + strings.Repeat("x", 2<<20) + `"}`))
			r.ContentLength = -1
		}, http.StatusRequestEntityTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			c.change(r)
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			raw, _ := io.ReadAll(response.Body)
			if response.StatusCode != c.want || strings.Contains(string(raw), token) {
				t.Errorf("%d %s, want %d", response.StatusCode, raw, c.want)
			}
		})
	}
}

func TestWriteAddress_IsReadableByItsOwnerOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	want := mcptools.Address{URL: "http://127.0.0.1:5/mcp", Token: "t0ken"}
	if err := mcptools.WriteAddress(path, want); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	raw, err := os.ReadFile(path)
	if err != nil || strings.TrimSpace(string(raw)) != `{"url":"http://127.0.0.1:5/mcp","token":"t0ken"}` {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestParseServers(t *testing.T) {
	for in, want := range map[string]int{
		``: 0, `null`: 0, `[]`: 0,
		`{"url":"http://x/mcp","headers":{"A":"b"}}`:                               1,
		`[{"name":"a","url":"http://x"},{"name":"b","command":"npx -y 'a b'"}]`:    2,
		`{"mcpServers":{"a":{"command":"npx","args":["-y","x"],"env":{"K":"v"}}}}`: 1,
		`{"name":"a","url":"http://x","command":"y"}`:                              -1,
		`{"name":"a"}`: -1, `{"ur":"http://x"}`: -1, `"x"`: -1,
	} {
		got, err := mcptools.ParseServers([]byte(in))
		if (err != nil) != (want < 0) || err == nil && len(got) != want {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	got, err := mcptools.ParseServers([]byte(`[{"command":"npx -y 'a b'"},{"command":"npx","args":["-y","a b"]}]`))
	if err != nil || !slices.Equal(got[0].Command, got[1].Command) || got[0].Name == got[1].Name {
		t.Errorf("%v, %v", got, err)
	}
}

// TestToolServer_ChatTokenOpensOnlyItsTools checks that a program gets the tools of the chat that
// its token names, and cannot derive another token from it.
func TestToolServer_ChatTokenOpensOnlyItsTools(t *testing.T) {
	listener, url, err := mcptools.Listen()
	if err != nil {
		t.Fatal(err)
	}
	own := mcptools.Address{URL: url, Token: mcptools.NewToken()}
	serveTools(t, listener, mcptools.NewToolServer(func(chat string) harness.Tools {
		return &harnesstest.Tools{Answer: func(context.Context, harnesstest.Call) (harness.Result, bool) {
			return harness.StructuredResult(map[string]any{"chat": chat}), true
		}}
	}, own.Token, nil))
	ask := func(authorization, forged string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"chat.list_events","arguments":{}}}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", authorization)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Hubbub-Chat", forged)
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var body struct {
			Result struct{ StructuredContent struct{ Chat string } }
		}
		if response.StatusCode != http.StatusOK {
			return response.Status
		}
		if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
			t.Fatal(err)
		}
		return body.Result.StructuredContent.Chat
	}
	token := func(chat string) string { return own.ForChat(chat).Headers["Authorization"] }
	_, signature, _ := strings.Cut(token("tg:42"), ".")
	other, _, _ := strings.Cut(token("tg:-7"), ".")
	for name, c := range map[string]struct{ authorization, forged, want string }{
		"a chat":              {token("tg:42"), "", "tg:42"},
		"another":             {token("tg:-7"), "", "tg:-7"},
		"the agent's own":     {"Bearer " + own.Token, "", ""},
		"a forged header":     {token("tg:42"), "tg:-7", "tg:42"},
		"a header of its own": {"Bearer " + own.Token, "tg:-7", ""},
		"another's name":      {other + "." + signature, "", "401 Unauthorized"},
		"no name":             {"Bearer ." + signature, "", "401 Unauthorized"},
		"no signature":        {other + ".", "", "401 Unauthorized"},
	} {
		if got := ask(c.authorization, c.forged); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

package mcptools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/timetest"
)

// opened puts an open connection to a server into a pool.
func (p *Pool) opened(t *testing.T, s harness.MCPServer, tools ...string) (c *conn, stopped *atomic.Bool) {
	t.Helper()
	key, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	stopped = new(atomic.Bool)
	c = &conn{pool: p, key: string(key), server: s, calls: map[*activeCall]bool{}, ready: make(chan struct{}), lastUsed: time.Now(), listedAt: time.Now(), stop: func() { stopped.Store(true) }}
	close(c.ready)
	for _, name := range tools {
		c.tools = append(c.tools, harness.Tool{Name: name})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c.key] = c
	return c, stopped
}

// kept is how many connections a pool has.
func (p *Pool) kept() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// TestPool_NamesToolsAfterTheirServer also checks that a number tells apart tools that would
// have one name.
func TestPool_NamesToolsAfterTheirServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(nil)
		servers := []harness.MCPServer{{Name: "a", URL: "http://1"}, {Name: "a", URL: "http://2"}, {URL: "http://3"}, {Name: "gone", URL: "no address"}}
		for i, s := range servers[:3] {
			p.opened(t, s, "look", fmt.Sprint("only", i))
		}
		from := time.Now()
		if tools, failed := p.Tools(t.Context(), servers, nil); len(tools.List()) != 0 || len(failed) != 4 || !strings.Contains(failed[0].Error(), "the harness is not running") || time.Since(from) != 10*time.Second {
			t.Errorf("before it runs: %v, %v after %v", tools.List(), failed, time.Since(from))
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		tools, failed := p.Tools(t.Context(), servers, nil)
		var names []string
		for _, tool := range tools.List() {
			names = append(names, tool.Name)
		}
		if want := []string{"a__look", "a__only0", "a2__look", "a__only1", "mcp__look", "mcp__only2"}; !slices.Equal(names, want) {
			t.Errorf("the tools are %q, want %q", names, want)
		}
		if len(failed) != 1 || !strings.Contains(failed[0].Error(), "its url is not an http(s) address") {
			t.Errorf("left out: %v", failed)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if _, _, err := p.reserve("x", servers[0]); !errors.Is(err, harness.ErrStopped) {
			t.Errorf("after its end: %v", err)
		}
	})
}

// TestPool_ClosesIdleConnections closes a connection that was idle for ten minutes, and no
// other.
func TestPool_ClosesIdleConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(nil)
		_, idle := p.opened(t, harness.MCPServer{Name: "idle"})
		busy, called := p.opened(t, harness.MCPServer{Name: "busy"})
		busy.calls[&activeCall{}] = true
		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx) //nolint:errcheck // it returns nil
		timetest.Advance(10*time.Minute - time.Second)
		_, later := p.opened(t, harness.MCPServer{Name: "later"})
		synctest.Wait()
		if idle.Load() {
			t.Error("it ended early")
		}
		timetest.Advance(2 * time.Second)
		if !idle.Load() || called.Load() || later.Load() || p.kept() != 2 {
			t.Errorf("ended are idle %v, busy %v, later %v; %d are left", idle.Load(), called.Load(), later.Load(), p.kept())
		}
		stop()
	})
}

// TestPool_IsBounded checks that the least recently used connection makes room.
func TestPool_IsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(nil)
		ctx, stop := context.WithCancel(t.Context())
		go p.Run(ctx) //nolint:errcheck // it returns nil
		synctest.Wait()
		var ended []*atomic.Bool
		var all []*conn
		for i := range 32 {
			c, stopped := p.opened(t, harness.MCPServer{Name: fmt.Sprint(i)})
			c.calls[&activeCall{}] = true
			ended, all = append(ended, stopped), append(all, c)
			timetest.Advance(time.Second)
		}
		if c, fresh, err := p.reserve(all[0].key, all[0].server); c != all[0] || fresh || err != nil {
			t.Errorf("one that is there: %v, %v, %v", c, fresh, err)
		}
		if _, _, err := p.reserve("more", harness.MCPServer{}); err == nil || err.Error() != "too many MCP servers are in use at once" {
			t.Errorf("all are in use: %v", err)
		}
		clear(all[0].calls) // used just now
		clear(all[5].calls)
		if c, fresh, err := p.reserve("more", harness.MCPServer{}); err != nil || !fresh || !ended[5].Load() || ended[0].Load() || p.kept() != 32 || c == nil {
			t.Errorf("one is not in use: %v, %v; %d are kept", fresh, err, p.kept())
		}
		stop()
	})
}

// TestLoadServers checks that the order stays the same.
func TestLoadServers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mcp.json")
	if _, err := LoadServers(path); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "reading the MCP servers: ") {
		t.Errorf("no file: %v", err)
	}
	for said, want := range map[string]string{
		`{"mcpServers":{"c":{"url":"http://c"},"a":{"url":"http://a"},"b":{"url":"http://b"}}}`: "a b c",
		`[{"url":"http://c"},{"name":"x","url":"http://x"},{"url":"http://c"}]`:                 "mcp x mcp3",
		`[{"ur":"http://c"}]`:     "",
		`{"mcpServers":{"c":{}}}`: "",
	} {
		if err := os.WriteFile(path, []byte(said), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := LoadServers(path)
		var names []string
		for _, s := range got {
			names = append(names, s.Name)
		}
		if strings.Join(names, " ") != want || (err != nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), "reading the MCP servers of "+path+": ") {
			t.Errorf("%s: %q, %v", said, names, err)
		}
	}
}

// TestHeaderTransport_CallsOnlyItsHost sends the headers as they were given, and bounds the
// answer.
func TestHeaderTransport_CallsOnlyItsHost(t *testing.T) {
	asked := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			_, _ = io.WriteString(w, strings.Repeat("x", 17<<20)) // it is not read to its end
			return
		}
		asked++
		_, _ = io.WriteString(w, strings.Join(r.Header.Values("Authorization"), ","))
	}))
	defer web.Close()
	client := func(host string) *http.Client {
		return &http.Client{Transport: &headerTransport{add: map[string]string{"Authorization": "Bearer k"}, host: host}}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "another's")
	response, err := client(r.URL.Host).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(response.Body)
	response.Body.Close()
	if string(said) != "Bearer k" || err != nil || r.Header.Get("Authorization") != "another's" {
		t.Errorf("sent %q, %v", said, err)
	}
	if _, err := client("elsewhere").Do(r); err == nil || !strings.Contains(err.Error(), "the server refers to another host; only its own is called") || asked != 1 {
		t.Errorf("to another host: %v, asked %d times", err, asked)
	}
	long := r.Clone(t.Context())
	long.URL.Path = "/long"
	if response, err = client(r.URL.Host).Do(long); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if n != 16<<20 || err == nil || err.Error() != "the answer is too long" {
		t.Errorf("of a long answer %d bytes are read, %v", n, err)
	}
}

// TestConn_Transport covers an address and a command.
func TestConn_Transport(t *testing.T) {
	for says, s := range map[string]harness.MCPServer{
		"it has both a url and a command; give only one of them": {URL: "http://a", Command: []string{"a"}},
		"it has neither a url nor a command":                     {},
		"its url is not an http(s) address":                      {URL: "ftp://a"},
		"its url is not an  http(s) address":                     {URL: "http://"},
		"its url  is not an http(s) address":                     {URL: ":"},
		"":                                                       {URL: "http://a"},
		" ":                                                      {URL: "https://a"},
	} {
		got, err := (&conn{server: s}).transport()
		if want := strings.ReplaceAll(strings.TrimSpace(says), "  ", " "); (err == nil) != (want == "") || err != nil && err.Error() != want || (got == nil) != (err != nil) {
			t.Errorf("%+v: %v, %v; want %q", s, got, err, want)
		}
	}
}

// TestCheckPeer also refuses connections that are not known to come from this machine.
func TestCheckPeer(t *testing.T) {
	const refused = "only connections from this machine are served"
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", http.NoBody)
	for _, from := range []string{"pipe", "127.0.0.1:5"} { // the second names no address of ours
		r.RemoteAddr = from
		if got := checkPeer(r); got != refused {
			t.Errorf("%s: %q", from, got)
		}
	}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.UnixAddr{}))
	if got := checkPeer(r); got != refused {
		t.Errorf("by a socket of another kind: %q", got)
	}
}

// TestNewMCPTool also checks that a tool without a schema takes an object.
func TestNewMCPTool(t *testing.T) {
	for tool, want := range map[*harness.Tool]string{
		{Name: "a"}: `{"annotations":{"idempotentHint":false,"readOnlyHint":false},"inputSchema":{"type":"object"},"name":"a"}`,
		{Name: "a", Title: "A", Description: "does a", InputSchema: json.RawMessage(`{"type":"object","x":1}`), OutputSchema: json.RawMessage(`{"type":"object"}`), ReadOnly: true, Idempotent: true}: `{"annotations":{"readOnlyHint":true,"idempotentHint":true},"description":"does a","inputSchema":{"type":"object","x":1},"name":"a","outputSchema":{"type":"object"},"title":"A"}`,
	} {
		got, err := json.Marshal(newMCPTool(*tool))
		if err != nil || !sameJSON(t, got, []byte(want)) {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatal(err)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

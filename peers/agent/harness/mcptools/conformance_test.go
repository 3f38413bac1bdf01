package mcptools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/mcptools"
)

// clientRole makes the test binary play the client that the conformance suite examines.
const clientRole = "MCP_TEST_CLIENT"

// playClient connects as an agent does and calls each tool of the server at the end of
// the command line.
func playClient() error {
	ctx, cancel := context.WithCancel(context.Background())
	pool := mcptools.NewPool(nil)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	tools, failures := pool.Tools(ctx, []harness.MCPServer{{Name: "s", URL: os.Args[len(os.Args)-1]}}, nil)
	if len(failures) > 0 {
		return failures[0]
	}
	for _, tool := range tools.List() {
		if r := tools.Call(ctx, tool.Name, json.RawMessage(`{"a":5,"b":3}`)); r.IsError {
			return fmt.Errorf("%s: %s", tool.Name, r.Text())
		}
	}
	return nil
}

// suite returns how the conformance suite is started, as scripts/mcp-conformance.sh says.
func suite(t *testing.T) func(t *testing.T, args ...string) {
	command := strings.Fields(os.Getenv("HUBBUB_MCP_CONFORMANCE"))
	if len(command) == 0 {
		t.Skip("the suite is not installed; run scripts/mcp-conformance.sh")
	}
	return func(t *testing.T, args ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, command[0], append(command[1:], args...)...)
		cmd.Dir = t.TempDir() // where it leaves its results
		cmd.Env = append(os.Environ(), clientRole+"=1", "GORACE=atexit_sleep_ms=0")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		t.Logf("%s", out)
	}
}

// TestMCPConformanceOfTheServer: every scenario of the public suite that is about tools of text,
// which is all that chat tools are. Those of resources, prompts, pictures, sampling, elicitation,
// logging and progress examine what this server does not announce.
func TestMCPConformanceOfTheServer(t *testing.T) {
	run, token := suite(t), mcptools.NewToken()
	tools := &harnesstest.Tools{Names: []string{"test_simple_text", "test_error_handling"}, Answer: func(_ context.Context, c harnesstest.Call) (harness.Result, bool) {
		if c.Name == "test_error_handling" {
			return harness.Refused("This tool intentionally returns an error for testing", nil), true
		}
		return harness.Result{Content: []harness.Content{{Type: "text", Text: "This is a simple text response for testing."}}}, true
	}}
	endpoint, err := url.Parse(startToolServer(t, tools, token))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { // the suite knows no tokens
		p.Out.URL.Scheme, p.Out.URL.Host = endpoint.Scheme, endpoint.Host
		p.Out.Host = p.In.Host
		p.Out.Header.Set("Authorization", "Bearer "+token)
	}})
	t.Cleanup(front.Close)
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-error", "dns-rebinding-protection"} {
		t.Run(scenario, func(t *testing.T) { run(t, "server", "--url", front.URL+endpoint.Path, "--scenario", scenario) })
	}
}

// TestMCPConformanceOfTheClient: every client scenario of the public suite but elicitation and
// OAuth, which this client does not announce.
func TestMCPConformanceOfTheClient(t *testing.T) {
	run := suite(t)
	for _, scenario := range []string{"initialize", "tools_call", "sse-retry"} {
		t.Run(scenario, func(t *testing.T) { run(t, "client", "--command", os.Args[0], "--scenario", scenario) })
	}
}

// TestPublicServers: three servers that others made, from npm, as tools of an agent.
func TestPublicServers(t *testing.T) {
	bin := os.Getenv("HUBBUB_MCP_SERVERS")
	if bin == "" {
		t.Skip("the servers are not installed; run scripts/mcp-conformance.sh")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "note"), []byte("what the note says"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := func(name string, args ...string) harness.MCPServer {
		return harness.MCPServer{
			Name: name, Command: append([]string{filepath.Join(bin, "node"), filepath.Join(bin, "mcp-server-"+name)}, args...),
			Env: map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")},
		}
	}
	tools, failures := toolsOf(t, runPool(t, &mcptools.PoolOptions{ConnectTimeout: time.Minute}), server("everything"), server("filesystem", dir), server("memory"))
	if len(failures) > 0 {
		t.Fatal(failures)
	}
	for _, c := range []struct{ tool, arguments, want string }{
		{"everything__echo", `{"message":"hello"}`, "hello"},
		{"everything__get-sum", `{"a":5,"b":3}`, "8"},
		{"filesystem__read_text_file", `{"path":"` + filepath.Join(dir, "note") + `"}`, "what the note says"},
		{"filesystem__read_text_file", `{"path":"/etc/passwd"}`, "denied"},
		{"memory__create_entities", `{"entities":[{"name":"Will","entityType":"person","observations":["writes tests"]}]}`, "Will"},
		{"memory__search_nodes", `{"query":"tests"}`, "Will"},
	} {
		r := tools.Call(t.Context(), c.tool, json.RawMessage(c.arguments))
		if said := r.Text() + string(r.StructuredContent); !strings.Contains(said, c.want) || r.IsError != (c.want == "denied") {
			t.Errorf("%s %s: %q, error %v; want %q", c.tool, c.arguments, said, r.IsError, c.want)
		}
	}
}

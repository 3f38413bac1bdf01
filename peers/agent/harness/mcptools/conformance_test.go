package mcptools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
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

// playClient connects as an agent does to the server at the end of the command line, calls each
// tool, and answers what a server asks as a person who agrees would.
func playClient() error {
	ctx, cancel := context.WithCancel(context.Background())
	pool := mcptools.NewPool(nil)
	ended := make(chan error, 1)
	go func() { ended <- pool.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	agrees := &person{answer: func(context.Context) error { return nil }}
	tools, failures := pool.Tools(ctx, []harness.MCPServer{{Name: "s", URL: os.Args[len(os.Args)-1]}}, agrees)
	if len(failures) > 0 {
		return failures[0]
	}
	if os.Getenv("MCP_CONFORMANCE_SCENARIO") == "json-schema-ref-no-deref" {
		return nil // its server has a tool to look at, and takes no calls
	}
	calls, err := suiteCalls(tools)
	for _, c := range calls {
		if r := tools.Call(ctx, "s__"+c.Name, c.Arguments); r.IsError {
			err = errors.Join(err, fmt.Errorf("%s: %s", c.Name, r.Text()))
		}
	}
	return err
}

// A suiteCall is a call that a scenario wants.
type suiteCall struct {
	Name      string
	Arguments json.RawMessage
}

// suiteCalls returns the calls that the suite asks for, or else one call of each tool.
func suiteCalls(tools harness.Tools) (calls []suiteCall, err error) {
	var asked struct{ ToolCalls []suiteCall }
	if said := os.Getenv("MCP_CONFORMANCE_CONTEXT"); said != "" {
		err = json.Unmarshal([]byte(said), &asked)
	}
	if err != nil || len(asked.ToolCalls) > 0 {
		return asked.ToolCalls, err
	}
	for _, tool := range tools.List() {
		arguments := `{"a":5,"b":3}`
		if tool.Name == "s__json_schema_echo" { // the result with the other tool's schema
			for _, other := range tools.List() {
				if other.Name == "s__json_schema_2020_12_tool" {
					arguments = `{"schema":` + string(other.InputSchema) + `}`
				}
			}
		}
		calls = append(calls, suiteCall{strings.TrimPrefix(tool.Name, "s__"), json.RawMessage(arguments)})
	}
	return calls, nil
}

// The suite's tools that resemble chat tools: they take a schema, and answer with text.
type suiteTools struct{ harnesstest.Tools }

func (s *suiteTools) List() []harness.Tool {
	return append(s.Tools.List(), harness.Tool{Name: "json_schema_2020_12_tool", Description: "has a rich schema", InputSchema: json.RawMessage(`{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
		"$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
		"properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}, "contactMethod": {"type": "string", "enum": ["phone", "email"]},
			"phone": {"type": "string"}, "email": {"type": "string"}},
		"allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
		"if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
		"then": {"required": ["phone"]}, "else": {"required": ["email"]}, "additionalProperties": false}`),
	}, harness.Tool{Name: "test_x_mcp_header", Description: "has a parameter that is shown in a header", InputSchema: json.RawMessage(
		`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`),
	})
}

// toolsOfText are the checks of the suite that go beyond tools that return text and ask nothing,
// as chat tools do.
var toolsOfText = map[string]string{
	"completion-": "not announced", "logging-": "not announced", "prompts-": "not announced", "resources-": "not announced", "sep-2164-resource-": "resources are not announced",
	"tools-call-image": "tools of text", "tools-call-audio": "tools of text", "tools-call-embedded-resource": "tools of text", "tools-call-mixed-content": "tools of text",
	"tools-call-with-logging": "tools that log nothing", "tools-call-with-progress": "tools that tell no progress",
	"tools-call-sampling": "tools that ask nothing", "tools-call-elicitation": "tools that ask nothing", "elicitation-": "tools that ask nothing", "input-required-": "tools that ask nothing",
	"sep-2549-prompts-": "not announced", "sep-2549-resources-": "not announced", // of caching
	// of server-stateless: each needs a tool that asks, or logs
	"sep-2575-server-rejects-undeclared-capability": "tools that ask nothing", "sep-2575-missing-capability-http-400": "tools that ask nothing",
	"sep-2575-http-server-no-independent-requests-on-stream": "tools that ask nothing", "sep-2575-server-no-log-without-loglevel": "tools that log nothing",
}

// TestMCPConformance_Server runs every server scenario of the public suite except toolsOfText.
func TestMCPConformance_Server(t *testing.T) {
	token, tools := mcptools.NewToken(), &suiteTools{}
	tools.Names = []string{"test_simple_text", "test_error_handling"}
	tools.Answer = func(_ context.Context, c harnesstest.Call) (harness.Result, bool) {
		if c.Name == "test_error_handling" {
			return harness.ErrorResult("This tool intentionally returns an error for testing", nil), true
		}
		return harness.Result{Content: []harness.Content{{Type: "text", Text: "This is a simple text response for testing."}}}, true
	}
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
	harnesstest.Conformance(t, "server", toolsOfText, "--url", front.URL+endpoint.Path)
}

// TestMCPConformance_Client runs every client scenario of the public suite except those of OAuth,
// which this client does not offer.
func TestMCPConformance_Client(t *testing.T) {
	t.Setenv(clientRole, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	harnesstest.Conformance(t, "client", map[string]string{"auth/": "OAuth is not offered"}, "--command", os.Args[0])
}

// TestPublicServers gives an agent the tools of three third-party servers from npm.
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

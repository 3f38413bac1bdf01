package chorus_test

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"

	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/chorus"
)

// TestMCPConformance runs the public MCP conformance suite against the endpoint of a channel: the
// parts that are about tools and need none of the suite's own. The suite knows no tokens, so a
// proxy adds the one of the delivery.
func TestMCPConformance(t *testing.T) {
	if os.Getenv("HUBBUB_MCP_CONFORMANCE") == "" {
		t.Skip("the suite is not installed; run make mcp-conformance")
	}
	r := startNew(t, nil)
	outside := newReceiver(t)
	tg := r.bus.Join(t, "tg:42", "tg:42")
	r.add("ext", outside.url, chorus.AgentSettings{})
	says(t, tg, "agent:ext", dm("e1", "hello?"))
	config := outside.next().body["mcp"].(map[string]any)
	endpoint, err := url.Parse(config["url"].(string))
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.Out.URL.Scheme, p.Out.URL.Host = endpoint.Scheme, endpoint.Host
		p.Out.Host = p.In.Host
		p.Out.Header.Set("Authorization", config["headers"].(map[string]any)["Authorization"].(string))
	}})
	t.Cleanup(front.Close)
	const own = "needs a tool of the suite's own"
	harnesstest.Conformance(t, "server", map[string]string{
		"completion-": "not announced", "logging-": "not announced", "prompts-": "not announced", "resources-": "not announced", "sep-2164-resource-": "not announced",
		"sep-2549-prompts-": "not announced", "sep-2549-resources-": "not announced", // of caching
		"tools-call-": own, "elicitation-": own, "input-required-": own, "json-schema-2020-12": own, "http-custom-header-": own,
		"sep-2575-server-rejects-undeclared-capability": own, "sep-2575-missing-capability-http-400": own, // of server-stateless
		"sep-2575-http-server-no-independent-requests-on-stream": own, "sep-2575-server-no-log-without-loglevel": own,
	}, "--url", front.URL+endpoint.EscapedPath())
}

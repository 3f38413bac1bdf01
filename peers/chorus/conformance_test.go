package chorus_test

import (
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"hubbub/peers/chorus"
)

// TestMCPConformance runs the public MCP conformance suite against the endpoint
// of a channel. scripts/mcp-conformance.sh installs the suite and says in
// HUBBUB_MCP_CONFORMANCE how it is started. The suite knows no tokens, so a
// proxy in front adds the one of the delivery and changes nothing else.
func TestMCPConformance(t *testing.T) {
	command := strings.Fields(os.Getenv("HUBBUB_MCP_CONFORMANCE"))
	if len(command) == 0 {
		t.Skip("the suite is not installed; run scripts/mcp-conformance.sh")
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
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "dns-rebinding-protection"} {
		t.Run(scenario, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, command[0], append(command[1:], "server", "--url", front.URL+endpoint.EscapedPath(), "--scenario", scenario)...)
			cmd.Dir = t.TempDir() // where it leaves its results
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			t.Logf("%s", out)
		})
	}
}

package mcptools_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/mcptools"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestRelayKeepsTheBusTokenFromTheProgram: the program reaches the server with
// the agent's own token alone, and the server sees only the bus token.
func TestRelayKeepsTheBusTokenFromTheProgram(t *testing.T) {
	const old, busToken = "revoked-bus-token", "secret-bus-token"
	channel := &harnesstest.Tools{}
	far := startToolServer(t, channel, busToken)
	listener, url, err := mcptools.Listen()
	if err != nil {
		t.Fatal(err)
	}
	own := mcptools.Address{URL: url, Token: mcptools.NewToken()}
	relay := mcptools.NewRelay(own)
	serveTools(t, listener, mcptools.NewToolServer(func(string) harness.Tools { return &harnesstest.Tools{} }, own.Token, relay))
	conceal := func(token string) harness.MCPServer {
		return relay.Conceal(harness.MCPServer{Name: "channel", URL: far, Headers: map[string]string{"Authorization": "Bearer " + token}})
	}
	token := func(s harness.MCPServer) bearer {
		return bearer(strings.TrimPrefix(s.Headers["Authorization"], "Bearer "))
	}
	conceal(old)
	told := conceal(busToken)
	if raw, err := json.Marshal(told); err != nil || strings.Contains(string(raw), "bus-token") || told.Name != "channel" {
		t.Fatalf("the program is told %s, %v", raw, err)
	}

	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: told.URL, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: token(told)},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "chat.send_message", Arguments: map[string]any{"text": "hi"}}); err != nil || r.IsError {
		t.Errorf("%+v, %v", r, err)
	}
	if calls := channel.Calls(); len(calls) != 1 || calls[0].Arguments["text"] != "hi" {
		t.Errorf("the server was called %v", calls)
	}

	for name, c := range map[string]struct {
		token bearer
		url   string
		want  int
	}{
		"a stranger":        {"wrong", told.URL, http.StatusUnauthorized},
		"a chat":            {token(own.ForChat("tg:42")), told.URL, http.StatusForbidden},
		"another server's":  {token(relay.Conceal(harness.MCPServer{Name: "other", URL: url})), told.URL, http.StatusForbidden},
		"an unknown server": {bearer(own.Token), strings.TrimSuffix(url, mcptools.Path) + "/relay/unknown", http.StatusNotFound},
	} {
		r, err := (&http.Client{Transport: c.token}).Post(c.url, "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != c.want {
			t.Errorf("%s gets %d", name, r.StatusCode)
		}
	}
}

package mcptools_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/mcptools"
	"hubbub/peers/netguard"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestRelay_HidesTheBusToken checks that the program uses only the agent's own token, and that
// the server sees only the bus token.
func TestRelay_HidesTheBusToken(t *testing.T) {
	const old, busToken = "revoked-bus-token", "secret-bus-token"
	channel := &harnesstest.Tools{}
	far := startToolServer(t, channel, busToken)
	listener, url, err := mcptools.Listen()
	if err != nil {
		t.Fatal(err)
	}
	own := mcptools.Address{URL: url, Token: mcptools.NewToken()}
	relay := mcptools.NewRelay(own, netguard.New(netguard.Loopback))
	serveTools(t, listener, mcptools.NewToolServer(func(string) harness.Tools { return &harnesstest.Tools{} }, own.Token, relay))
	conceal := func(token string) harness.MCPServer {
		return relay.Register(harness.MCPServer{Name: "channel", URL: far, Headers: map[string]string{"Authorization": "Bearer " + token}})
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
		"another server's":  {token(relay.Register(harness.MCPServer{Name: "other", URL: url})), told.URL, http.StatusForbidden},
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

// TestRelay_DialsOnlyAllowedAddresses uses messages that name servers of this machine by address,
// by name and by a redirect, for an agent whose gateway runs on another machine.
func TestRelay_DialsOnlyAllowedAddresses(t *testing.T) {
	var asked atomic.Int32
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer inner.Close()
	pointing := httptest.NewServer(http.RedirectHandler(inner.URL, http.StatusTemporaryRedirect))
	defer pointing.Close()
	port := inner.Listener.Addr().(*net.TCPAddr).Port
	t.Setenv("HTTP_PROXY", inner.URL)
	for target, guard := range map[string]*netguard.Policy{
		inner.URL:                                      netguard.New(nil),
		fmt.Sprintf("http://localhost:%d", port):       netguard.New(nil),
		fmt.Sprintf("http://[::ffff:7f00:1]:%d", port): netguard.New(nil),
		"http://192.0.2.1/":                            netguard.New(nil),
		pointing.URL:                                   netguard.New(netguard.Loopback),
	} {
		listener, url, err := mcptools.Listen()
		if err != nil {
			t.Fatal(err)
		}
		own := mcptools.Address{URL: url, Token: mcptools.NewToken()}
		relay := mcptools.NewRelay(own, guard)
		serveTools(t, listener, mcptools.NewToolServer(func(string) harness.Tools { return &harnesstest.Tools{} }, own.Token, relay))
		told := relay.Register(harness.MCPServer{Name: "channel", URL: target})
		token := bearer(strings.TrimPrefix(told.Headers["Authorization"], "Bearer "))
		r, err := (&http.Client{Transport: token}).Post(told.URL, "application/json", strings.NewReader(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusBadGateway || asked.Load() > 0 {
			t.Errorf("%s: %s, and %d requests arrived", target, r.Status, asked.Load())
		}
	}
}

package chorus_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/bus/grant"
	"hubbub/peers/chorus"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// TestTokenChecker_AsksTheBus runs gateway, spawner and agents on a bus with credentials. The
// agent of the channel uses the service's tools with its bus token or a derived one for this
// address. Another agent, a stranger and, within a second, a revoked token are refused.
func TestTokenChecker_AsksTheBus(t *testing.T) {
	t.Parallel()
	file := grant.NewFile(filepath.Join(t.TempDir(), "credentials.toml"))
	token := func(name, identity, subscribe string) string {
		t.Helper()
		secret, err := file.Create(grant.Credential{Name: name, Identities: []string{identity}, Subscribe: []string{subscribe}, Publish: []string{"*"}})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	ofGateway, ofSystem := token("gateway", "chorus:*", "chorus:*"), token("system", "agent:system", "system:*")
	ofAgent, ofOther := token("a", "agent:a", "agent:a"), token("b", "agent:b", "agent:b")
	bus := bustest.StartWithCredentials(t, file)
	r := start(t, bus, filepath.Join(t.TempDir(), "chorus"), func(o *chorus.Options) { o.Peer.Token = ofGateway })
	spawner(t, bus, "agent:a", ofSystem)

	proxies := make(chan string, 1)
	agent := peer.New("agent:a", &peer.Options{Buses: []string{bus.URL()}, Token: ofAgent})
	agent.Handle(protocol.TypeConfigure, func(context.Context, *peer.Delivery) error { return nil })
	agent.Handle(protocol.TypeChatMessage, func(_ context.Context, d *peer.Delivery) error {
		var m protocol.ChatMessage
		var mcp struct{ URL string }
		if err := d.Decode(&m); err != nil {
			return err
		}
		if err := json.Unmarshal(m.MCP, &mcp); err != nil {
			return err
		}
		proxies <- mcp.URL
		return nil
	})
	run(t, agent, "agent:a")
	callback, service := newReceiver(t), newService(t, "x")
	body := posted("c", "m", "what is new?", callback.url)
	body["mcp"] = map[string]any{"url": service.url, "headers": map[string]any{"Authorization": "Bearer of-the-service"}}
	if status, answer := post(t, r.inbox("ops"), body); status != http.StatusOK {
		t.Fatalf("the inbox answers %d %s", status, answer)
	}
	proxy := <-proxies
	if !strings.HasPrefix(proxy, r.url) {
		t.Fatalf("the agent is told of %q", proxy)
	}
	ask := func(bearer string) int {
		t.Helper()
		status, _ := post(t, proxy, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", bearer, "Accept", "application/json, text/event-stream")
		return status
	}
	for name, c := range map[string]struct {
		bearer string
		want   int
	}{
		"the agent of the channel": {"Bearer " + ofAgent, http.StatusOK},
		"its pass":                 {"Bearer " + protocol.NewDerivedToken(ofAgent, proxy), http.StatusOK},
		"its pass for elsewhere":   {"Bearer " + protocol.NewDerivedToken(ofAgent, "http://127.0.0.1:1"+strings.TrimPrefix(proxy, r.url)), http.StatusUnauthorized},
		"another agent's pass":     {"Bearer " + protocol.NewDerivedToken(ofOther, proxy), http.StatusUnauthorized},
		"another agent":            {"Bearer " + ofOther, http.StatusUnauthorized},
		"the spawner":              {"Bearer " + ofSystem, http.StatusUnauthorized},
		"a stranger":               {"Bearer wrong", http.StatusUnauthorized},
		"nobody":                   {"", http.StatusUnauthorized},
	} {
		if got := ask(c.bearer); got != c.want {
			t.Errorf("%s gets %d; want %d", name, got, c.want)
		}
	}
	if _, err := file.Revoke("a", nil); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return ask("Bearer "+ofAgent) == http.StatusUnauthorized })
	waitFor(t, func() bool { return ask("Bearer "+protocol.NewDerivedToken(ofAgent, proxy)) == http.StatusUnauthorized })
	if logs := r.logs.String(); strings.Contains(logs, ofAgent) || strings.Contains(logs, ofGateway) || strings.Contains(logs, "of-the-service") {
		t.Errorf("a secret stands in the log:\n%s", logs)
	}
}

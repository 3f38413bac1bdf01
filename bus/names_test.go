package bus_test

import (
	"strings"
	"testing"

	"hubbub/bus/bustest"
	"hubbub/bus/grant"
	"hubbub/protocol"
)

// TestNames_AreVouchedForByBus checks that a request to the broker comes with the
// names that its sender's credential grants, whatever the sender says, and that other
// messages come without names.
func TestNames_AreVouchedForByBus(t *testing.T) {
	all := []string{"*"}
	b, _, tokens := credentialed(t,
		grant.Credential{Name: "broker", Identities: all, Subscribe: all, Publish: all},
		grant.Credential{Name: "none", Identities: []string{"agent:evil"}, Publish: all},
		grant.Credential{Name: "some", Identities: []string{"agent:deputy"}, Publish: all, Names: []string{"boss", "team-*"}})
	broker := join(t, b, tokens["broker"], "collab:broker", "collab:*")
	names := func(p *raw, id, kind string) string {
		t.Helper()
		text := strings.Replace(payload("m", id, "x"), "agent_event", kind, 1)
		p.write(`{"jsonrpc":"2.0","id":9,"method":"sendMessage","params":{"topic":"collab:broker","payload":` + text + `,"names":["*"]}}`)
		m, err := broker.read()
		if err != nil {
			t.Fatal(err)
		}
		broker.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"processed":true}}`)
		if _, err := p.read(); err != nil {
			t.Fatal(err)
		}
		_, vouched, _ := strings.Cut(string(m.Params), text)
		return vouched
	}
	for _, c := range []struct{ token, id, kind, want string }{
		{"none", "agent:evil", "collab_request", `}`},
		{"some", "agent:deputy", "collab_request", `,"names":["boss","team-*"]}`},
		{"some", "agent:deputy", "agent_event", `}`},
	} {
		if got := names(join(t, b, tokens[c.token], c.id), c.id, c.kind); got != c.want {
			t.Errorf("%s with %s: the bus vouches %s; want %s", c.id, c.kind, got, c.want)
		}
	}
	open := bustest.Start(t, nil)
	ear := open.Join(t, protocol.PeerBroker, "collab:*")
	open.Join(t, "agent:a").Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, map[string]string{"method": "x"})
	if d := ear.Next(t); len(d.Names) != 1 || d.Names[0] != "*" {
		t.Errorf("an open bus vouches for %q", d.Names)
	}
}

package main

import (
	"net/netip"
	"testing"

	"hubbub/peers/netguard"
)

// TestReach_AllowsTheGatewayBesideTheBus checks that an agent calls the tools of a gateway on the
// machine of its bus, and of one that the operator names, and no other address that is not
// public.
func TestReach_AllowsTheGatewayBesideTheBus(t *testing.T) {
	for _, tt := range []struct {
		bus, allow, url string
		ok              bool
	}{
		{"ws://127.0.0.1:7892", "", "http://127.0.0.1:7893/tools/a/b", true},
		{"ws://localhost:7892", "", "http://[::1]:7893/tools/a/b", true},
		{"wss://10.0.0.5", "", "http://10.0.0.5:7893/tools/a/b", true},
		{"wss://10.0.0.5", "", "http://10.0.0.6:7893/tools/a/b", false},
		{"wss://10.0.0.5", "", "http://127.0.0.1:7893/tools/a/b", false},
		{"wss://10.0.0.5", "10.0.0.6", "http://10.0.0.6:7893/tools/a/b", true},
		{"ws://127.0.0.1:7892", "", "http://169.254.169.254/tools/a/b", false},
		{"wss://bus.example.com", "", "https://127.0.0.1/tools/a/b", false},
		{"wss://bus.example.com", "", "https://8.8.8.8/tools/a/b", true},
		{"%", "", "http://127.0.0.1/", false},
	} {
		var allowed []netip.Prefix
		if tt.allow != "" {
			allowed = []netip.Prefix{netip.MustParsePrefix(tt.allow + "/32")}
		}
		if err := netguard.New(withBusHosts(allowed, []string{tt.bus})).CheckURL(tt.url); (err == nil) != tt.ok {
			t.Errorf("%s beside %s: %v; want ok=%t", tt.url, tt.bus, err, tt.ok)
		}
	}
}

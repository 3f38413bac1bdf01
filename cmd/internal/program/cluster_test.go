package program

import (
	"context"
	"strings"
	"testing"
)

// TestStandby_RefusesAnInvalidCluster uses servers that cannot be asked: the
// program would stand by for ever.
func TestStandby_RefusesAnInvalidCluster(t *testing.T) {
	for _, s := range []Standby{
		{URLs: []string{"nats://u:secret@a b:1"}}, {URLs: []string{"http://u:secret@a:1"}}, {URLs: []string{"nats://a"}, ClusterName: "a b"},
	} {
		err := s.Run(t.Context(), &Env{}, "tg:1", func(context.Context) error { t.Error("the work began"); return nil })
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q, named %q: %v", s.URLs, s.ClusterName, err)
		}
	}
}

func TestBusAddress_IsForThisMachine(t *testing.T) {
	noVariable := func(string) string { return "" }
	for listen, want := range map[string]string{
		"127.0.0.1:7892": "ws://127.0.0.1:7892", ":7892": "ws://127.0.0.1:7892", "[::]:1": "ws://127.0.0.1:1",
		"[::1]:7892": "ws://[::1]:7892", "localhost:http": "ws://localhost:80",
	} {
		if got, err := BusAddress(map[string]any{"listen": listen}, noVariable); err != nil || got != want {
			t.Errorf("BusAddress(%q) = %q, %v; want %q", listen, got, err, want)
		}
	}
	for _, bad := range []string{"", "7892", "localhost:no-such-service"} {
		if got, err := BusAddress(map[string]any{"listen": bad}, noVariable); err == nil {
			t.Errorf("BusAddress(%q) = %q", bad, got)
		}
	}
}

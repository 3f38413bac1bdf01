package cmd_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/nats-io/nats-server/v2/server"
)

// TestConformance_SeesPeersOfCluster checks that a bus without peers is refused if another bus of
// its cluster has the spawner, because the cases would take it over.
func TestConformance_SeesPeersOfCluster(t *testing.T) {
	nats := startNATS(t, server.RANDOM_PORT)
	var buses []string
	for i := range 2 {
		address := freeAddress(t)
		start(t, t, "hubbub-bus", nil, "--log-format", "json", "--data", t.TempDir(), "--listen", address, "--name", busName(i), "--cluster", nats.ClientURL())
		buses = append(buses, "ws://"+address)
	}
	stopped := make(chan error, 1)
	join := func(ctx context.Context, id protocol.PeerID, bus string, told func(protocol.Presence)) {
		p := peer.New(id, &peer.Options{Buses: []string{bus}})
		p.HandlePresence(told)
		stopped <- p.Run(ctx)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go join(ctx, "agent:system", buses[1], func(protocol.Presence) {})
	watching, known := context.WithTimeout(ctx, patience)
	defer known()
	join(watching, "cli:watcher", buses[0], func(news protocol.Presence) {
		if news.Peer == "agent:system" && news.State == protocol.PresenceJoined {
			known()
		}
	})
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) string {
		t.Helper()
		out, _ := exec.CommandContext(t.Context(), built(t, "hubbub"), append([]string{"conformance", "bus", "--bus", buses[0]}, args...)...).CombinedOutput() //nolint:errcheck // the output says it
		return string(out)
	}
	if out := run(); !strings.Contains(out, "in use: agent:system is connected, and ") {
		t.Errorf("a bus whose cluster is in use: %s", out)
	}
	if out := run("--in-use", "--only", "roles"); !strings.Contains(out, "skipped  roles ") || !strings.Contains(out, "1 passed, 0 failed, 1 skipped") {
		t.Errorf("with --in-use: %s", out)
	}
	stop()
	if err := <-stopped; err != nil {
		t.Errorf("the spawner: %v", err) // it was taken over
	}
}

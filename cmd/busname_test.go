package cmd_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/bus/bustest"

	"github.com/nats-io/nats-server/v2/server"
)

// TestBus_KeepsItsName kills a bus of a cluster that was given no name, and starts it again. A
// sender in Python gets partial results in the meantime, but at neither bus after that.
func TestBus_KeepsItsName(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	nats := startNATS(t, server.RANDOM_PORT)
	var buses [2]*brokerFixture
	var killed *process
	var again func() *process
	for i := range buses {
		address, data := bustest.FreeAddress(t), t.TempDir()
		begin := func() *process {
			return start(t, t, "hubbub-bus", nil, "--log-format", "json", "--data", data, "--listen", address, "--cluster", nats.ClientURL())
		}
		buses[i] = &brokerFixture{t: t, url: "ws://" + address, data: data}
		killed, again = begin(), begin
	}
	missing := func(at *brokerFixture, result string) string {
		t.Helper()
		out, err := at.python("once.py", result).CombinedOutput()
		if err != nil {
			t.Fatalf("once.py: %v\n%s", err, out)
		}
		return strings.TrimSpace(string(out))
	}
	name, err := os.ReadFile(filepath.Join(buses[1].data, "bus.name"))
	if err != nil {
		t.Fatal(err)
	}
	missing(buses[0], "whole")
	killed.kill()
	if got := missing(buses[0], "partial"); got != strings.TrimSpace(string(name)) {
		t.Errorf("without the bus %s, the other misses %s", name, got)
	}
	again()
	for _, at := range buses {
		missing(at, "whole")
	}
}

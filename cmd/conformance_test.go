package cmd_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
	"github.com/nats-io/nats-server/v2/server"
)

// TestConformance_SeesPeersOfCluster checks that a bus without peers is refused if another bus of
// its cluster has the spawner, because the cases would take it over.
func TestConformance_SeesPeersOfCluster(t *testing.T) {
	nats := startNATS(t, server.RANDOM_PORT)
	var buses []string
	for i := range 2 {
		address := bustest.FreeAddress(t)
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

// TestConformance_OurHostPasses runs the kit for hosts as the program of two agents: one takes all
// capabilities, the other lacks some.
func TestConformance_OurHostPasses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	s := newBrokerFixture(t, true)
	const logged = "a line for the log"
	for name, c := range map[string]struct{ lacks, ends, last, counts string }{
		"all": {"", "completed", "idempotent", "11 passed, 0 failed, 5 skipped"}, // it had one question
		"some": {" --lacks delivery.redelivery --lacks chatTools.reactionSignals --lacks chatTools.defer --lacks utilities.logging", "failed",
			"known", "10 passed, 0 failed, 6 skipped"}, // its only event was not accepted
	} {
		t.Run(name, func(t *testing.T) {
			s := &brokerFixture{t: t, url: s.url, data: s.data}
			report := filepath.Join(t.TempDir(), "report.txt")
			agent := start(t, t, "hubbub-agent", []string{"HUBBUB_DATA=" + t.TempDir(), "HUBBUB_BUS=" + s.url}, "--id="+name, "--harness=c2a", "--compose-window=50ms",
				"--harness-command="+built(t, "hubbub")+" conformance c2a-host --contract --report "+report+c.lacks)
			s.until(name+` +online`, "who")
			out, _ := s.run("invoke", name, "is the deploy blocked?", "--as", "will", "--json")
			var flight struct{ ID string }
			if err := json.Unmarshal([]byte(out), &flight); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			s.until("since .*: flight .* is "+c.ends, "why", flight.ID)
			said := regexp.MustCompile("ok +" + c.last)
			for deadline := time.Now().Add(2 * patience); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
				if now, err := os.ReadFile(report); err == nil && said.Match(now) {
					break
				}
			}
			agent.stop()
			got, err := os.ReadFile(report)
			if err != nil || !strings.Contains(string(got), c.counts) {
				t.Errorf("%v\n%s", err, got)
			}
			if has := strings.Contains(agent.whole(), logged); has != (c.lacks == "") {
				t.Errorf("the agent's log has the line of the program: %t", has)
			}
		})
	}
}

// TestConformance_OurHostPassesInGroup runs the kit for hosts as the program of a group's agent. A
// reaction, a deferral, an edit and a mention of its role test every case.
func TestConformance_OurHostPassesInGroup(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	report := filepath.Join(t.TempDir(), "report.txt")
	s := newFixture(t, "--harness=c2a", "--role=backend-agents",
		"--harness-command="+built(t, "hubbub")+" conformance c2a-host --contract --report "+report)
	s.start("broker")
	will := s.api.User("Will")
	room := s.api.Group(-100600, "Team")
	address := "@" + s.api.Bot().Username
	until := func(lines ...string) {
		t.Helper()
		said := ""
		s.await(strings.Join(lines, ", "), func() bool {
			raw, err := os.ReadFile(report)
			said = string(raw)
			return err == nil && !slices.ContainsFunc(lines, func(l string) bool {
				return !regexp.MustCompile("(?m)^" + l).MatchString(said)
			})
		})
	}
	asked := s.api.Say(room, will, address+" is the deploy blocked?")
	until("ok +envelope") // it is not accepted at first
	s.api.EditText(asked, address+" is the build blocked?")
	until("ok +edited", "ok +cancelled")
	deferred := func(n int) {
		t.Helper()
		s.await("a deferral", func() bool {
			list := slices.DeleteFunc(recordsOf[protocol.Disposition](s), func(r *protocol.Disposition) bool { return r.Disposition != "deferred" })
			return len(list) == n
		})
	}
	deferred(1)
	s.api.EditText(asked, address+" are the tests blocked?") // a new event, which is not accepted at first
	s.awaitTexts(room, 1)
	until("ok +redelivery", "ok +idempotent", "ok +audience")
	said := s.api.Messages(room.ID)
	answer := said[slices.IndexFunc(said, func(m *models.Message) bool { return m.From != nil && m.From.ID == s.api.Bot().ID })]
	s.api.React(room, will, answer.ID, nil, "👍")
	until("ok +signals")
	s.api.Say(room, will, address+" and who knows?")
	deferred(2)
	s.api.Say(room, will, address+" and when?")
	s.awaitTexts(room, 3)
	until("ok +deferred")
	s.api.Say(room, will, "@backend-agents who can look at the deploy?")
	s.awaitTexts(room, 4)
	until("ok +granted", "16 passed, 0 failed, 0 skipped")
}

package systemd_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/bus/grant"
	"hubbub/peers/peer"
	"hubbub/peers/system"
	"hubbub/peers/system/systemd"
	"hubbub/protocol"
)

// talk is an agent that goes to its bus, says that it is online, and answers
// with its process id.
func talk(args []string) int {
	ctx := context.Background()
	token, err := os.ReadFile(value(args, "--token-file"))
	if err != nil {
		return 3
	}
	id := protocol.PeerID("agent:" + value(args, "--id"))
	p := peer.New(id, &peer.Options{Buses: []string{value(args, "--bus")}, Token: strings.TrimSpace(string(token))})
	p.Subscribe(ctx, protocol.Pattern(id))
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	online := p.NewMessage(protocol.TypeAgentEvent, protocol.AgentOnline{Event: "online", Agent: id})
	for {
		if r, err := p.Send(ctx, protocol.TopicAgents, online); err == nil && r.DeliveredTo > 0 {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	<-done
	return 1
}

// TestSystemdSpawner runs the spawner on a bus with credentials: the agent gets
// one of its own, goes on when the spawner ends, is adopted, and loses it with the
// end of its work.
func TestSystemdSpawner(t *testing.T) {
	needSystemd(t)
	file := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	own, err := file.Create(grant.Credential{
		Name: "system", Identities: []string{"agent:system"}, Subscribe: []string{"system:*"},
		Publish: []string{"system:*", "tg:*", "collab:*"}, Issue: []string{"agent:*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.StartClosed(t, file)
	bridge := joinBridge(t, b, file)
	folder, self := t.TempDir(), executable(t)
	run := func(opts system.Options) (stop func()) {
		db, err := system.Open(filepath.Join(folder, "system.db"))
		if err != nil {
			t.Fatal(err)
		}
		ready := make(chan struct{})
		opts.Peer = &peer.Options{Buses: []string{b.URL()}, Token: own}
		opts.Credentials, opts.Args, opts.OnReady = true, []string{"--talk"}, func() { close(ready) }
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		s := system.New(db, systemd.New(folder, &systemd.Options{StopTimeout: 2 * time.Second}), self, filepath.Join(folder, "launch"), &opts)
		go func() { done <- s.Run(ctx) }()
		<-ready
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			db.Close()
		}
	}
	ask := func(id string) protocol.SpawnResult {
		m := protocol.NewMessage(protocol.TypeSpawnRequest, "tg:77", protocol.SpawnRequest{RequestID: id})
		if r, err := bridge.Send(t.Context(), protocol.TopicSpawn, m); err != nil || r.DeliveredTo != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		var r protocol.SpawnResult
		for r.RequestID != id || r.Status == "" {
			r = protocol.SpawnResult{}
			if err := (<-bridge.got).Decode(&r); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	defer systemctl("stop", "hubbub-agent-tg-77.service").Run()

	stop := run(system.Options{})
	if r := ask("first"); r.Status != "spawned" || r.Agent != "agent:tg-77" {
		t.Fatalf("%+v", r)
	}
	first := mainPID(t)
	token, err := os.ReadFile(filepath.Join(folder, "launch", "tg-77.token"))
	if err != nil {
		t.Fatal(err)
	}
	stop()
	if mainPID(t) != first {
		t.Fatal("the agent ended with its spawner")
	}
	stop = run(system.Options{IdleStop: 2 * time.Second})
	if r := ask("second"); r.Status != "spawned" || mainPID(t) != first {
		t.Fatalf("%+v, process %s and not %s", r, mainPID(t), first)
	}
	for mainPID(t) != "0" || whoami(t, b, string(token)) != http.StatusUnauthorized {
		<-time.After(50 * time.Millisecond) // until it is idle, and its credential is revoked
	}
	stop()
}

// A bridge is a peer with a credential that records what it gets.
type bridge struct {
	*peer.Peer
	got chan *peer.Delivery
}

func joinBridge(t *testing.T, b *bustest.Bus, file *grant.File) *bridge {
	t.Helper()
	token, err := file.Create(grant.Credential{
		Name: "tg", Identities: []string{"tg:*"}, Subscribe: []string{"tg:*"}, Publish: []string{"system:*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &bridge{peer.New("tg:bot", &peer.Options{Buses: []string{b.URL()}, Token: token}), make(chan *peer.Delivery, 1000)}
	p.HandleAny(func(_ context.Context, d *peer.Delivery) error { p.got <- d; return nil })
	ctx, cancel := context.WithCancel(context.Background())
	if err := p.Subscribe(ctx, "tg:*"); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if err := p.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return p
}

func executable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

func mainPID(t *testing.T) string {
	t.Helper()
	out, err := systemctl("show", "--property=MainPID", "--value", "hubbub-agent-tg-77.service").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func whoami(t *testing.T, b *bustest.Bus, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http"+strings.TrimPrefix(b.URL(), "ws")+"/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(token))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

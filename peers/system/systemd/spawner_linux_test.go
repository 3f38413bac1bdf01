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
	"hubbub/peers/system/systemtest"
	"hubbub/protocol"
)

// requestSpawn requests the agent of tg:77 and returns the result.
func requestSpawn(t *testing.T, bridge *systemtest.Bridge, id string) protocol.SpawnResult {
	t.Helper()
	if !bridge.Ask(t, "tg:77", id) {
		t.Fatalf("nobody took the request %s", id)
	}
	var r protocol.SpawnResult
	for r.RequestID != id || r.Status == "" {
		r = protocol.SpawnResult{}
		if err := (<-bridge.Got).Decode(&r); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestSystemd_RunsTheSpawner runs the spawner on a bus with credentials. The agent gets one of
// its own, continues when the spawner ends, is adopted, and loses its credential when it is
// stopped.
func TestSystemd_RunsTheSpawner(t *testing.T) {
	needSystemd(t)
	file := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	own, err := file.Create(grant.Credential{
		Name: "system", Identities: []string{"agent:system"}, Subscribe: []string{"system:*"},
		Publish: []string{"system:*", "tg:*", "collab:*"}, Issue: []string{"agent:*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.StartWithCredentials(t, file)
	forBridge, err := file.Create(grant.Credential{
		Name: "tg", Identities: []string{"tg:*"}, Subscribe: []string{"tg:*"}, Publish: []string{"system:*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	bridge := systemtest.JoinBridge(t, b.URL(), forBridge)
	folder, self := t.TempDir(), executable(t)
	run := func(opts system.Options) (stop func()) {
		db, err := system.Open(filepath.Join(folder, "system.db"))
		if err != nil {
			t.Fatal(err)
		}
		ready := make(chan struct{})
		opts.Peer = &peer.Options{Buses: []string{b.URL()}, Token: own}
		opts.Args, opts.OnReady = []string{"--talk"}, func() { close(ready) }
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
	defer systemctl("stop", "hubbub-agent-tg-77.service").Run()

	stop := run(system.Options{})
	if r := requestSpawn(t, bridge, "first"); r.Status != "spawned" || r.Agent != "agent:tg-77" {
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
	if r := requestSpawn(t, bridge, "second"); r.Status != "spawned" || mainPID(t) != first {
		t.Fatalf("%+v, process %s and not %s", r, mainPID(t), first)
	}
	revoked := func() bool {
		status, _ := systemtest.Whoami(t, b.URL(), string(token))
		return status == http.StatusUnauthorized
	}
	for mainPID(t) != "0" || !revoked() {
		<-time.After(50 * time.Millisecond) // until it is idle, and its credential is revoked
	}
	stop()
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

package system_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/bus/grant"
	"hubbub/peers/peer"
	"hubbub/peers/system"
	"hubbub/peers/system/process"
	"hubbub/peers/system/systemtest"
	"hubbub/protocol"

	"github.com/rs/zerolog"
)

// TestMain makes this program an agent or a spawner when it is started as one.
func TestMain(m *testing.M) {
	switch {
	case slices.Contains(os.Args, "--id"):
		os.Exit(agentMain(os.Args[1:]))
	case os.Getenv("TEST_SPAWNER") != "":
		os.Exit(spawnerMain())
	}
	os.Exit(m.Run())
}

// kill kills this process with SIGKILL.
func kill() {
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// onceAt kills the process at a step, the first time that any process gets there.
func onceAt(folder, wanted string) func(step string) {
	return func(step string) {
		if step != wanted {
			return
		}
		f, err := os.OpenFile(filepath.Join(folder, "killed at "+strings.ReplaceAll(step, " ", "-")), os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			f.Close()
			kill()
		}
	}
}

// agentMain is an agent that holds a lock, to detect a second one.
func agentMain(args []string) int {
	data := systemtest.Value(args, "--data")
	crash := onceAt(data, os.Getenv("TEST_CRASH_AGENT"))
	lock, err := os.OpenFile(filepath.Join(data, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 3
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		os.WriteFile(filepath.Join(data, "double"), nil, 0o600)
		return 4
	}
	crash("agent started")
	os.WriteFile(filepath.Join(data, "pid"), []byte(strconv.Itoa(os.Getpid())), 0o600)
	return systemtest.Agent(args, crash)
}

// spawnerMain is a spawner that kills itself at a step.
func spawnerMain() int {
	folder := os.Getenv("TEST_SPAWNER")
	db, err := system.Open(filepath.Join(folder, "system.db"))
	if err != nil {
		return 3
	}
	self, err := os.Executable()
	if err != nil {
		return 3
	}
	log := zerolog.New(os.Stderr)
	opts := &system.Options{
		Peer:       &peer.Options{Buses: []string{os.Getenv("TEST_BUS")}, Token: os.Getenv("TEST_TOKEN")},
		MinBackoff: 20 * time.Millisecond, Log: &log,
		Env: func() ([]string, error) { return []string{"TEST_CRASH_AGENT=" + os.Getenv("TEST_CRASH_AGENT")}, nil },
	}
	opts.CrashWith(onceAt(folder, os.Getenv("TEST_CRASH")))
	l := process.New(folder, &process.Options{KeepAgents: os.Getenv("TEST_KEEP") == "true", Poll: 5 * time.Millisecond})
	if err := system.New(db, l, self, filepath.Join(folder, "launch"), opts).Run(context.Background()); err != nil {
		return 1
	}
	return 0
}

// bridgeToken makes the credential of a bridge.
func bridgeToken(t *testing.T, file *grant.File) string {
	t.Helper()
	token, err := file.Create(grant.Credential{
		Name: "tg", Identities: []string{"tg:*"}, Subscribe: []string{"tg:*"}, Publish: []string{"system:*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// A spawnerProcess is a spawner in a process of its own, on a bus with credentials.
type spawnerProcess struct {
	t      *testing.T
	bus    *bustest.Bus
	file   *grant.File
	folder string
	env    []string
	bridge *systemtest.Bridge
	cmd    *exec.Cmd
	ended  chan error
	output bytes.Buffer
}

func startSpawnerProcess(t *testing.T, env ...string) *spawnerProcess {
	t.Helper()
	file := grant.NewFile(filepath.Join(t.TempDir(), grant.FileName))
	own, err := file.Create(grant.Credential{
		Name: "system", Identities: []string{"agent:system"}, Subscribe: []string{"system:*"},
		Publish: []string{"system:*", "tg:*", "collab:*"}, Issue: []string{"agent:*"},
	})
	if err != nil {
		t.Fatal(err)
	}
	b := bustest.StartWithCredentials(t, file)
	tr := &spawnerProcess{t: t, bus: b, file: file, folder: t.TempDir(), bridge: systemtest.JoinBridge(t, b.URL(), bridgeToken(t, file))}
	tr.env = append(os.Environ(), "TEST_SPAWNER="+tr.folder, "TEST_BUS="+b.URL(), "TEST_TOKEN="+own)
	tr.env = append(tr.env, env...)
	tr.start()
	t.Cleanup(func() {
		tr.cmd.Process.Kill()
		<-tr.ended
		if pid := tr.pid(); pid > 0 {
			syscall.Kill(-pid, syscall.SIGKILL)
		}
		if t.Failed() {
			t.Logf("the spawner's log:\n%s", tr.output.String())
		}
	})
	return tr
}

func (tr *spawnerProcess) start() {
	tr.t.Helper()
	self, err := os.Executable()
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.cmd = exec.Command(self)
	tr.cmd.Env = tr.env
	tr.cmd.Stderr = &tr.output
	if err := tr.cmd.Start(); err != nil {
		tr.t.Fatal(err)
	}
	cmd, ended := tr.cmd, make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	tr.ended = ended
}

// restartIfKilled starts the spawner again if it was killed.
func (tr *spawnerProcess) restartIfKilled() {
	select {
	case <-tr.ended:
		tr.start()
	default:
	}
}

// until revives the spawner until something holds.
func (tr *spawnerProcess) until(what string, holds func() bool) {
	tr.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			tr.t.Fatal("it never happens that", what)
		}
		tr.restartIfKilled()
		<-time.After(5 * time.Millisecond) // of other processes, which no clock of ours drives
	}
}

// ask sends a request until it is accepted, once.
func (tr *spawnerProcess) ask(id string) {
	tr.t.Helper()
	tr.until("the request is taken", func() bool { return tr.bridge.Ask(tr.t, "tg:5", id) })
}

// answers collects the answers to a request until the chat has its route.
func (tr *spawnerProcess) answers(id string) (agent protocol.PeerID) {
	tr.t.Helper()
	tr.until("the chat has a route for "+id, func() bool {
		for len(tr.bridge.Got) > 0 {
			var c protocol.SpawnResult
			d := <-tr.bridge.Got
			if err := d.Decode(&c); err != nil {
				tr.t.Fatal(err)
			}
			if c.Status == protocol.SpawnFailed {
				tr.t.Fatalf("the spawn failed: %+v", c)
			}
			if d.Message.Type == protocol.TypeRouteAssigned && c.RequestID == id {
				agent = c.Agent
			}
		}
		return agent != ""
	})
	return agent
}

func (tr *spawnerProcess) agentFile(name string) string {
	return filepath.Join(tr.folder, "agents", "tg-5", name)
}

func (tr *spawnerProcess) pid() int {
	b, err := os.ReadFile(tr.agentFile("pid"))
	if err != nil {
		return 0
	}
	pid, _ := strconv.Atoi(string(b))
	return pid
}

// processes returns the running agents of this trial.
func (tr *spawnerProcess) processes() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		tr.t.Fatal(err)
	}
	var found []int
	for _, e := range entries {
		line, err := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		pid, bad := strconv.Atoi(e.Name())
		if err == nil && bad == nil && bytes.Contains(line, []byte("--id\x00tg-5\x00")) && bytes.Contains(line, []byte(tr.folder+"/")) {
			found = append(found, pid)
		}
	}
	return found
}

// credentials returns the names of the credentials that the bus has for agents.
func (tr *spawnerProcess) credentials() []string {
	var names []string
	tr.file.Reload()
	for _, c := range tr.file.List() {
		if strings.HasPrefix(c.Name, "agent.") {
			names = append(names, c.Name)
		}
	}
	return names
}

// check checks that one agent is running, never two, with one valid credential.
func (tr *spawnerProcess) check() {
	tr.t.Helper()
	if _, err := os.Stat(tr.agentFile("double")); err == nil {
		tr.t.Error("two agents ran at a time")
	}
	tr.until("one agent runs", func() bool { return len(tr.processes()) == 1 && slices.Contains(tr.processes(), tr.pid()) })
	tr.until("one credential is left", func() bool { return len(tr.credentials()) == 1 })
	token, err := os.ReadFile(filepath.Join(tr.folder, "launch", "tg-5.token"))
	if err != nil {
		tr.t.Fatal(err)
	}
	_, grants := systemtest.Whoami(tr.t, tr.bus.URL(), string(token))
	want := `"identities":["agent:tg-5"],"subscribe":["agent:tg-5"],"publish":["system:*","collab:*","tg:5"]`
	if !strings.Contains(grants, want) {
		tr.t.Errorf("the credential is %s", grants)
	}
}

// killed reports whether a process was killed at a step.
func (tr *spawnerProcess) killed(step string) bool {
	mark := "killed at " + strings.ReplaceAll(step, " ", "-")
	for _, path := range []string{filepath.Join(tr.folder, mark), tr.agentFile(mark)} {
		if _, err := os.Stat(path); err == nil {
			return true
		}
	}
	return false
}

var steps = []string{
	"request received", "request stored", "credential named", "credential issued", "credential stored",
	"before start", "started", "start stored", "online received", "online stored",
	"announced spawn_result", "announced route_assigned", "announced agent_event",
}

var agentSteps = []string{"agent started", "agent connected", "agent online"}

// TestSpawner_SurvivesAKillAtEveryStep kills the spawner, or the agent, once at each step of the
// bootstrap: the chat gets its agent anyway, and never two.
func TestSpawner_SurvivesAKillAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for _, keep := range []bool{false, true} {
		list := slices.Concat(steps, agentSteps)
		if !keep {
			list = slices.Concat(agentSteps, []string{"before start", "started", "start stored", "online received"}) // where it makes a difference
		}
		for _, step := range list {
			t.Run(fmt.Sprintf("%s keep=%v", step, keep), func(t *testing.T) {
				t.Parallel()
				env := "TEST_CRASH=" + step
				if slices.Contains(agentSteps, step) {
					env = "TEST_CRASH_AGENT=" + step
				}
				tr := startSpawnerProcess(t, env, fmt.Sprint("TEST_KEEP=", keep))
				tr.ask("r")
				if agent := tr.answers("r"); agent != "agent:tg-5" {
					t.Errorf("the agent is %s", agent)
				}
				tr.check()
				tr.until("somebody is killed at the step", func() bool { return tr.killed(step) })
				if !keep || !slices.Contains([]string{"before start", "started", "online stored", "agent online"}, step) {
					return
				}
				// Again, now that everything is running.
				tr.cmd.Process.Kill()
				tr.ask("again")
				if agent := tr.answers("again"); agent != "agent:tg-5" {
					t.Errorf("the agent is %s", agent)
				}
				tr.check()
			})
		}
	}
}

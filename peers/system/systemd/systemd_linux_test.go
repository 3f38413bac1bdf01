package systemd_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/peers/proc"
	"hubbub/peers/system"
	"hubbub/peers/system/systemd"
	"hubbub/peers/system/systemtest"

	"golang.org/x/sys/unix"
)

// TestMain makes this program an agent when it is started as one.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "--id") {
		os.Exit(agent(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// A report is what an agent writes about itself, in its data folder.
type report struct {
	PID         int
	UID         int
	Args, Env   []string
	Token       string
	EtcWritable bool
	Dir         string
	NoNewPrivs  bool
	TimerSlack  string
	Processes   int // that it could start
	Could       []string
}

// attempts are what an agent that was taken over would try.
var attempts = map[string]func() error{
	"read homes": func() error { _, err := os.ReadDir("/root"); return err },
	"read proc":  func() error { _, err := os.Stat("/proc/meminfo"); return err },
	"see others": func() error { _, err := os.Stat("/proc/1"); return err },
	"sniff":      func() error { return use(unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)) },
	"netlink":    func() error { return use(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, 0)) },
	"talk":       func() error { return use(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)) },
	"namespaces": func() error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
		return cmd.Run()
	},
	"jit": func() error {
		_, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_ANON|unix.MAP_PRIVATE)
		return err
	},
	"mount":         func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") },
	"be nice":       func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, 5) },
	"write etc":     func() error { return os.WriteFile("/etc/written-by-an-agent", nil, 0o600) },
	"write here":    func() error { return os.WriteFile("work", nil, 0o600) },
	"write in /srv": func() error { return os.WriteFile("/srv/hubbub-work/file", nil, 0o600) },
}

func use(fd int, err error) error { return err }

// agent does what its arguments say.
func agent(args []string) int {
	if code := systemtest.Value(args, "--exit"); code != "" {
		n, _ := strconv.Atoi(code)
		return n
	}
	if slices.Contains(args, "--greedy") {
		all := [][]byte{}
		for range 512 {
			b := make([]byte, 1<<20)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			all = append(all, b)
		}
		runtime.KeepAlive(all)
		return 0
	}
	if slices.Contains(args, "--bus") && slices.Contains(args, "--talk") {
		return systemtest.Agent(args, nil)
	}
	r := report{PID: os.Getpid(), UID: os.Getuid(), Args: args, Env: os.Environ()}
	r.Dir, _ = os.Getwd()
	token, _ := os.ReadFile(systemtest.Value(args, "--token-file"))
	r.Token = string(token)
	r.EtcWritable = os.WriteFile("/etc/written-by-an-agent", nil, 0o600) == nil
	status, _ := os.ReadFile("/proc/self/status")
	r.NoNewPrivs = bytes.Contains(status, []byte("NoNewPrivs:\t1"))
	slack, _ := os.ReadFile("/proc/self/timerslack_ns")
	r.TimerSlack = string(bytes.TrimSpace(slack))
	for name, try := range attempts {
		if try() == nil {
			r.Could = append(r.Could, name)
		}
	}
	slices.Sort(r.Could)
	if slices.Contains(args, "--many") {
		for range 100 {
			if exec.Command("/bin/sleep", "100").Start() == nil {
				r.Processes++
			}
		}
	}
	b, _ := json.Marshal(r)
	os.WriteFile("report.partial", b, 0o600)
	os.Rename("report.partial", "report")
	<-time.After(time.Hour)
	return 0
}

// A fixture is a launcher that runs, in a real systemd.
type fixture struct {
	*systemd.Launcher
	t      *testing.T
	folder string
}

// needSystemd skips a test unless the environment provides a systemd for tests.
func needSystemd(t *testing.T) {
	t.Helper()
	if os.Getenv("HUBBUB_TEST_SYSTEMD") == "" {
		t.Skip("needs a real systemd: make test-systemd")
	}
}

// needController skips a test of a limit where the manager has no such part of
// the kernel's accounting, in either version of cgroups.
func needController(t *testing.T, name string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("limits are tested with the system's manager")
	}
	unified, err := os.ReadFile("/sys/fs/cgroup/cgroup.controllers")
	if err == nil && slices.Contains(strings.Fields(string(unified)), name) {
		return
	}
	if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", name)); err != nil {
		t.Skipf("the kernel gives this systemd no %s controller", name)
	}
}

// systemctl talks to the manager that the launcher talks to.
func systemctl(args ...string) *exec.Cmd {
	if os.Getuid() != 0 {
		args = append([]string{"--user"}, args...)
	}
	return exec.Command("systemctl", args...)
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	needSystemd(t)
	folder := t.TempDir()
	return &fixture{launcher(t, folder), t, folder}
}

func launcher(t *testing.T, folder string) *systemd.Launcher {
	l := systemd.New(folder, &systemd.Options{StopTimeout: 2 * time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l
}

func (h *fixture) spec(name system.AgentName, args ...string) system.Spec {
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	place := h.Paths(name)
	token := filepath.Join(h.folder, "token")
	if err := os.WriteFile(token, []byte("the-token"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return system.Spec{
		Name: name, Command: self, TokenFile: token,
		Args: append([]string{"--id", string(name), "--data", place.Data, "--token-file", place.TokenFile}, args...),
	}
}

func (h *fixture) start(spec system.Spec) system.Instance {
	h.t.Helper()
	os.RemoveAll(h.Paths(spec.Name).Data + "/report")
	inst, err := h.Start(h.t.Context(), spec)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := inst.Stop(context.Background()); err != nil {
			h.t.Error(err)
		}
	})
	return inst
}

func (h *fixture) report(name system.AgentName) report {
	h.t.Helper()
	var r report
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		b, err := os.ReadFile(filepath.Join(h.Paths(name).Data, "report"))
		if err == nil && json.Unmarshal(b, &r) == nil {
			return r
		}
		<-time.After(5 * time.Millisecond) // of another process, which no clock of ours drives
	}
	out, _ := exec.Command("journalctl", "-n", "20", "-t", "hubbub-agent-"+string(name)).CombinedOutput()
	h.t.Fatalf("%s reports nothing:\n%s", name, out)
	return r
}

func TestSystemd_ConfinesTheAgent(t *testing.T) {
	h := newFixture(t)
	odd := []string{"$HOME ${PATH} %i %h $$", "a b", `"quoted"`, "", "--x=;|&"}
	spec := h.spec("confined", odd...)
	secret := "s3cret \"with\" $quotes `and` \\ backslash"
	spec.Env = []string{"KEY=" + secret, "EMPTY=", "LINES=one\ntwo"}
	inst := h.start(spec)
	r := h.report("confined")
	if got := r.Args[6:]; !slices.Equal(got, odd) {
		t.Errorf("arguments %q; want %q", got, odd)
	}
	for _, kv := range spec.Env {
		if !slices.Contains(r.Env, kv) {
			t.Errorf("%q is missing in the environment", kv)
		}
	}
	if r.Token != "the-token" {
		t.Errorf("token %q", r.Token)
	}
	if want := strconv.FormatInt(int64(proc.TimerSlack), 10); r.TimerSlack != want {
		t.Errorf("the timer slack is %s ns; want %s", r.TimerSlack, want)
	}
	if r.UID == 0 || r.EtcWritable || !r.NoNewPrivs || !strings.HasSuffix(r.Dir, "confined") {
		t.Errorf("user %d, /etc writable %v, no new privileges %v, in %s", r.UID, r.EtcWritable, r.NoNewPrivs, r.Dir)
	}
	if os.Getuid() == 0 {
		if want := []string{"talk", "write here"}; !slices.Equal(r.Could, want) {
			t.Errorf("it could %q; want %q", r.Could, want)
		}
		unit := filepath.Join(h.folder, "hubbub-agent-confined.service")
		text, err := os.ReadFile("/run/systemd/transient/hubbub-agent-confined.service")
		if err == nil { // systemd does not read this word of its own in a file
			err = os.WriteFile(unit, bytes.ReplaceAll(text, []byte("ExecStartEx="), []byte("ExecStart=")), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("systemd-analyze", "security", "--no-pager", "--offline=true", "--threshold=19", unit).CombinedOutput()
		if err != nil {
			t.Errorf("its exposure: %v, %s", err, out)
		}
		t.Logf("%s", out[max(0, bytes.LastIndex(out, []byte("Overall"))):])
	} else if slices.Contains(r.Could, "sniff") || slices.Contains(r.Could, "namespaces") || slices.Contains(r.Could, "jit") || slices.Contains(r.Could, "mount") {
		t.Errorf("it could %q", r.Could)
	}
	shown, err := systemctl("show", "hubbub-agent-confined.service").CombinedOutput()
	if err != nil || bytes.Contains(shown, []byte("s3cret")) || bytes.Contains(shown, []byte("the-token")) {
		t.Errorf("systemctl shows a secret, or %v", err)
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.PID))
	if err != nil || bytes.Contains(line, []byte("the-token")) {
		t.Errorf("arguments show the token, or %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(h.folder, "launch", "*.env-*")); len(left) != 0 {
		t.Errorf("environments are left behind: %v", left)
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	// systemd removes the rest of the process shortly after it has reported the end.
	for !errors.Is(syscall.Kill(r.PID, 0), syscall.ESRCH) {
		if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", r.PID)); err == nil && !bytes.Contains(status, []byte("State:\tZ")) && !bytes.Contains(status, []byte("State:\tX")) {
			t.Fatalf("it runs after its stop:\n%s", status)
		}
	}
	if err := inst.Stop(t.Context()); err != nil {
		t.Errorf("stopping twice: %v", err)
	}
}

// TestSystemd_UnitsAllowWhatTheSpecNames checks that a unit allows what the spec names, and nothing
// else.
func TestSystemd_UnitsAllowWhatTheSpecNames(t *testing.T) {
	h := newFixture(t)
	if os.Getuid() != 0 {
		t.Skip("a user's manager does not confine as much")
	}
	if err := errors.Join(os.MkdirAll("/srv/hubbub-work", 0o777), os.Chmod("/srv/hubbub-work", 0o777)); err != nil {
		t.Fatal(err)
	}
	spec := h.spec("needs")
	spec.Unit = []string{
		"MemoryDenyWriteExecute=no", "ProcSubset=all", "RestrictNamespaces=no", "PrivateUsers=no", "ReadWritePaths=/srv/hubbub-work",
		"RestrictAddressFamilies=AF_NETLINK", "SystemCallFilter=@resources",
	}
	h.start(spec)
	if got, want := h.report("needs").Could, []string{"be nice", "jit", "namespaces", "netlink", "read proc", "talk", "write here", "write in /srv"}; !slices.Equal(got, want) {
		t.Errorf("it could %q; want %q", got, want)
	}
}

func TestSystemd_FindsUnitsByName(t *testing.T) {
	h := newFixture(t)
	spec := h.spec("found")
	if _, err := h.Find(t.Context(), spec, ""); !errors.Is(err, system.ErrNotRunning) {
		t.Fatal(err)
	}
	inst := h.start(spec)
	other := launcher(t, h.folder) // of another life
	found, err := other.Find(t.Context(), spec, "")
	if err != nil || found.Handle() != inst.Handle() {
		t.Fatalf("%v, %v; want %s", found, err, inst.Handle())
	}
	if _, err := other.Start(t.Context(), spec); err == nil {
		t.Error("the agent was started twice")
	}
	systemctl("kill", "--signal=KILL", "hubbub-agent-found.service").Run()
	var exit *system.Exit
	if err := inst.Wait(t.Context()); !errors.As(err, &exit) || exit.Reason != "killed by signal 9" {
		t.Errorf("%v", err)
	}
	if err := found.Wait(t.Context()); !errors.As(err, &exit) {
		t.Errorf("%v", err)
	}
	again := h.start(spec)
	if again.Handle() == inst.Handle() {
		t.Error("two runs have one handle")
	}
	if err := inst.Wait(t.Context()); !errors.As(err, &exit) {
		t.Errorf("an old run is taken for the new one: %v", err)
	}
}

func TestSystemd_TellsTheCauseOfAnEnd(t *testing.T) {
	h := newFixture(t)
	for code, hopeless := range map[string]bool{"0": false, "1": false, "2": true} {
		inst, err := h.Start(t.Context(), h.spec("ended", "--exit", code))
		var exit *system.Exit
		if err == nil {
			err = inst.Wait(t.Context())
		}
		if !errors.As(err, &exit) || exit.Permanent != hopeless || code != "0" && exit.Reason != "exit status "+code {
			t.Errorf("exit %s: %v", code, err)
		}
	}
	spec := h.spec("ended")
	spec.Command = "/nowhere/agent"
	if _, err := h.Start(t.Context(), spec); !errors.Is(err, system.ErrPermanent) {
		t.Errorf("a missing program: %v", err)
	}
	if out, err := systemctl("is-failed", "hubbub-agent-ended.service").CombinedOutput(); err == nil {
		t.Errorf("a failed unit is left behind: %s", out)
	}
	if _, err := h.Start(t.Context(), system.Spec{Name: "../x", Command: "/bin/true"}); !errors.Is(err, system.ErrPermanent) {
		t.Error("a name that escapes:", err)
	}
}

func TestSystemd_LimitsMemory(t *testing.T) {
	h := newFixture(t)
	needController(t, "memory")
	spec := h.spec("memory", "--greedy")
	inst, err := h.Start(t.Context(), spec)
	if err == nil {
		err = inst.Wait(t.Context())
	}
	var exit *system.Exit
	if !errors.As(err, &exit) || strings.Contains(exit.Reason, "kill") || strings.Contains(exit.Reason, "memory") {
		t.Fatalf("without a limit: %v", err)
	}
	spec.Limits.Memory = 100 << 20
	inst, err = h.Start(t.Context(), spec)
	if err == nil {
		err = inst.Wait(t.Context())
	}
	want := "out of memory; its limit is 100 MiB (--memory-max)"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil { // only with cgroup version 2 does systemd know the reason
		want = "killed by signal 9, as the kernel does when memory is exhausted; its limit is 100 MiB (--memory-max)"
	}
	if !errors.As(err, &exit) || !strings.Contains(exit.Reason, want) {
		t.Errorf("with 100M for 512M: %v", err)
	}
	t.Log(exit)
}

func TestSystemd_LimitsTasks(t *testing.T) {
	h := newFixture(t)
	needController(t, "pids")
	spec := h.spec("tasks", "--many")
	spec.Limits.Tasks = 30
	h.start(spec)
	if n := h.report("tasks").Processes; n == 0 || n >= 30 {
		t.Errorf("%d processes with TasksMax=30", n)
	}
	spec = h.spec("tasks-free", "--many")
	h.start(spec)
	if n := h.report("tasks-free").Processes; n != 100 {
		t.Errorf("%d processes without a limit", n)
	}
}

func TestSystemd_LimitsTheRuntime(t *testing.T) {
	h := newFixture(t)
	spec := h.spec("runtime")
	spec.Limits.Runtime = time.Second
	inst := h.start(spec)
	var exit *system.Exit
	if err := inst.Wait(t.Context()); !errors.As(err, &exit) || !strings.Contains(exit.Reason, "its maximum run time was reached") {
		t.Errorf("%v", err)
	}
}

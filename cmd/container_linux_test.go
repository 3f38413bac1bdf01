package cmd_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"hubbub/bus/bustest"
)

// asInit returns a command that runs as the first process of new namespaces, or skips the test.
func asInit(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	unshare := []string{"--pid", "--fork", "--mount-proc", "--kill-child"}
	if os.Geteuid() != 0 {
		unshare = append(unshare, "--user", "--map-root-user")
	}
	if err := exec.CommandContext(t.Context(), "unshare", append(unshare, "true")...).Run(); err != nil {
		t.Skipf("namespaces cannot be made here: %v", err)
	}
	return exec.CommandContext(t.Context(), "unshare", append(append(unshare, name), args...)...)
}

// TestFirstProcess_ReapsOrphans runs the spawner as the first process of a container. Its agent
// leaves an orphan that ends: nothing remains of it.
func TestFirstProcess_ReapsOrphans(t *testing.T) {
	t.Parallel()
	address, data := bustest.FreeAddress(t), t.TempDir()
	agent := filepath.Join(data, "agent")
	script := "#!/bin/sh\n(sh -c 'echo $$ >\"$0.orphan\"; exec sleep 0.1' " + agent + " &)\nexec sleep 600\n"
	if err := os.WriteFile(agent, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	start(t, t, "hubbub-bus", nil, "--listen", address, "--data", filepath.Join(data, "bus"))
	p := &process{t: t, name: "hubbub-system", sign: readySign}
	p.cmd = asInit(t, built(t, "hubbub-system"), "--bus", "ws://"+address, "--data", filepath.Join(data, "system"), "--agent-command", agent)
	p.cmd.Stderr = p
	p.start(t)
	hubbub := exec.CommandContext(t.Context(), built(t, "hubbub"), "pub", "system:spawn", "--bus", "ws://"+address, "--data", data,
		"--type", "spawn_request", "--content", `{"topic":"tg:5","requestId":"r1"}`)
	if out, err := hubbub.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	await(t, "the orphan", func() bool {
		orphan, err := os.ReadFile(agent + ".orphan")
		return err == nil && bytes.HasSuffix(orphan, []byte("\n"))
	})
	first := childrenOf(t, p.cmd.Process.Pid)
	if len(first) != 1 {
		t.Fatalf("%d first processes", len(first))
	}
	await(t, "the end of the orphan", func() bool { return len(childrenOf(t, first[0])) == 1 })
	if err := syscall.Kill(first[0], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("SIGTERM is not forwarded")
	}
	if p.err != nil {
		t.Errorf("it ends with %v:\n%s", p.err, p.text())
	}
}

// TestFirstProcess_IsNotStoppedByCtrlZ checks that a program which Ctrl-Z would stop still handles
// SIGTERM.
func TestFirstProcess_IsNotStoppedByCtrlZ(t *testing.T) {
	t.Parallel()
	p := &process{t: t, name: "hubbub-bus", sign: readySign}
	p.cmd = asInit(t, built(t, "hubbub-bus"), "--listen", bustest.FreeAddress(t), "--data", t.TempDir())
	p.cmd.Stderr = p
	p.start(t)
	first := childrenOf(t, p.cmd.Process.Pid)
	if len(first) != 1 {
		t.Fatalf("%d first processes", len(first))
	}
	for _, program := range childrenOf(t, first[0]) {
		if err := syscall.Kill(-program, syscall.SIGTSTP); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Kill(first[0], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		t.Fatal("it stays stopped")
	}
	if p.err != nil {
		t.Errorf("it ends with %v:\n%s", p.err, p.text())
	}
}

// TestFirstProcess_ReturnsTheExitCode checks the codes of success, failure, wrong usage and a crash.
func TestFirstProcess_ReturnsTheExitCode(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code int
		args string
	}{
		{0, "hubbub --version"},
		{0, "hubbub-bus --help"},
		{2, "hubbub-bus --listen nowhere"},
		{2, "hubbub-agent"},
		{1, "hubbub-bus --tls-cert /no/file --tls-key /no/file"},
		{1, "hubbub peers --bus ws://127.0.0.1:1"},
	} {
		words := strings.Fields(c.args)
		cmd := asInit(t, built(t, words[0]), words[1:]...)
		cmd.Env = append(os.Environ(), "HUBBUB_DATA="+t.TempDir())
		out, _ := cmd.CombinedOutput() //nolint:errcheck // its code is what counts
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s: exit %d, want %d:\n%s", c.args, code, c.code, out)
		}
	}
}

// await waits until ok returns true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.After(patience); ; {
		began := time.Now()
		if ok() {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("%s never came", what)
		case <-pauseSince(began):
		}
	}
}

// childrenOf returns the children of a process.
func childrenOf(t *testing.T, pid int) (list []int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range threads {
		raw, _ := os.ReadFile(file) //nolint:errcheck // the thread may have ended
		for word := range strings.FieldsSeq(string(raw)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, child)
		}
	}
	return list
}

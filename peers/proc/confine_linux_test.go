package proc_test

import (
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"hubbub/peers/proc"
)

// TestStart_LetsTimersOfConfinedProcessesBeLate checks the slack of a confined process. Processes
// that are started later, from other threads, keep the default.
func TestStart_LetsTimersOfConfinedProcessesBeLate(t *testing.T) {
	slack := func(confined bool) (ns string) {
		t.Helper()
		p, err := proc.Start(exec.Command("/bin/cat", "/proc/self/timerslack_ns"),
			&proc.Options{Confined: confined, OnLine: func(line []byte) { ns = string(line) }})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		return ns
	}
	own := slack(false)
	for range 20 {
		if got := slack(true); got != "250000" {
			t.Fatalf("a confined process has a slack of %s ns; want 250000", got)
		}
		if got := slack(false); got != own {
			t.Fatalf("another process has a slack of %s ns; want %s as before", got, own)
		}
	}
}

// TestEnd_KillsTheSessionOfAConfinedProcess leaves a process in another group of the session, which holds a
// pipe open.
func TestEnd_KillsTheSessionOfAConfinedProcess(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := command("holder")
	cmd.Stdout = w
	p, err := proc.Start(cmd, &proc.Options{Confined: true})
	w.Close() //nolint:errcheck // the process has its own
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if out, err := io.ReadAll(r); err != nil {
		t.Errorf("a process of the session lives on: %v, after %q", err, out)
	}
}

// TestKillDependents_KillsWholeGroups uses a process with a child, which holds a pipe open, and a process that
// stops when its owner ends.
func TestKillDependents_KillsWholeGroups(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	family := exec.Command("/bin/sh", "-c", "sleep 600 & echo ready; wait")
	family.Stdout = w
	killed, err := proc.Start(family, &proc.Options{ParentDeathSignal: syscall.SIGKILL})
	w.Close() //nolint:errcheck // the process has its own
	if err != nil {
		t.Fatal(err)
	}
	other, err := proc.Start(exec.Command("/bin/sleep", "600"), &proc.Options{ParentDeathSignal: syscall.SIGTERM})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	proc.KillDependents()
	if err := r.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(r); err != nil {
		t.Errorf("a child of the process lives on: %v", err)
	}
	if err := killed.Wait(); err == nil {
		t.Error("the process was not killed")
	}
	select {
	case <-other.Done():
		t.Error("a process was killed that should stop when its owner ends")
	default:
	}
	other.Stop(t.Context(), time.Minute)
}

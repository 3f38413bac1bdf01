package process_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/system"
	"hubbub/peers/system/process"

	"golang.org/x/sys/unix"
)

// TestLaunch_ConfinesTheAgent checks that an agent leads a session, and that neither it nor its children
// gain privileges, leave core dumps or exceed its limits. The launcher itself is not confined.
func TestLaunch_ConfinesTheAgent(t *testing.T) {
	l := process.New(t.TempDir(), nil)
	spec := specOf(l, "x", "--family")
	spec.Limits = system.Limits{Memory: 8 << 40, Tasks: 100, Files: 77}
	_, agent := start(t, l, spec)
	for _, pid := range []int{agent, number(t, filepath.Join(l.Paths("x").Data, "child"))} {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || !bytes.Contains(status, []byte("NoNewPrivs:\t1\n")) {
			t.Errorf("process %d may gain privileges: %v", pid, err)
		}
		for resource, want := range map[int]uint64{unix.RLIMIT_DATA: 8 << 40, unix.RLIMIT_NOFILE: 77, unix.RLIMIT_CORE: 0} {
			var is unix.Rlimit
			if err := unix.Prlimit(pid, resource, nil, &is); err != nil || is.Max != want {
				t.Errorf("process %d has %d of resource %d, %v; want %d", pid, is.Max, resource, err, want)
			}
		}
		var tasks unix.Rlimit
		if err := unix.Prlimit(pid, unix.RLIMIT_NPROC, nil, &tasks); err != nil || tasks.Max <= 100 || tasks.Max > 50_000 {
			t.Errorf("the user of process %d may have %d tasks, %v", pid, tasks.Max, err)
		}
		if session, err := unix.Getsid(pid); err != nil || session != agent {
			t.Errorf("process %d is in session %d, %v", pid, session, err)
		}
	}
	own, err := os.ReadFile("/proc/thread-self/status")
	if err != nil || bytes.Contains(own, []byte("NoNewPrivs:\t1\n")) {
		t.Skipf("this process may gain none either: %v", err)
	}
	for range 20 {
		if status, err := exec.Command("/bin/cat", "/proc/self/status").Output(); err != nil || !bytes.Contains(status, []byte("NoNewPrivs:\t0\n")) {
			t.Fatalf("the launcher gave up privileges itself: %v", err)
		}
	}
}

func TestLimits_BoundMemory(t *testing.T) {
	l := process.New(t.TempDir(), nil)
	spec := specOf(l, "x", "--greedy")
	spec.Limits.Memory = 200 << 20
	inst, err := l.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	err = inst.Wait(t.Context())
	log, _ := os.ReadFile(l.LogFile("x"))
	if bytes.Contains(log, []byte("pthread_create failed")) || bytes.HasPrefix(log, []byte("SIGSEGV: ")) {
		return // said in other words: no memory for a thread, with cgo, or for the runtime's garbage collector
	}
	var exit *system.Exit
	if !errors.As(err, &exit) || !strings.Contains(exit.Reason, ", out of memory; its limit is 200 MiB (--memory-max)") || exit.Permanent {
		t.Errorf("%v: %.200s", err, log)
	}
}

func TestStart_HidesTheEnvironmentFromOthers(t *testing.T) {
	l := process.New(t.TempDir(), nil)
	_, pid := start(t, l, specOf(l, "x"))
	checkModes(t, map[string]fs.FileMode{fmt.Sprintf("/proc/%d/environ", pid): 0o400})
}

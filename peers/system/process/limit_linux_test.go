package process_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

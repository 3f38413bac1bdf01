package proc_test

import (
	"os/exec"
	"testing"

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

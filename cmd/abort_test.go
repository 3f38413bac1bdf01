package cmd_test

import (
	"errors"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestAbort_ExitsWithoutUsageHelp sends each program the signal of systemd's watchdog. The
// program must end by a signal: Go's default, exit 2, would prevent a restart. The runtime may crash
// with another signal while it prints the stacks of running goroutines.
func TestAbort_ExitsWithoutUsageHelp(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	everyProgram(s)
	for name, p := range s.run {
		if err := p.cmd.Process.Signal(syscall.SIGABRT); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		var exit *exec.ExitError
		if !errors.As(p.err, &exit) {
			t.Errorf("%s ended with %v", name, p.err)
			continue
		}
		if status, ok := exit.Sys().(syscall.WaitStatus); !ok || !status.Signaled() {
			t.Errorf("%s ended with %v, not by a signal", name, exit)
		}
		p.mu.Lock()
		said := p.log.String()
		p.mu.Unlock()
		if !strings.Contains(said, "goroutine ") {
			t.Errorf("%s does not say what it was doing", name)
		}
	}
}

//go:build unix && !linux

package proc

import (
	"os/exec"
	"syscall"
)

// kernelSignalsDependents is false: only KillDependents sends Options.ParentDeathSignal.
const kernelSignalsDependents = false

// sysProcAttr puts a process into a group of its own, or into a session.
func sysProcAttr(_ syscall.Signal, session bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: !session, Setsid: session}
}

// confine does nothing: only Linux can take away privileges permanently.
func confine() error { return nil }

// KillSession does nothing: only Linux lists the processes of a session.
func KillSession(int) {}

// wait waits for the end of a process and then calls ended.
func wait(cmd *exec.Cmd, ended func()) error {
	defer ended()
	return cmd.Wait()
}

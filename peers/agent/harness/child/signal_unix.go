//go:build unix

package child

import (
	"os/exec"
	"syscall"
)

func terminateGroup(cmd *exec.Cmd) { signalGroup(cmd, syscall.SIGTERM) }
func killGroup(cmd *exec.Cmd)      { signalGroup(cmd, syscall.SIGKILL) }

// signalGroup signals everything in the command's group. The group may be gone.
func signalGroup(cmd *exec.Cmd, s syscall.Signal) {
	if cmd.Process != nil && cmd.Process.Pid > 1 {
		syscall.Kill(-cmd.Process.Pid, s) //nolint:errcheck // nothing is left to signal
	}
}

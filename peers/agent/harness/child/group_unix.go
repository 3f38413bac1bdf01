//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// group gives a command a process group of its own.
func group(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

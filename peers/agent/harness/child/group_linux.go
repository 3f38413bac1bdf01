package child

import (
	"os/exec"
	"syscall"
)

// group gives a command a process group of its own, and has the kernel kill it
// when its owner dies.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

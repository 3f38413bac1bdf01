//go:build unix && !linux

package child

import (
	"os/exec"
	"syscall"
)

// attributes puts a process into a group of its own.
func attributes(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// wait waits for the end of a process and then calls ended.
func wait(cmd *exec.Cmd, ended func()) error {
	defer ended()
	return cmd.Wait()
}

package child

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes puts a process into a group of its own, and has the kernel signal it
// when the thread that started it ends.
func attributes(ownerDeath syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: ownerDeath}
}

// wait waits for the end of a process. It calls ended while the number of the
// process, which is that of its group, is still taken.
func wait(cmd *exec.Cmd, ended func()) error {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	ended()
	return cmd.Wait()
}

package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// sysProcAttr puts a process into a group of its own, or into a session, and has the
// kernel signal it when the thread that started it ends.
func sysProcAttr(ownerDeath syscall.Signal, session bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: !session, Setsid: session, Pdeathsig: ownerDeath}
}

// setNoNewPrivileges has this thread, and what it starts, gain no privileges by executing a
// program: setuid programs run as who called them.
func setNoNewPrivileges() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	return nil
}

// wait waits for the end of a process. It calls ended while the number of the
// process, which is that of its group, is still taken.
func wait(cmd *exec.Cmd, ended func()) error {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	ended()
	return cmd.Wait()
}

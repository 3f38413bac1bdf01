package proc

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// sysProcAttr puts a process into a group or session of its own. The kernel signals the process
// when the thread that started it ends.
func sysProcAttr(ownerDeath syscall.Signal, session bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: !session, Setsid: session, Pdeathsig: ownerDeath}
}

// confine prevents this thread and its children from gaining privileges: setuid programs run as
// their caller. It also lets their timers be late by TimerSlack.
func confine() error {
	unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(TimerSlack), 0, 0, 0) //nolint:errcheck // only slower without it
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("giving up new privileges: %w", err)
	}
	return nil
}

// wait waits for the end of a process. It calls ended before the process id, which is also that
// of the group, can be reused.
func wait(cmd *exec.Cmd, ended func()) error {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	ended()
	return cmd.Wait()
}

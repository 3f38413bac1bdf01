package proc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// kernelSignalsDependents says that the kernel sends Options.ParentDeathSignal.
const kernelSignalsDependents = true

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

// KillSession kills the processes in the session of an ended process. Linux does not reuse the id while
// the session has processes.
func KillSession(id int) {
	entries, _ := os.ReadDir("/proc") //nolint:errcheck // without /proc, they stay
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if session, err := unix.Getsid(pid); err == nil && session == id {
			syscall.Kill(pid, syscall.SIGKILL) //nolint:errcheck // it may have ended
		}
	}
}

// wait waits for the end of a process. It calls ended before the process id, which is also that
// of the group, can be reused.
func wait(cmd *exec.Cmd, ended func()) error {
	for errors.Is(unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	ended()
	return cmd.Wait()
}

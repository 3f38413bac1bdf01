package program

import (
	"os"
	"os/signal"
	"syscall"

	"hubbub/cmd/internal/term"
)

// runAsInit lets the first process of a container run the program as its child. The first process
// inherits and must reap every orphan, and the kernel does not let a signal of its own end it.
// runAsInit forwards signals to the child, reaps orphans, and returns the exit code of the child,
// or 128 plus the number of the signal that ended it. It reports false, and the caller runs the
// program itself, in any other process, or if no child can be started.
func runAsInit() (code int, done bool) {
	if os.Getpid() != 1 {
		return 0, false
	}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	defer signal.Stop(ended)
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGABRT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT)
	defer signal.Stop(signals)
	child, err := startSelf()
	if err != nil {
		return 0, false
	}
	for {
		select {
		case s := <-signals:
			syscall.Kill(child, s.(syscall.Signal)) //nolint:errcheck // it may have ended
		case <-ended:
			if status, ok := reap(child); ok {
				if status.Signaled() {
					return 128 + int(status.Signal()), true
				}
				return status.ExitStatus(), true
			}
		}
	}
}

// startSelf starts this program again, with the same arguments, environment and streams, and
// returns its process id. The child has a process group of its own, so that the terminal signals
// only the child.
func startSelf() (int, error) {
	path, err := os.Executable()
	if err != nil {
		return 0, err
	}
	attr := &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true}}
	if term.IsTerminal(os.Stdin) {
		attr.Sys.Foreground = true
		if child, err := syscall.ForkExec(path, os.Args, attr); err == nil {
			return child, nil
		}
		attr.Sys.Foreground = false // another process controls the terminal
	}
	return syscall.ForkExec(path, os.Args, attr)
}

// reap reaps every process that has ended, and reports the status of the child once it has ended.
// Ctrl-Z does not stop the child: no shell could continue it, and it would not even handle SIGTERM.
func reap(child int) (status syscall.WaitStatus, ok bool) {
	for {
		var s syscall.WaitStatus
		switch pid, err := syscall.Wait4(-1, &s, syscall.WNOHANG|syscall.WUNTRACED, nil); {
		case err == syscall.EINTR:
		case pid <= 0:
			return status, ok
		case s.Stopped() && s.StopSignal() == syscall.SIGTSTP:
			syscall.Kill(pid, syscall.SIGCONT) //nolint:errcheck // it may have ended
		case pid == child && !s.Stopped():
			status, ok = s, true
		}
	}
}

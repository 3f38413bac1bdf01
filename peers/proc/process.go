package proc

import (
	"context"
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// exitUsage is the exit code of a program that rejects its arguments or settings.
const exitUsage = 2

// IsUsageError reports whether err is the exit of a program that rejected its arguments or
// settings. Starting it again would fail in the same way.
func IsUsageError(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == exitUsage
}

// drainTimeout limits how long the output of an ended process is read: one of its children may
// hold it open.
const drainTimeout = 2 * time.Second

// TimerSlack is how late the timers of a confined process may be, on Linux. The runtime of Go has a
// thread that sleeps for 20 µs at a time while a program works. With Linux's slack of 50 µs, that
// took an eighth of the processor time of an agent.
const TimerSlack = 250 * time.Microsecond

// Options are the optional settings of a Process. Nil is valid.
type Options struct {
	// in a session of its own; on Linux, it and its children gain no privileges, and use less of the
	// processor, since their timers may be late
	Confined          bool
	ParentDeathSignal syscall.Signal      // sent to the process when its owner ends (see KillDependents); 0: none
	OnStart           func(pid int) error // called before Start returns; an error kills the process
	// receives the lines of stdout and stderr that the command does not redirect; calls do not overlap
	OnLine  func(line []byte)
	MaxLine int // bytes at which a line is cut; default 64 KiB
}

// A Process is one running program. Its methods may be called from any goroutine.
type Process struct {
	cmd     *exec.Cmd
	session bool          // it leads one
	done    chan struct{} // closed when it has ended
	err     error         // the result of Wait; valid once done is closed

	mu    sync.Mutex
	ended bool // its process id may have been reused
}

// dependents has the running processes (*Process) that have a ParentDeathSignal (syscall.Signal).
var dependents sync.Map

// KillDependents kills the groups of all processes whose ParentDeathSignal is SIGKILL. A program calls it
// before it exits without stopping them: the signal would reach only the leaders of the groups. Where the
// kernel sends no ParentDeathSignal, it sends the other processes theirs.
func KillDependents() { signalDependents(kernelSignalsDependents) }

func signalDependents(kernelSignals bool) {
	dependents.Range(func(p, s any) bool {
		if s == syscall.SIGKILL || !kernelSignals {
			p.(*Process).signal(s.(syscall.Signal))
		}
		return true
	})
}

// Start starts a command. One goroutine waits for it and ends with it.
func Start(cmd *exec.Cmd, opts *Options) (*Process, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would mean our own environment
	}
	cmd.SysProcAttr = sysProcAttr(o.ParentDeathSignal, o.Confined)
	cmd.WaitDelay = drainTimeout
	out := &LineWriter{Max: o.MaxLine, OnLine: func(line []byte, _ bool) { o.OnLine(line) }}
	if o.OnLine != nil && cmd.Stdout == nil {
		cmd.Stdout = out
	}
	if o.OnLine != nil && cmd.Stderr == nil {
		cmd.Stderr = out
	}
	p := &Process{cmd: cmd, session: o.Confined, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux signals the child when the thread that started it ends, so this goroutine keeps
		// the thread.
		runtime.LockOSThread()
		var err error
		if o.Confined {
			err = confine() // permanent: the thread ends with this goroutine
		} else {
			defer runtime.UnlockOSThread()
		}
		if err == nil {
			err = cmd.Start()
		}
		if err == nil && o.OnStart != nil {
			if err = o.OnStart(cmd.Process.Pid); err != nil {
				p.signal(syscall.SIGKILL)
				_ = wait(cmd, p.killGroup) // err has the reason
			}
		}
		if err == nil && o.ParentDeathSignal != 0 {
			dependents.Store(p, o.ParentDeathSignal)
			defer dependents.Delete(p)
		}
		started <- err
		if err != nil {
			return
		}
		if p.err = wait(cmd, p.killGroup); errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil // it succeeded; another process holds its output open
		}
		out.Flush()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process. It returns nil for exit code 0, otherwise the error of
// exec.Cmd.Wait.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Terminate sends SIGTERM to the process group.
func (p *Process) Terminate() { p.signal(syscall.SIGTERM) }

// WaitFor waits for the end of the process. It returns false if the process runs longer than d,
// or if ctx ends first.
func (p *Process) WaitFor(ctx context.Context, d time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Stop sends SIGTERM to the process group and waits. It sends SIGKILL after the grace period, or
// when ctx ends.
func (p *Process) Stop(ctx context.Context, grace time.Duration) {
	p.Terminate()
	if !p.WaitFor(ctx, grace) {
		p.Kill()
	}
}

// Kill sends SIGKILL to the process group and waits.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal signals the process group, unless the process has ended.
func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // an error means that it has just ended
	}
}

// killGroup kills the processes that an ended process left in its group, or in other groups of its
// session.
func (p *Process) killGroup() {
	p.signal(syscall.SIGKILL)
	if p.session {
		KillSession(p.cmd.Process.Pid)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

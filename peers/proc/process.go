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

// exitUsage is the exit code of a program that was called wrongly.
const exitUsage = 2

// IsUsageError reports whether err is the end of a program that was called
// wrongly, and so would fail again.
func IsUsageError(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == exitUsage
}

// drainTimeout is how long the output of a process that has ended is read on:
// somebody whom it started may hold it open.
const drainTimeout = 500 * time.Millisecond

// Options are the optional settings of a Process. Nil is valid.
type Options struct {
	Confined          bool                // a session of its own, and no new privileges on Linux, for itself and all that it starts
	ParentDeathSignal syscall.Signal      // what the process gets when its owner is killed; 0 lets it go on
	OnStart           func(pid int) error // called before Start returns; its error ends the process
	OnLine            func(line []byte)   // takes the lines of stdout and stderr where the command sets none; calls do not overlap
	MaxLine           int                 // bytes at which a line is cut; default 64 KiB
}

// A Process is one running program. Its methods may be called from any goroutine.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error         // why; valid once done is closed

	mu    sync.Mutex
	ended bool // its number may belong to another process
}

// Start starts a command. One goroutine waits for it and ends with it.
func Start(cmd *exec.Cmd, opts *Options) (*Process, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if cmd.Env == nil {
		cmd.Env = []string{} // nil would mean ours
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
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// Linux signals the child when the thread that started it ends, so this thread
		// stays with it.
		runtime.LockOSThread()
		var err error
		if o.Confined {
			err = setNoNewPrivileges() // for good: the thread ends with this goroutine
		} else {
			defer runtime.UnlockOSThread()
		}
		if err == nil {
			err = cmd.Start()
		}
		if err == nil && o.OnStart != nil {
			if err = o.OnStart(cmd.Process.Pid); err != nil {
				p.signal(syscall.SIGKILL)
				_ = wait(cmd, p.killGroup) // the error says why
			}
		}
		started <- err
		if err != nil {
			return
		}
		if p.err = wait(cmd, p.killGroup); errors.Is(p.err, exec.ErrWaitDelay) {
			p.err = nil // it ended well; somebody else holds its output
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

// Wait waits for the end of the process. It returns nil for exit code 0, else what
// exec.Cmd.Wait says.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Terminate asks the process to end: its group gets SIGTERM.
func (p *Process) Terminate() { p.signal(syscall.SIGTERM) }

// WaitFor waits until the process ends. It reports false if it does not within d, or
// before ctx ends.
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

// Stop ends the process and waits for it: its group gets SIGTERM, and SIGKILL after
// the grace, or when ctx ends.
func (p *Process) Stop(ctx context.Context, grace time.Duration) {
	p.Terminate()
	if !p.WaitFor(ctx, grace) {
		p.Kill()
	}
}

// Kill ends the process at once and waits for it.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// signal signals the group, unless it has ended.
func (p *Process) signal(s syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		_ = syscall.Kill(-p.cmd.Process.Pid, s) // it may end just now
	}
}

// killGroup kills what the process left behind in its group.
func (p *Process) killGroup() {
	p.signal(syscall.SIGKILL)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
}

package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"hubbub/peers/system"
)

// exitUsage is the exit code of a program that was called wrongly: it would
// fail again.
const exitUsage = 2

// A child is an agent that this process started.
type child struct {
	cmd         *exec.Cmd
	id          identity
	ended       chan struct{} // closed when the process has ended
	err         error         // why; valid once ended is closed
	stopTimeout time.Duration
}

// startChild starts the process of an agent. The goroutine that waits for it ends
// with it.
func (l *Launcher) startChild(spec system.Spec, log *os.File) (*child, error) {
	c := &child{cmd: exec.Command(spec.Command, spec.Args...), ended: make(chan struct{}), stopTimeout: l.opts.StopTimeout}
	c.cmd.Env = append([]string{}, spec.Env...) // never nil, which would mean ours
	c.cmd.Stdout, c.cmd.Stderr = log, log
	c.cmd.Dir = l.Place(spec.Name).Data
	c.cmd.SysProcAttr = attributes(!l.opts.KeepAgents)
	started := make(chan error, 1)
	go func() {
		// Linux signals the child when the thread that started it ends, so this
		// thread stays with it.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		if err == nil {
			c.id = identify(c.cmd.Process.Pid)
			err = limit(c.cmd.Process.Pid, spec.Limits)
			if err != nil {
				_ = c.cmd.Process.Kill() // it must not run without its limits
				_ = c.cmd.Wait()         // as above
			}
		}
		started <- err
		if err != nil {
			return
		}
		awaitEnd(c.cmd.Process.Pid)
		_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // what the agent left behind; its number is still taken
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	if err := <-started; err != nil {
		return nil, hopeless(err)
	}
	return c, nil
}

func (c *child) Handle() string { return c.id.String() }

func (c *child) Wait(ctx context.Context) error {
	select {
	case <-c.ended:
		return describe(c.err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *child) Stop(ctx context.Context) error {
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGTERM) // it may have ended just now
	timer := time.NewTimer(c.stopTimeout)
	defer timer.Stop()
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	_ = syscall.Kill(-c.cmd.Process.Pid, syscall.SIGKILL) // as above
	<-c.ended
	return nil
}

// describe says how a process ended.
func describe(err error) error {
	if err == nil {
		return &system.Exit{Reason: "exit status 0"}
	}
	var exit *exec.ExitError
	return &system.Exit{Reason: err.Error(), Hopeless: errors.As(err, &exit) && exit.ExitCode() == exitUsage}
}

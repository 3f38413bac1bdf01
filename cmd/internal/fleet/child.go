package fleet

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

// exitUsage is the exit code of a program that was called wrongly: it would
// fail again.
const exitUsage = 2

// steady is how long a child must run to count as healthy again.
const steady = time.Minute

// errDown is the end of waiting for a child that stays down.
var errDown = errors.New("it stays down")

// A child is a Child with its present process.
type child struct {
	Child
	o Options

	mu      sync.Mutex // guards the fields below
	process *process   // nil while none runs
	ready   chan struct{}
	isReady bool
	down    chan struct{} // closed when nobody need wait for it: it failed again and again, or ended for good
	isDown  bool
}

func newChild(c Child, o Options) *child {
	return &child{Child: c, o: o, ready: make(chan struct{}), down: make(chan struct{})}
}

// run keeps the child running until ctx ends (nil), or until it stays down. One
// that fails again and again is still tried now and then, as what it needs may come
// back while nobody looks; only the first stage ends everything, for whoever
// started this program.
func (c *child) run(ctx context.Context) error {
	defer c.setDown()
	pause, failures := c.o.MinBackoff, 0
	for {
		from := time.Now()
		err := c.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(from) >= steady {
			pause, failures = c.o.MinBackoff, 0
		}
		failures++
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit) && exit.ExitCode() == exitUsage:
			c.o.Event(c.Name, "was called wrongly and stays down; see its line above")
			return err
		case failures >= c.o.MaxFailures && c.Stage == 0:
			c.o.Event(c.Name, fmt.Sprintf("ended %d times in a row and stays down (%s)", failures, describeEnd(err)))
			return err
		case failures >= c.o.MaxFailures:
			pause = c.o.RestPause
			c.o.Event(c.Name, fmt.Sprintf("ended %d times in a row (%s); starting again in %s", failures, describeEnd(err), pause))
			c.setDown() // who waits for it goes on
		default:
			c.o.Event(c.Name, fmt.Sprintf("ended (%s); starting again in %s", describeEnd(err), pause))
		}
		if !sleep(ctx, pause) {
			return nil
		}
		pause = min(2*pause, c.o.MaxBackoff)
	}
}

// once runs one process of the child to its end.
func (c *child) once(ctx context.Context) error {
	p, err := startProcess(c.Child, c.line)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.process = p
	c.mu.Unlock()
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.stop(c.o.StopTimeout, func() { c.o.Event(c.Name, "does not stop; killing it") })
	}
	c.mu.Lock()
	c.process = nil
	if c.isReady {
		c.ready, c.isReady = make(chan struct{}), false
	}
	c.mu.Unlock()
	return p.err
}

// line takes one line of the child's log.
func (c *child) line(line []byte) {
	if saysReady(line) {
		c.mu.Lock()
		if !c.isReady {
			c.isReady = true
			close(c.ready)
		}
		c.mu.Unlock()
	}
	c.o.Line(c.Name, line)
}

func (c *child) setDown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isDown {
		c.isDown = true
		close(c.down)
	}
}

func (c *child) waitReady(ctx context.Context) error {
	c.mu.Lock()
	ready := c.ready
	c.mu.Unlock()
	select {
	case <-ready:
		return nil
	default:
	}
	select {
	case <-ready:
		return nil
	case <-c.down:
		return fmt.Errorf("%s: %w", c.Name, errDown)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (c *child) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.cmd.Process.Pid
}

func describeEnd(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// sleep waits, or reports false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

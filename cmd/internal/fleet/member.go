package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"hubbub/peers/proc"
	"hubbub/protocol/retry"
)

// steady is how long a child must run to count as healthy again.
const steady = time.Minute

// errDown ends the wait for a child that stays down.
var errDown = errors.New("it stays down")

// A member is a Child with its current process.
type member struct {
	Child
	o Options

	mu          sync.Mutex // guards the fields below
	process     *proc.Process
	stopTimeout time.Duration // from SIGTERM to SIGKILL, unless the process says that its stop takes longer
	stopUntil   time.Time     // how long a stop of the process takes
	ready       chan struct{} // closed once the process has reported that it is ready
	down        chan struct{} // closed when waiting is useless: the child failed too often or ended permanently
}

func newMember(c Child, o Options) *member {
	return &member{Child: c, o: o, ready: make(chan struct{}), down: make(chan struct{})}
}

// run keeps the child running until ctx ends (nil), or until it stays down. A child that keeps
// failing is still started every RestPause, because its problem may disappear. Only in the first
// stage does it stay down, which ends everything, so that the parent of this program can act.
func (c *member) run(ctx context.Context) error {
	defer c.close(c.down)
	pauses := retry.Backoff{Min: c.o.MinBackoff, Max: c.o.MaxBackoff}
	return proc.Supervise(ctx, steady, c.once, func(ends int, err error) (pause time.Duration, down bool) {
		pause = pauses.After(ends).Round(time.Millisecond)
		switch {
		case proc.IsUsageError(err):
			c.o.Event(c.Name, "was called wrongly and stays down; see its line above")
			return 0, true
		case ends >= c.o.MaxFailures && c.Stage == 0:
			c.o.Event(c.Name, fmt.Sprintf("ended %d times in a row and stays down (%s)", ends, describeEnd(err)))
			return 0, true
		case ends >= c.o.MaxFailures:
			pause = c.o.RestPause
			c.o.Event(c.Name, fmt.Sprintf("ended %d times in a row (%s); starting again in %s", ends, describeEnd(err),
				pause))
			c.close(c.down) // ends the waits for it
		default:
			c.o.Event(c.Name, fmt.Sprintf("ended (%s); starting again in %s", describeEnd(err), pause))
		}
		return pause, false
	})
}

// once runs one process of the child to its end.
func (c *member) once(ctx context.Context) error {
	cmd := exec.Command(c.Path, c.Args...)
	cmd.Env = c.Env
	c.mu.Lock() // a child that is ready has a process
	p, err := proc.Start(cmd, &proc.Options{ParentDeathSignal: syscall.SIGTERM, OnLine: c.line})
	c.process = p
	c.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		c.end(context.WithoutCancel(ctx), p)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.process = nil
	if closed(c.ready) {
		c.ready = make(chan struct{})
	}
	return p.Wait()
}

// extraTime is how much longer than an extended stop the fleet waits for the child.
const extraTime = 500 * time.Millisecond

// end stops the child's process. It kills a process that does not stop in time. A process whose stop
// takes longer says so in its log.
func (c *member) end(ctx context.Context, p *proc.Process) {
	p.Terminate()
	c.mu.Lock()
	wait := c.stopTimeout
	c.mu.Unlock()
	for !p.WaitFor(ctx, wait) {
		c.mu.Lock()
		wait = time.Until(c.stopUntil)
		c.mu.Unlock()
		if wait <= 0 {
			c.o.Event(c.Name, "does not stop; killing it")
			p.Kill()
			return
		}
	}
}

// setStopTimeout sets how long the child may take to stop.
func (c *member) setStopTimeout(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopTimeout = d
}

// line takes one line of the child's log. It passes the line on before it acts on it, so that what
// follows from a line is logged after it.
func (c *member) line(line []byte) {
	c.o.Line(c.Name, line)
	var entry struct {
		Message string    `json:"message"`
		Until   time.Time `json:"until"`
	}
	if json.Unmarshal(line, &entry) == nil {
		switch entry.Message {
		case "ready": // it is connected and subscribed
			c.close(c.ready)
		case "stopping takes longer":
			c.mu.Lock()
			c.stopUntil = entry.Until.Add(extraTime)
			c.mu.Unlock()
			c.o.OnStopExtended(entry.Until.Add(extraTime))
		}
	}
}

// close closes ready or down, once.
func (c *member) close(ch chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !closed(ch) {
		close(ch)
	}
}

func closed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func (c *member) waitReady(ctx context.Context) error {
	c.mu.Lock()
	ready := c.ready
	c.mu.Unlock()
	if closed(ready) {
		return nil
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

func (c *member) pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return 0
	}
	return c.process.PID()
}

func describeEnd(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

package fleet

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// maxLine is the length in bytes at which a line of a log is cut.
const maxLine = 64 << 10

// A process is one running child.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended and its log is read
	err   error         // why it ended; valid once ended is closed
}

// drainTimeout is how long a process that has ended is read on: somebody whom it
// started may hold its output open.
const drainTimeout = 500 * time.Millisecond

// startProcess starts a child and reads its output, a line at a time.
func startProcess(c Child, line func([]byte)) (*process, error) {
	p := &process{cmd: exec.Command(c.Path, c.Args...), ended: make(chan struct{})}
	p.cmd.Env = c.Env
	p.cmd.SysProcAttr = childAttributes()
	p.cmd.WaitDelay = drainTimeout
	var mu sync.Mutex // two outputs, one log
	out, log := &lineWriter{mu: &mu, line: line}, &lineWriter{mu: &mu, line: line}
	p.cmd.Stdout, p.cmd.Stderr = out, log
	started := make(chan error)
	go func() { // ends with the process; whoever waits for ended waits for it
		// Linux signals the child when the thread that started it ends.
		runtime.LockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = p.cmd.Wait()
		out.flush()
		log.flush()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// A lineWriter calls line for each line written to it.
type lineWriter struct {
	mu   *sync.Mutex
	rest []byte // of a line whose end has not come yet
	line func([]byte)
}

func (w *lineWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(b)
	for {
		head, tail, found := bytes.Cut(b, []byte("\n"))
		w.rest = append(w.rest, head[:min(len(head), maxLine-len(w.rest))]...)
		if !found {
			return n, nil
		}
		w.emit()
		b = tail
	}
}

func (w *lineWriter) emit() {
	if line := bytes.TrimRight(w.rest, "\r"); len(line) > 0 {
		w.line(line)
	}
	w.rest = w.rest[:0]
}

// flush gives the last line, if it had no end.
func (w *lineWriter) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.emit()
}

// saysReady reports whether a line of a log is the one that a program writes
// when it is connected and subscribed.
func saysReady(line []byte) bool {
	var entry struct {
		Message string `json:"message"`
	}
	return json.Unmarshal(line, &entry) == nil && entry.Message == "ready"
}

// stop ends the process politely, then by force, and returns when it has ended.
func (p *process) stop(timeout time.Duration, late func()) {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended just now
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-p.ended:
		return
	case <-timer.C:
	}
	late()
	_ = p.cmd.Process.Kill() // as above
	<-p.ended
}

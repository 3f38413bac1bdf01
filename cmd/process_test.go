package cmd_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is one running program.
type process struct {
	t     *testing.T
	name  string
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of Wait; valid once ended is closed

	sign  *regexp.Regexp // log line that reports readiness
	ready chan struct{}  // closed when it is ready

	mu   sync.Mutex
	log  bytes.Buffer
	seen bool // the sign was logged
}

// readySign is the log line of a program that is connected and subscribed.
var readySign = regexp.MustCompile(`"message":"ready"`)

// start runs a program for t and waits until it is ready. It is stopped, and its exit code
// checked, when whole ends.
func start(t, whole *testing.T, name string, env []string, args ...string) *process {
	t.Helper()
	p := &process{t: whole, name: name, sign: readySign}
	p.cmd = exec.CommandContext(context.Background(), built(t, name), args...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = p
	p.start(t)
	return p
}

// start runs p.cmd and waits for its sign.
func (p *process) start(t *testing.T) {
	t.Helper()
	p.ended, p.ready = make(chan struct{}), make(chan struct{})
	p.cmd.WaitDelay = patience // for the rest of its output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	p.t.Cleanup(p.stop)
	select {
	case <-p.ready:
	case <-p.ended:
		t.Fatalf("%s ended: %v\n%s", p.name, p.err, p.text())
	case <-time.After(patience):
		t.Fatalf("%s was not ready within %s:\n%s", p.name, patience, p.text())
	}
}

// Write receives the program's log.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.Write(b)
	if !p.seen && p.sign.Match(p.log.Bytes()) {
		p.seen = true
		close(p.ready)
	}
	return len(b), nil
}

// whole returns the program's log.
func (p *process) whole() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// text returns the end of the program's log.
func (p *process) text() string {
	lines := strings.Split(p.whole(), "\n")
	return strings.Join(lines[max(len(lines)-20, 0):], "\n")
}

// kill kills the program as a crash would.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatalf("killing %s: %v", p.name, err)
	}
	<-p.ended
}

// stop stops the program and checks its exit. The test fails if the program does not stop in
// time.
func (p *process) stop() {
	select {
	case <-p.ended: // already killed or stopped
		return
	default:
	}
	from := time.Now()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Errorf("stopping %s: %v", p.name, err)
	}
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.kill()
	}
	if took := time.Since(from); p.err != nil && !errors.Is(p.err, exec.ErrWaitDelay) {
		p.t.Errorf("%s ended after %s with %v:\n%s", p.name, took, p.err, p.text())
	}
	if p.t.Failed() && os.Getenv("HUBBUB_TEST_LOGS") != "" {
		p.t.Logf("log of %s:\n%s", p.name, p.text())
	}
}

// logsBelow returns every log file below a folder.
func logsBelow(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".log") {
			if raw, err := os.ReadFile(path); err == nil {
				b.WriteString("== " + path + "\n" + newest(string(raw)))
			}
		}
		return nil
	})
	return b.String()
}

// newest returns the last lines of a log.
func newest(log string) string {
	lines := strings.SplitAfter(log, "\n")
	return strings.Join(lines[max(len(lines)-17, 0):], "")
}

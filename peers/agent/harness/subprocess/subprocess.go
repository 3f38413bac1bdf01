package subprocess

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/proc"
	"hubbub/protocol/defaults"
	"hubbub/protocol/text"

	"github.com/google/shlex"
	"github.com/rs/zerolog"
)

// SplitCommand splits a command line into words as a shell does, without running one. It
// interprets quotes and backslashes, but not variables and globs.
func SplitCommand(command string) ([]string, error) {
	words, err := shlex.Split(command)
	if err != nil {
		return nil, fmt.Errorf("the command cannot be split into words (%w): check its quotes", err)
	}
	if len(words) == 0 {
		return nil, errors.New("the command is empty: name the program and its arguments")
	}
	return words, nil
}

// Options are the optional settings of a Process. Nil is valid.
type Options struct {
	Dir     string            // working directory; default the owner's
	Env     map[string]string // added to the environment
	HideEnv []string          // further variables of the owner that the program must not get
	Grace   time.Duration     `positive:"2s"` // between closing stdin and SIGTERM, and between that and SIGKILL
	Log     *zerolog.Logger   // takes the program's stderr
}

// maxStderr is the maximum length of a logged line of stderr, in bytes.
const maxStderr = 2 << 10

// keptLines and maxQuoted limit what errors quote from stderr. The last line of an interpreter
// rarely says what was wrong.
const (
	keptLines = 8
	maxQuoted = 300
)

// A Process is one running program.
type Process struct {
	*proc.Process
	Stdin  io.WriteCloser
	Stdout *os.File                // ends with the program; the reader closes it
	Fail   context.CancelCauseFunc // ends the context of Run; nil after Start

	name  string
	grace time.Duration
	log   *zerolog.Logger
	stop  sync.Once

	mu        sync.Mutex
	lines     []string // the last lines of stderr, redacted
	lineCount int      // lines of stderr so far
}

// Start starts a program. The error wraps harness.ErrPermanent if the program can never be
// started.
func Start(argv []string, opts *Options) (*Process, error) {
	o := defaults.Of(opts)
	p := &Process{name: argv[0], grace: o.Grace, log: o.Log}
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // the operator names the program
	cmd.Dir = o.Dir
	cmd.Env = proc.DropEnv(
		os.Environ(),
		slices.Concat(proc.ProgramEnv, proc.ServiceEnv, o.HideEnv)...)
	for name, value := range o.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	cmd.Stdout, p.Stdout = stdoutWriter, stdout
	p.Stdin, err = cmd.StdinPipe()
	if err == nil {
		p.Process, err = proc.Start(cmd,
			&proc.Options{ParentDeathSignal: syscall.SIGKILL, OnLine: p.logStderr, MaxLine: maxStderr})
	}
	stdoutWriter.Close() //nolint:errcheck // the child has its own
	if err != nil {
		stdout.Close() //nolint:errcheck // nothing was read
		return nil, startError(p.name, err)
	}
	go func() { // ends with the program
		<-p.Done()
		// A descendant that left the group may keep the pipe open.
		stdout.SetReadDeadline(time.Now().Add(5 * time.Second)) //nolint:errcheck // then it is read to its end
	}()
	return p, nil
}

// Run starts a program and calls use. The context of use ends when the program does; its cause
// says how the program ended. When use returns, Run stops the program and returns the error of
// use.
func Run(ctx context.Context, argv []string, opts *Options, use func(ctx context.Context, p *Process) error) error {
	p, err := Start(argv, opts)
	if err != nil {
		return err
	}
	defer p.Stdout.Close() //nolint:errcheck // read to its end
	defer p.Stop()
	ctx, p.Fail = context.WithCancelCause(ctx)
	go func() { p.Fail(p.Wait()) }()
	return use(ctx, p)
}

func startError(name string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: the program %s cannot be started (%w); check --harness-command", harness.ErrPermanent,
			name, err)
	}
	return fmt.Errorf("starting %s: %w", name, err)
}

// logStderr handles one line of stderr.
func (p *Process) logStderr(line []byte) {
	words := strings.TrimSpace(harness.Redact(string(line)))
	if words == "" {
		return
	}
	p.mu.Lock()
	p.lineCount++
	p.lines = append(p.lines, words)
	p.lines = p.lines[max(0, len(p.lines)-keptLines):]
	p.mu.Unlock()
	if p.log != nil {
		p.log.Info().Str("program", p.name).Str("stderr", words).Msg("harness program wrote to stderr")
	}
}

// Wait waits until the program has ended and returns how it ended. It never returns nil.
func (p *Process) Wait() error {
	err := p.Process.Wait()
	switch {
	case err == nil:
		return fmt.Errorf("%s exited", p.name)
	}
	if said := p.StderrSince(0); said != "" {
		return fmt.Errorf("%s ended: %w; it wrote: %s", p.name, err, said)
	}
	return fmt.Errorf("%s ended: %w", p.name, err)
}

// StderrLines returns how many lines the program has written to stderr.
func (p *Process) StderrLines() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lineCount
}

// StderrSince returns the last lines that the program has written to stderr after its first n
// lines, redacted and shortened. They are complete once the process has ended.
func (p *Process) StderrSince(n int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	lines := p.lines[max(0, len(p.lines)-max(0, p.lineCount-n)):]
	return text.Clip(strings.Join(lines, " / "), maxQuoted)
}

// Stop ends the program and waits for it. It closes stdin, then sends SIGTERM to the process
// group, and finally SIGKILL, each after the grace period.
func (p *Process) Stop() {
	p.stop.Do(func() {
		p.Stdin.Close() //nolint:errcheck // it may be gone
		if !p.WaitFor(context.Background(), p.grace) {
			p.Process.Stop(context.Background(), p.grace)
		}
	})
	<-p.Done()
}

package child

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"hubbub/peers/agent/harness"

	"github.com/google/shlex"
	"github.com/rs/zerolog"
)

// Split cuts a command line into words as a shell would, without running one:
// quotes and backslashes count, variables and globs do not.
func Split(command string) ([]string, error) {
	words, err := shlex.Split(command)
	if err != nil {
		return nil, fmt.Errorf("the command cannot be split into words (%w): close every quote", err)
	}
	if len(words) == 0 {
		return nil, errors.New("the command is empty: name the program and its arguments")
	}
	return words, nil
}

// Options are the optional settings of a Process. Nil is valid.
type Options struct {
	Dir   string            // working folder; default the owner's
	Env   map[string]string // added to the environment
	Hide  []string          // further variables of the owner that it does not get
	Grace time.Duration     // between closing stdin, SIGTERM and SIGKILL; default 2 s each
	Log   *zerolog.Logger   // for its stderr
}

// A Process is one running program.
type Process struct {
	Stdin  io.WriteCloser
	Stdout *os.File // ends when the program has; close it when it is read

	cmd   *exec.Cmd
	name  string
	grace time.Duration
	done  chan struct{} // closed when it has ended
	err   error         // valid then

	mu   sync.Mutex
	last string // of stderr
	stop sync.Once
}

// Start starts a program. The error wraps harness.ErrPermanent where it can
// never be started.
func Start(argv []string, opts *Options) (*Process, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Grace <= 0 {
		o.Grace = 2 * time.Second
	}
	p := &Process{cmd: command(argv, &o), name: argv[0], grace: o.Grace, done: make(chan struct{})}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	stdout, stdoutWriter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	stderr, stderrWriter, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", p.name, err), stdout.Close(), stdoutWriter.Close())
	}
	p.cmd.Stdout, p.cmd.Stderr = stdoutWriter, stderrWriter
	err = p.cmd.Start()
	stdoutWriter.Close() //nolint:errcheck // the child has its own
	stderrWriter.Close() //nolint:errcheck // the child has its own
	if err != nil {
		stdout.Close() //nolint:errcheck // nothing was read
		stderr.Close() //nolint:errcheck // nothing was read
		return nil, unstartable(p.name, err)
	}
	p.Stdin, p.Stdout = stdin, stdout
	go p.wait(stderr, o.Log)
	return p, nil
}

// command makes a command with a process group of its own, which dies with its
// owner, and with the environment that programs get.
func command(argv []string, o *Options) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:gosec // the operator names the program
	cmd.Dir = o.Dir
	cmd.Env = environment(os.Environ(), o.Hide, o.Env)
	group(cmd)
	return cmd
}

func unstartable(name string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: the program %s cannot be started (%w); check --harness-command", harness.ErrPermanent, name, err)
	}
	return fmt.Errorf("starting %s: %w", name, err)
}

// withheld are the variables, or the beginnings of their names, that are the
// owner's own: its secrets, and what systemd gave to it alone.
var withheld = []string{"HUBBUB_", "TELEGRAM_", "CREDENTIALS_DIRECTORY=", "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_"}

// environment leaves out what is the owner's own, and adds the given variables.
func environment(own, hide []string, add map[string]string) []string {
	var env []string
	for _, entry := range own {
		name, _, _ := strings.Cut(entry, "=")
		private := slices.ContainsFunc(withheld, func(prefix string) bool { return strings.HasPrefix(entry, prefix) })
		if !private && !slices.Contains(hide, name) {
			env = append(env, entry)
		}
	}
	for name, value := range add {
		env = append(env, name+"="+value)
	}
	return env
}

// wait reads stderr to its end and collects the program.
func (p *Process) wait(stderr *os.File, log *zerolog.Logger) {
	var wg sync.WaitGroup
	wg.Go(func() { p.readStderr(stderr, log) })
	err := p.cmd.Wait()
	killGroup(p.cmd)
	// A descendant that left the group may hold the pipes open.
	stderr.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) //nolint:errcheck // then it is read to its end
	p.Stdout.SetReadDeadline(time.Now().Add(time.Second))          //nolint:errcheck // then it is read to its end
	wg.Wait()
	stderr.Close() //nolint:errcheck // read to its end
	p.mu.Lock()
	last := p.last
	p.mu.Unlock()
	switch {
	case err == nil:
		p.err = fmt.Errorf("%s ended by itself", p.name)
	case last != "":
		p.err = fmt.Errorf("%s ended: %w; it said: %s", p.name, err, last)
	default:
		p.err = fmt.Errorf("%s ended: %w", p.name, err)
	}
	close(p.done)
}

func (p *Process) readStderr(stderr io.Reader, log *zerolog.Logger) {
	r := bufio.NewReaderSize(stderr, 2<<10)
	for {
		line, isPrefix, err := r.ReadLine()
		text := strings.TrimSpace(harness.Redact(string(line)))
		for isPrefix && err == nil {
			_, isPrefix, err = r.ReadLine()
		}
		if text != "" {
			p.mu.Lock()
			p.last = text
			p.mu.Unlock()
			if log != nil {
				log.Info().Str("program", p.name).Str("stderr", text).Msg("the program says")
			}
		}
		if err != nil {
			return
		}
	}
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the program's end and says how it ended; never nil.
func (p *Process) Wait() error {
	<-p.done
	return p.err
}

// Stop ends the program and waits for it: its stdin is closed, then its group
// gets SIGTERM and, at last, SIGKILL, each after the grace period.
func (p *Process) Stop() {
	p.stop.Do(func() {
		p.Stdin.Close() //nolint:errcheck // it may be gone
		if p.ended() {
			return
		}
		terminateGroup(p.cmd)
		if p.ended() {
			return
		}
		killGroup(p.cmd)
	})
	<-p.done
}

// Kill ends the program at once and waits for it.
func (p *Process) Kill() {
	killGroup(p.cmd)
	<-p.done
}

func (p *Process) ended() bool {
	timer := time.NewTimer(p.grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return false
	}
}

package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"hubbub/cmd/internal/proxyenv" // its init comes before anybody reads the variables of proxies
	"hubbub/cmd/internal/term"
	"hubbub/peers/proc"
	"hubbub/protocol/datafolder"

	"github.com/spf13/pflag"
)

// A Program is the definition of a program.
type Program struct {
	Name    string // of the binary, such as "hubbub-tg"
	Summary string // one sentence without its subject, for --help
	// Settings are pointers to structs with the program's settings, see AddFlags and CheckBounds.
	Settings []any
	Run      func(ctx context.Context, env *Env) error // blocks until ctx ends or the program fails
	NoBus    bool                                      // for the bus itself: no --bus and no token of its own

	// Check, if set, checks the settings before Run, and alone with --check. Its error ends the
	// program with 2.
	Check func(ctx context.Context, env *Env) error
}

// stopTimeout is how long Run may take after a signal. See Env.ExtendStop.
const stopTimeout = 9500 * time.Millisecond

// Main runs p with the process's arguments, environment and streams, and ends the process.
func Main(p Program) { os.Exit(Run(p)) }

// Run is Main, but returns the exit code.
func Run(p Program) int {
	if code, done := runAsInit(); done {
		return code
	}
	// A crash, or an abort by systemd's watchdog, must end the process by a signal. Go's default
	// is exit 2, which means wrong usage, and supervisors would not restart the program.
	debug.SetTraceback("crash")
	runtime.MemProfileRate = 0 // nobody reads the profile, whose table is 1.4 MB
	o := currentProcess()
	defer o.flush()
	return run(context.Background(), p, o)
}

// A hostProcess is everything that a program takes from the process around it.
type hostProcess struct {
	args      []string // without the program's name
	lookupEnv func(string) (string, bool)
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
	exit      func(code int)           // ends the process when Run does not
	terminal  bool                     // one controls the process
	blocked   func(time.Duration) bool // stdout has been hanging for so long; nil: never
}

// currentProcess returns the hostProcess of this process. Its standard error neither delays nor ends the
// program; call flush at the end.
func currentProcess() hostProcess {
	o := hostProcess{
		args:      os.Args[1:],
		lookupEnv: os.LookupEnv,
		stdin:     os.Stdin,
		stdout:    os.Stdout,
		stderr:    openStderr(),
		terminal:  controlled(),
	}
	o.exit = func(code int) {
		proc.KillDependents()
		o.flush()
		os.Exit(code)
	}
	log.SetOutput(o.stderr) // of libraries
	return o
}

// flush waits for the standard error, within a bound.
func (o hostProcess) flush() {
	if w, ok := o.stderr.(*stderrWriter); ok {
		w.Flush(flushTimeout)
	}
}

// run is Main without the process: it returns the exit code.
func run(ctx context.Context, p Program, o hostProcess) int {
	env, err := p.call(ctx, o)
	if stopped(err, env) {
		return 0 // a program that serves ends only when it is stopped
	}
	code := fail(o.stderr, p.Name, err, env)
	if errors.Is(err, datafolder.ErrOtherVersion) {
		return 2 // the next start would fail, too
	}
	return code
}

// call does what the arguments ask for. Its Env is nil unless it called Run.
func (p *Program) call(ctx context.Context, o hostProcess) (env *Env, err error) {
	fs := pflag.NewFlagSet(p.Name, pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.SortFlags = false
	AddFlags(fs, p.Settings...)
	c := addSettings(fs, !p.NoBus)
	version := fs.Bool("version", false, "print the version and exit")
	described := fs.Bool("describe", false, "print the settings as JSON and exit")
	fs.Lookup("describe").Hidden = true
	check := new(bool)
	if p.Check != nil {
		fs.BoolVar(check, checkFlag, false, "look at the settings and exit")
		fs.Lookup(checkFlag).Hidden = true
	}

	err = fs.Parse(o.args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		return nil, printHelp(o.stdout, p, fs)
	case err != nil:
		return nil, refuseFlag(err)
	case *version:
		_, err := fmt.Fprintln(o.stdout, VersionLine(p.Name))
		return nil, err
	case *described:
		return nil, describe(o.stdout, p, fs)
	case fs.NArg() > 0:
		return nil, Usage("unexpected argument %q", fs.Arg(0))
	}
	if err := settle(fs, c, o, nil); err != nil {
		return nil, err
	}
	if err := CheckBounds(p.Settings...); err != nil {
		return nil, err
	}
	if err := proxyenv.Check(); err != nil {
		return nil, Usage("%w", err)
	}
	if env, err = newEnv(p.Name, c, o); err != nil {
		return nil, err
	}
	env.Checking = *check
	ctx, stop := withSignals(ctx, env)
	defer stop()
	if !p.NoBus && c.tokenFile != "" {
		if _, err := env.Token(); err != nil {
			return env, Usage("--token-file: %w", err)
		}
	}
	if p.Check != nil {
		if err := p.Check(ctx, env); err != nil {
			return env, wrong(err)
		}
	}
	if env.Checking {
		return env, nil
	}
	return env, p.Run(ctx, env)
}

func printHelp(w io.Writer, p *Program, fs *pflag.FlagSet) error {
	width := helpWidth(w)
	_, err := fmt.Fprint(w,
		term.Fold(fmt.Sprintf("%s %s.\n\nUsage: %s [flags]\n\n%s", p.Name, p.Summary, p.Name,
			fs.FlagUsagesWrapped(width))+
			"\nEvery flag is also an environment variable (--log-level: HUBBUB_LOG_LEVEL) and a\n"+
			"key of the TOML file given by --config (log-level). Flags win over variables, and\n"+
			"variables over the file.\n", width))
	return err
}

// stopped reports whether err is only that a signal ended the context.
func stopped(err error, env *Env) bool {
	return errors.Is(err, context.Canceled) && env != nil && env.stopping.Load()
}

// fail prints err, if it has a text, and returns the exit code. command is named in the hint
// about --help.
func fail(w io.Writer, command string, err error, env *Env) int {
	if err == nil {
		return 0
	}
	name, _, _ := strings.Cut(command, " ")
	text := err.Error()
	data := ""
	if env != nil {
		data = env.Data
	}
	if advice := Advice(err, data); advice != "" {
		text += "; " + advice
	}
	fmt.Fprintln(w, shown(w, name+": "+env.redacted(text)))
	if _, usage := errors.AsType[*usageError](err); !usage || IsRetryable(err) {
		return 1
	}
	fmt.Fprintf(w, "Try %s --help.\n", command)
	return 2
}

// shown folds a text for people if w is a narrow terminal.
func shown(w io.Writer, text string) string {
	if n := term.Columns(w); n > 0 {
		return term.Lines(text, n)
	}
	return text
}

package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"
)

// OwnConfig, as a key of a command's Annotations, means that the command reads the file
// of --config itself, with Env.ReadConfig. Env.Data is already the folder that the file names.
const OwnConfig = "own-config"

// NewFolder, as a key of a command's Annotations, means that the command creates the folder in
// its first argument. Run as root, it creates it for the owner of the data folder.
const NewFolder = "new-folder"

// NoData, as a key of a command's Annotations, means that the command and those below it do not use
// the data folder, so that they also run where there is no home directory.
const NoData = "no-data"

// needsData reports whether a command may use the data folder.
func needsData(cmd *cobra.Command) bool {
	for c := cmd; c != nil; c = c.Parent() {
		if _, ok := c.Annotations[NoData]; ok || c.Name() == "help" || c.Name() == "completion" {
			return false
		}
	}
	return true
}

// Sections are the tables in the file of `hubbub up`. A command that gets that file
// ignores them, except for the address of the bus.
var Sections = []string{"bus", "system", "tg", "matrix", "broker", "chorus", "agent"}

type envKey struct{}

// From returns the Env of a running command of a tree that was prepared by
// Attach.
func From(cmd *cobra.Command) *Env {
	env, _ := cmd.Context().Value(envKey{}).(*Env)
	if env == nil {
		panic("the command was not prepared by program.Attach")
	}
	return env
}

// Attach gives a tree of commands the common flags and settings. Commands get their Env
// from [From].
func Attach(root *cobra.Command) *Attached {
	a := &Attached{root: root}
	a.settings = addSettings(root.PersistentFlags(), true)
	level := root.PersistentFlags().Lookup("log-level")
	level.DefValue = "warn" // people read results
	a.settings.logLevel = level.DefValue
	for flag, values := range map[string][]string{
		"log-level":  {"debug", "info", "warn", "error"},
		"log-format": {"console", "json"},
	} {
		_ = root.RegisterFlagCompletionFunc(flag,
			cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = a.prepare
	root.Version = Version()
	root.SetVersionTemplate(VersionLine(root.Name()) + "\n")
	root.InitDefaultVersionFlag() // before commands are found: unknown flags are taken for flags with values
	root.InitDefaultHelpFlag()
	foldFlags(root, terminalWidth)
	countArguments(root)
	explainCalls(root, func(err error) { a.refused = err }) // last, since it adds the command help
	return a
}

type attachedKey struct{}

// Completing gives a completion of arguments or flags the Env, with the flags given so far.
func Completing(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
		a, _ := cmd.Context().Value(attachedKey{}).(*Attached)
		if a == nil {
			panic("the command was not prepared by program.Attach")
		}
		if stop := a.stop; stop != nil { // of the completing command
			a.stop = nil
			defer stop()
		}
		if err := a.prepare(cmd, args); err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, begun)
	}
}

// Attached is a tree of commands with the frame around it.
type Attached struct {
	root     *cobra.Command
	settings *settings
	out      hostProcess
	env      *Env
	stop     func()
	refused  error // by the help of a command
}

// Execute runs the command in the process's arguments, and returns the exit code.
func (a *Attached) Execute(ctx context.Context) int {
	if code, done := runAsInit(); done {
		return code
	}
	o := currentProcess()
	defer o.flush()
	out := &stdoutWriter{file: os.Stdout}
	o.stdout, o.blocked = out, out.blocked
	return a.execute(ctx, o)
}

func (a *Attached) execute(ctx context.Context, o hostProcess) int {
	a.out = o
	a.root.SetArgs(o.args)
	a.root.SetIn(o.stdin)
	a.root.SetOut(o.stdout)
	a.root.SetErr(o.stderr)
	cmd, err := a.root.ExecuteContextC(context.WithValue(ctx, attachedKey{}, a))
	if err == nil {
		err = a.refused
	}
	if a.stop != nil {
		a.stop()
	}
	if _, usage := errors.AsType[*usageError](err); err != nil && a.env == nil && !usage {
		err = Usage("%w", err) // it failed before any command ran
	}
	if stopped(err, a.env) {
		// A command that runs until it is stopped returns no error. This one was interrupted.
		err = fmt.Errorf("stopped by a signal before it was done: %w", err)
	}
	return fail(o.stderr, cmd.CommandPath(), err, a.env)
}

// prepare is called before each command, once the flags are parsed and the arguments
// are counted.
func (a *Attached) prepare(cmd *cobra.Command, args []string) error {
	_, a.settings.ownConfig = cmd.Annotations[OwnConfig]
	a.settings.noData = !needsData(cmd)
	if err := settle(cmd.Flags(), a.settings, a.out, a.known); err != nil {
		return err
	}
	// The file of the system has the address of its bus.
	if c := a.settings; c.config != "" && !c.ownConfig && !cmd.Flags().Changed("bus") {
		bus, err := busOf(c.config, a.out.lookupEnv)
		if err != nil {
			return err
		}
		if bus != "" {
			c.buses = []string{bus}
		}
	}
	if _, makes := cmd.Annotations[NewFolder]; makes {
		a.settings.made = args[:1]
	}
	env, err := newEnv(a.root.Name(), a.settings, a.out)
	if err != nil {
		return err
	}
	a.env = env
	ctx, stop := withSignals(cmd.Context(), env)
	a.stop = stop
	cmd.SetContext(context.WithValue(ctx, envKey{}, env))
	return nil
}

// known reports whether a key of the file belongs to some command, or is a table of
// `hubbub up`.
func (a *Attached) known(key string) bool {
	return slices.Contains(Sections, key) || hasFlag(a.root, key)
}

func hasFlag(cmd *cobra.Command, name string) bool {
	return cmd.Flags().Lookup(name) != nil ||
		slices.ContainsFunc(cmd.Commands(), func(sub *cobra.Command) bool { return hasFlag(sub, name) })
}

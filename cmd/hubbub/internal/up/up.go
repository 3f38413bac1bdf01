package up

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/provision"
	"hubbub/cmd/internal/fleet"
	"hubbub/cmd/internal/program"
	"hubbub/peers/proc"

	"github.com/spf13/cobra"
)

// NewUp returns the command `hubbub up`.
func NewUp() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run the whole system from one file",
		Long: "Run the bus and its peers as child processes until interrupted. They are restarted when they\n" +
			"crash and stopped in order, and their logs are one log. The file of --config has a table for\n" +
			"each program, [bus] [system] [tg] [matrix] [broker] [chorus], whose keys are the names of the\n" +
			"program's flags, and [agent] for the flags of agents. Each program gets a credential of its own.\n\n" +
			"The bot's token comes from TELEGRAM_BOT_TOKEN, or from the file named by\n" +
			"TELEGRAM_BOT_TOKEN_FILE.",
		Example:     "  TELEGRAM_BOT_TOKEN=... hubbub up --config hubbub.toml",
		Annotations: map[string]string{program.OwnConfig: "yes"},
		RunE:        up,
	}
}

func up(cmd *cobra.Command, _ []string) (err error) {
	env := program.From(cmd)
	r, err := ReadRequest(cmd)
	if err != nil {
		return err
	}
	if err := joinErrors(r.ConfigErrors(cmd.Context())); err != nil {
		return err
	}
	p, err := NewPlan(*r)
	if err != nil {
		return err
	}
	release, err := env.OwnData()
	if err != nil {
		return err
	}
	defer release()
	if err := provision.Provision(r.Data, p.AgentEnv); err != nil {
		return err
	}
	printer := fleet.NewPrinter(env.Stderr, printerFormat(r.LogFormat, env), 6)
	env.LogTo(lineWriter(func(line []byte) { printer.Line("hubbub", line) }))
	return runPlan(cmd.Context(), env, p, printer)
}

// joinErrors returns the errors in the settings as one, or nil. It is a usage error unless all of
// them may disappear without a change to the settings.
func joinErrors(list []ConfigError) error {
	var lines []string
	usage := false
	for _, m := range list {
		lines = append(lines, m.String())
		usage = usage || !m.retryable
	}
	switch text := strings.Join(lines, "\n"); {
	case usage:
		return program.Usage("%s", text)
	case len(list) > 0:
		return errors.New(text)
	}
	return nil
}

// ReadRequest reads the settings of `hubbub up`.
func ReadRequest(cmd *cobra.Command) (r *Request, err error) {
	env := program.From(cmd)
	r = &Request{
		File:      env.Config,
		Env:       os.Environ(),
		Data:      env.Data,
		LogLevel:  "info",
		LogFormat: env.LogFormat(),
		Find:      program.Find,
	}
	if cmd.Flags().Changed("log-level") {
		r.LogLevel = env.LogLevel()
	}
	if cmd.Flags().Changed("bus") {
		r.bus = env.Buses[0]
	}
	if r.File == "" {
		return r, nil
	}
	if r.File, err = filepath.Abs(r.File); err != nil {
		return nil, err
	}
	if r.Settings, err = env.ReadConfig(); err != nil {
		return nil, err
	}
	return r, applyTopLevel(cmd, r)
}

// A lineWriter is a function that is called with each whole line.
type lineWriter func(line []byte)

func (w lineWriter) Write(line []byte) (int, error) {
	w(line)
	return len(line), nil
}

// applyTopLevel applies the settings of the log, unless a flag or variable overrides them. The
// data folder of the file is that of the Env already.
func applyTopLevel(cmd *cobra.Command, r *Request) error {
	for key, into := range map[string]*string{"log-level": &r.LogLevel, "log-format": &r.LogFormat} {
		v, ok := r.Settings[key]
		if !ok || cmd.Flags().Changed(key) {
			continue
		}
		s, ok := v.(string)
		if !ok || s == "" {
			return program.Usage("%s: %s must be a string", r.File, key)
		}
		*into = s
	}
	return nil
}

func printerFormat(format string, env *program.Env) fleet.Format {
	switch {
	case format == "json":
		return fleet.JSON
	case env.OnTerminal():
		return fleet.Colour
	default:
		return fleet.Plain
	}
}

// ConsoleHint says how to open the console: with a one-time link if a person watches, otherwise
// with the command that prints a link.
func (p *Plan) ConsoleHint(ctx context.Context, env *program.Env) string {
	if env.OnTerminal() {
		env.Buses, env.Data = []string{p.Bus}, p.data
		if link, err := busclient.ConsoleLink(ctx, env); err == nil {
			return "console (one-time link, valid for two minutes): " + link.URL
		}
	}
	return fmt.Sprintf("console: `hubbub console --bus %s --data %s` prints a link", p.Bus, p.data)
}

// runPlan runs the programs of a plan until ctx ends.
func runPlan(ctx context.Context, env *program.Env, p *Plan, printer *fleet.Printer) error {
	if p.listenAddress != "" {
		printer.Event("hubbub", fmt.Sprintf(
			"the programs connect to %s, as set by --bus or HUBBUB_BUS; the bus started here is at %s", p.Bus,
			p.listenAddress,
		))
	}
	says := "all programs run"
	for _, i := range p.skipped {
		if i.wanted {
			says = "not all programs run"
			printer.Event(i.name, i.reason)
		} else {
			printer.Say(i.name, i.reason)
		}
	}
	f := fleet.New(p.Children,
		&fleet.Options{Line: printer.Line, Event: printer.Event, OnStopExtended: env.ExtendStop})
	running, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, c := range p.Children {
			if f.Ready(running, c.Name) != nil { // an event gave the reason
				says = "not all programs run"
			}
		}
		if running.Err() == nil {
			printer.Say("hubbub", fmt.Sprintf("%s; the bus is at %s, the data is in %s", says, p.Bus, p.data))
			printer.Say("hubbub", p.ConsoleHint(running, env))
			if slices.ContainsFunc(p.skipped, func(i skipped) bool { return i.name == "tg" }) {
				printer.Say("hubbub", fmt.Sprintf(
					"without Telegram: `%s chat --start helper --bus %s --data %s` starts an agent to talk to",
					ProgramName(),
					p.Bus,
					p.data,
				))
			}
			env.Ready()
		}
	})
	wg.Go(func() {
		env.PulseWhile(running, func() bool {
			for _, c := range p.Children {
				f.PID(c.Name) // blocks if a lock of the child is held forever
			}
			return true
		})
	})
	err := f.Run(running)
	cancel()
	wg.Wait()
	if proc.IsUsageError(err) {
		return program.Usage("%s", err)
	}
	return err
}

// ProgramName returns the name with which the user can run this program again.
func ProgramName() string {
	if _, err := exec.LookPath("hubbub"); err != nil {
		return os.Args[0]
	}
	return "hubbub"
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"hubbub/cmd/internal/fleet"
	"hubbub/cmd/internal/program"
	"hubbub/peers/proc"

	"github.com/spf13/cobra"
)

func newUp() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Run the whole system from one file",
		Long: "Run the bus and its peers as child processes, until interrupted: restarted when they\n" +
			"crash, stopped in order, with one log. The file of --config has one table for each\n" +
			"program, [bus] [system] [tg] [broker] [chorus], with the names of its flags as keys, and\n" +
			"[agent] for the flags of the agents. Each program gets a credential of its own.\n\n" +
			"The bot's token comes from TELEGRAM_BOT_TOKEN or the file that TELEGRAM_BOT_TOKEN_FILE names.",
		Example:     "  TELEGRAM_BOT_TOKEN=... hubbub up --config hubbub.toml",
		Annotations: map[string]string{program.OwnConfig: "yes"},
		RunE:        up,
	}
}

func up(cmd *cobra.Command, _ []string) (err error) {
	env := program.From(cmd)
	r, err := readRequest(cmd)
	if err != nil {
		return err
	}
	if wrong := r.mistakes(cmd.Context()); len(wrong) > 0 {
		var lines []string
		for _, m := range wrong {
			lines = append(lines, m.String())
		}
		return program.Usage("%s", strings.Join(lines, "\n"))
	}
	p, err := makePlan(*r)
	if err != nil {
		return err
	}
	release, err := env.OwnData()
	if err != nil {
		return err
	}
	defer release()
	if err := provision(r.data, p); err != nil {
		return err
	}
	printer := fleet.NewPrinter(env.Stderr, printerFormat(r.format, env), 6)
	env.LogTo(lineWriter(func(line []byte) { printer.Line("hubbub", line) }))
	return runPlan(cmd.Context(), env, p, printer)
}

// readRequest reads what `hubbub up` shall run.
func readRequest(cmd *cobra.Command) (r *request, err error) {
	env := program.From(cmd)
	r = &request{file: env.Config, env: os.Environ(), data: env.Data, level: "info", format: env.LogFormat(), find: program.Find}
	if cmd.Flags().Changed("log-level") {
		r.level = env.LogLevel()
	}
	if cmd.Flags().Changed("bus") {
		r.bus = env.Buses[0]
	}
	if r.file == "" {
		return r, nil
	}
	if r.file, err = filepath.Abs(r.file); err != nil {
		return nil, err
	}
	if r.settings, err = program.ReadTOML(r.file); err != nil {
		return nil, err
	}
	if err := applyTop(cmd, r); err != nil {
		return nil, err
	}
	env.Data = r.data
	return r, nil
}

// A lineWriter calls a function for each whole line.
type lineWriter func(line []byte)

func (w lineWriter) Write(line []byte) (int, error) {
	w(line)
	return len(line), nil
}

// applyTop applies the settings outside the tables, unless a flag or variable overrides
// them.
func applyTop(cmd *cobra.Command, r *request) (err error) {
	for key, into := range map[string]*string{"data": &r.data, "log-level": &r.level, "log-format": &r.format} {
		v, ok := r.settings[key]
		if !ok || cmd.Flags().Changed(key) {
			continue
		}
		s, ok := v.(string)
		if !ok || s == "" {
			return program.Usage("%s: %s must be a text", r.file, key)
		}
		*into = s
	}
	r.data, err = filepath.Abs(r.data)
	return err
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

// consoleSentence says how to open the console of what runs: by a link that works once, if
// a person reads this now, and else by the command that prints one.
func (p *plan) consoleSentence(ctx context.Context, env *program.Env) string {
	if env.OnTerminal() {
		env.Buses, env.Data = []string{p.bus}, p.data
		if link, err := consoleLink(ctx, env); err == nil {
			return "console, once and within two minutes: " + link.URL
		}
	}
	return fmt.Sprintf("console: `hubbub console --bus %s --data %s` prints a link", p.bus, p.data)
}

// runPlan runs the children of a plan until ctx ends.
func runPlan(ctx context.Context, env *program.Env, p *plan, printer *fleet.Printer) error {
	if p.ownBus != "" {
		printer.Event("hubbub", fmt.Sprintf("the programs connect to %s, as --bus or HUBBUB_BUS says; the bus started here is at %s", p.bus, p.ownBus))
	}
	says := "everything runs"
	for _, i := range p.idle {
		if i.wanted {
			says = "not everything runs"
			printer.Event(i.name, i.reason)
		} else {
			printer.Say(i.name, i.reason)
		}
	}
	f := fleet.New(p.children, &fleet.Options{Line: printer.Line, Event: printer.Event})
	running, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, c := range p.children {
			if f.Ready(running, c.Name) != nil { // an event said why
				says = "not everything runs"
			}
		}
		if running.Err() == nil {
			printer.Say("hubbub", fmt.Sprintf("%s; the bus is at %s, the data in %s", says, p.bus, p.data))
			printer.Say("hubbub", p.consoleSentence(running, env))
			if slices.ContainsFunc(p.idle, func(i idlePart) bool { return i.name == "tg" }) {
				printer.Say("hubbub", fmt.Sprintf("without Telegram: `%s chat --start helper --bus %s --data %s` starts an agent and talks to it", programName(), p.bus, p.data))
			}
			env.Ready()
		}
	})
	wg.Go(func() {
		env.PulseWhile(running, func() bool {
			for _, c := range p.children {
				f.PID(c.Name) // blocks if a child's lock is held forever
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

package agents

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"hubbub/cmd/hubbub/internal/demo"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"

	"github.com/spf13/cobra"
)

// NewChat returns the command `hubbub chat`.
func NewChat() *cobra.Command {
	var group, start bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "chat [AGENT] [TEXT...]",
		Short: "Talk to an agent, or type into a running demo",
		Long: "Talk to an agent of a running system in a direct chat. With TEXT, or with lines from a pipe, it\n" +
			"sends that and waits for the answer; it exits 1 if no answer comes. Otherwise it sends each line\n" +
			"that you type. If the agent asks a question or needs a decision, another `hubbub chat` with the\n" +
			"same agent can answer it.\n\n" +
			"With --start, an agent that is not connected is started first, with the [agent] settings of the\n" +
			"system. It keeps running and keeps its memory.\n\n" +
			"If a `hubbub demo` runs and AGENT does not begin with agent:, all arguments are TEXT for the bot\n" +
			"of the demo.",
		Example: "  hubbub chat --start agent:helper\n  hubbub chat agent:lead is the deploy blocked?",
		RunE: func(cmd *cobra.Command, args []string) error {
			env := program.From(cmd)
			address, err := demoAddress(cmd)
			if len(args) > 0 && err == nil && !start && !strings.HasPrefix(args[0], "agent:") {
				if _, err = address.Say(cmd.Context(), group, strings.Join(args, " ")); !errors.Is(err,
					demo.ErrNoDemo) {
					return err // a killed demo leaves its address behind
				}
			}
			if len(args) > 0 {
				failed := runAgentChat(cmd, args[0], strings.Join(args[1:], " "), start, wait)
				if _, away := errors.AsType[*net.OpError](failed); away && err != nil && !errors.Is(err, errNoAgent) {
					return fmt.Errorf("%w; and %w", failed, err)
				}
				return failed
			}
			if errors.Is(err, errNoAgent) {
				return err
			}
			if err != nil {
				return fmt.Errorf("%w, or name the agent to talk to", err)
			}
			return chatWithDemo(cmd.Context(), env, address, group)
		},
	}
	cmd.Flags().BoolVar(&start, "start", false, "start AGENT first if it is not on the bus")
	cmd.Flags().DurationVar(
		&wait, "wait", 5*time.Minute, "how long to wait for the answer to TEXT, or to the last line of a pipe",
	)
	cmd.Flags().BoolVar(&group, "group", false, "write to the demo's group instead of the direct chat")
	return cmd
}

// errNoAgent means that the flags name a system other than a demo, but no agent.
var errNoAgent = program.Usage("AGENT is missing: with --bus or --config, hubbub chat talks to an agent and not " +
	"to a demo")

// demoAddress returns the address of the demo that a command means: the demo of --data or, unless
// a flag names another system, the latest one.
func demoAddress(cmd *cobra.Command) (demo.Address, error) {
	switch flags := cmd.Flags(); {
	case flags.Changed("data"):
		return demo.ReadAddress(program.From(cmd).Data)
	case flags.Changed("bus"), flags.Changed("config"):
		return demo.Address{}, errNoAgent
	}
	return demo.ReadAddress("")
}

// chatWithDemo sends lines to the demo and prints its chats until either side ends.
func chatWithDemo(ctx context.Context, env *program.Env, address demo.Address, group bool) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	env.Tell("Connected to the demo. Type a line; Ctrl-D ends.")
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { cancel(printDemoLines(ctx, env, address)) })
	err := demo.ForEachLine(ctx, env.Stdin, func(text string, toGroup bool) error {
		_, err := address.Say(ctx, group || toGroup, text)
		return err
	})
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// printDemoLines prints the lines of the demo's chats.
func printDemoLines(ctx context.Context, env *program.Env, address demo.Address) error {
	paint := term.NewPainter(env.Stdout)
	last := -1
	for {
		lines, next, err := address.Lines(ctx, last)
		if err != nil {
			return err
		}
		last = next
		for _, l := range lines {
			colour := term.Bold
			if l.Bot {
				colour = term.Green
			}
			fmt.Fprintf(env.Stdout, "%s %s\n", paint.Paint(colour, term.Printable(l.Author)+":"),
				term.Printable(l.Text))
		}
	}
}

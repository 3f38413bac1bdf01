package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"hubbub/cmd/internal/demo"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/screen"

	"github.com/spf13/cobra"
)

func newChat() *cobra.Command {
	var group bool
	cmd := &cobra.Command{
		Use:   "chat [TEXT...]",
		Short: "Type into a running demo",
		Long: "Write to the bot of a running `hubbub demo`, and see what it answers. With TEXT it\n" +
			"sends that and ends; otherwise it sends each line that is typed.",
		RunE: func(cmd *cobra.Command, args []string) error {
			env := program.From(cmd)
			data := ""
			if cmd.Flags().Changed("data") {
				data = env.Data
			}
			address, err := demo.ReadAddress(data)
			if err != nil {
				return err
			}
			if len(args) > 0 {
				_, err := address.Say(cmd.Context(), group, strings.Join(args, " "))
				return err
			}
			return chat(cmd.Context(), env, address, group)
		},
	}
	cmd.Flags().BoolVar(&group, "group", false, "write to the demo's group instead of the direct chat")
	return cmd
}

// chat sends lines and shows what becomes visible, until either side ends.
func chat(ctx context.Context, env *program.Env, address demo.Address, group bool) error {
	stdin, ok := env.Stdin.(*os.File)
	if !ok {
		return errors.New("there is nothing to read lines from")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	fmt.Fprintln(env.Stderr, "Connected to the demo. Type a line; Ctrl-D ends.")
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel(nil)
	wg.Go(func() { cancel(showLines(ctx, env, address)) })
	err := eachTyped(ctx, stdin, func(text string, toGroup bool) error {
		_, err := address.Say(ctx, group || toGroup, text)
		return err
	})
	if cause := context.Cause(ctx); err == nil && cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// showLines prints what becomes visible in the demo's chats.
func showLines(ctx context.Context, env *program.Env, address demo.Address) error {
	paint := screen.NewPainter(env.Stdout)
	last := -1
	for {
		lines, next, err := address.Lines(ctx, last)
		if err != nil {
			return err
		}
		last = next
		for _, l := range lines {
			colour := screen.Bold
			if l.Bot {
				colour = screen.Green
			}
			fmt.Fprintf(env.Stdout, "%s %s\n", paint.Paint(colour, screen.Printable(l.Author)+":"), screen.Printable(l.Text))
		}
	}
}

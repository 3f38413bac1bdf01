package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"hubbub/cmd/internal/letters"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/screen"
	"hubbub/peers/outbox"

	"github.com/spf13/cobra"
)

func newOutbox() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Show what could not be delivered, and decide about it",
		Long: "Works on the data folder (--data) of the bridge and of the programs beside it, while they run or not. An item\n" +
			"is pending, being sent, or needs a person: dead (refused for good, or a day old) or unknown (nobody knows\n" +
			"whether it arrived). Where it is not the bridge's, its number has the program before it: agent-lead:12. Of such\n" +
			"a program, only what needs a person can be retried or dropped.",
	}
	cmd.AddCommand(newOutboxList(), newOutboxChange("retry",
		"Send an item again; an unknown one may then arrive twice", "will be sent again", letters.Folder.Retry),
		newOutboxChange("drop", "Give an item up", "is given up", letters.Folder.Drop))
	return cmd
}

func newOutboxList() *cobra.Command {
	var all, dead bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what waits and what needs a person",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			states := []outbox.State{outbox.StatePending, outbox.StateSending, outbox.StateDead, outbox.StateUnknown}
			switch {
			case all && dead:
				return program.Usage("--all and --dead exclude each other")
			case all:
				states = nil
			case dead:
				states = states[2:]
			}
			items, err := letters.Folder(program.From(cmd).Data).List(cmd.Context(), states...)
			if err != nil && len(items) == 0 {
				return err
			}
			return errors.Join(printOutbox(cmd, items), err)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list what was sent or dropped too")
	cmd.Flags().BoolVar(&dead, "dead", false, "list only what needs a person")
	return cmd
}

func printOutbox(cmd *cobra.Command, items []letters.Item) error {
	out := cmd.OutOrStdout()
	if asJSON(cmd) {
		encoder := jsonLines(out)
		for i := range items {
			if err := encoder.Encode(&items[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(items) == 0 {
		_, err := fmt.Fprintln(out, "nothing waits, and nothing needs a person")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tTO\tSTATE\tTRIED\tQUEUED\tNEXT\tFROM\tTEXT\tLAST ERROR")
	for i := range items {
		w := &items[i]
		next := ""
		if d := time.Until(w.NextAt); w.State == outbox.StatePending && d > 0 {
			next = "in " + d.Round(time.Second).String()
		}
		to := w.Destination
		if w.Queue != "agents" {
			to = strings.TrimSpace(w.Queue + " " + to)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s ago\t%s\t%s\t%s\t%s\n", screen.Printable(w.Name()), screen.Printable(to), w.State, w.Attempts,
			ago(time.Since(w.QueuedAt)), next, screen.Printable(w.Agent), screen.Clip(screen.Printable(w.Text), 40), screen.Clip(screen.Printable(w.Error), 120))
	}
	return t.Flush()
}

func newOutboxChange(name, short, done string, change func(letters.Folder, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " ITEM...",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, item := range args {
				if _, _, err := letters.Parse(item); err != nil {
					return program.Usage("%v", err)
				}
			}
			folder := letters.Folder(program.From(cmd).Data)
			for _, item := range args {
				if err := change(folder, cmd.Context(), item); err != nil {
					return err
				}
				if err := printChange(cmd, item, name, done); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func printChange(cmd *cobra.Command, item, name, done string) error {
	if !asJSON(cmd) {
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "item %s %s\n", item, done)
		return err
	}
	program, id, err := letters.Parse(item)
	if err != nil {
		return err
	}
	return jsonLines(cmd.OutOrStdout()).Encode(map[string]any{"program": program, "id": id, "done": name})
}

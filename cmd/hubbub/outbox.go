package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/screen"
	"hubbub/peers/outbox"
	"hubbub/peers/tg"

	"github.com/spf13/cobra"
)

func newOutbox() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "Show what the bridge could not deliver, and decide about it",
		Long: "Works on the bridge's data folder (--data), while it runs or not. An item is pending, being sent, or needs a\n" +
			"person: dead (refused for good, or a day old) or unknown (nobody knows whether it arrived).",
	}
	cmd.AddCommand(newOutboxList(), newOutboxChange("retry",
		"Send an item again; an unknown one may then arrive twice", "will be sent again", (*tg.Queues).Retry),
		newOutboxChange("drop", "Give an item up", "is given up", (*tg.Queues).Drop))
	return cmd
}

// bridgeDatabase opens the database of a bridge that has run in the data folder.
func bridgeDatabase(cmd *cobra.Command) (*sql.DB, error) {
	env := program.From(cmd)
	path := env.DataFile(tg.Database)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no Telegram bridge has used the folder %s; name its folder with --data", env.Data)
	}
	return tg.Open(path)
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
			db, err := bridgeDatabase(cmd)
			if err != nil {
				return err
			}
			defer db.Close()
			items, err := tg.NewQueues(db).List(cmd.Context(), states...)
			if err != nil {
				return err
			}
			return printOutbox(cmd, items)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "list what was sent or dropped too")
	cmd.Flags().BoolVar(&dead, "dead", false, "list only what needs a person")
	return cmd
}

func printOutbox(cmd *cobra.Command, items []tg.Waiting) error {
	out := cmd.OutOrStdout()
	if asJSON(cmd) {
		encoder := json.NewEncoder(out)
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
			to = w.Queue + " " + to
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%d\t%s ago\t%s\t%s\t%s\t%s\n", w.ID, screen.Printable(to), w.State, w.Attempts,
			ago(time.Since(w.QueuedAt)), next, screen.Printable(w.Agent), screen.Clip(screen.Printable(w.Text), 40), screen.Clip(screen.Printable(w.Error), 120))
	}
	return t.Flush()
}

func newOutboxChange(name, short, done string, change func(*tg.Queues, context.Context, int64) error) *cobra.Command {
	return &cobra.Command{
		Use:   name + " ID...",
		Short: short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var ids []int64
			for _, arg := range args {
				id, err := strconv.ParseInt(arg, 10, 64)
				if err != nil {
					return program.Usage("%q is no item's number; see hubbub outbox list", arg)
				}
				ids = append(ids, id)
			}
			db, err := bridgeDatabase(cmd)
			if err != nil {
				return err
			}
			defer db.Close()
			for _, id := range ids {
				if err := change(tg.NewQueues(db), cmd.Context(), id); err != nil {
					return err
				}
				if asJSON(cmd) {
					err = json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]any{"id": id, "done": name})
				} else {
					_, err = fmt.Fprintf(cmd.OutOrStdout(), "item %d %s\n", id, done)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

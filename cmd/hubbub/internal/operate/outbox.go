package operate

import (
	"context"
	"errors"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/completion"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/deadletter"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/peers/outbox"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// NewOutbox returns the command `hubbub outbox`.
func NewOutbox() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "outbox",
		Short: "List undelivered messages, and retry or drop them",
		Long: "Work on the data folder (--data) of the bridges and the other programs, which may run meanwhile.\n" +
			"An item is pending or being sent, or it needs a person: it is dead (rejected permanently, or a day\n" +
			"old) or unknown (its delivery is uncertain). If it does not belong to the Telegram bridge, the\n" +
			"name of its program comes before its number: matrix:12 or agent-lead:12. Of these programs, only\n" +
			"items that need a person can be retried or dropped.",
	}
	cmd.AddCommand(newOutboxList(), newOutboxChange("retry",
		"Send an item again; an unknown item may arrive twice", "will be sent again", deadletter.Folder.Retry),
		newOutboxChange("drop", "Give up an item", "was given up", deadletter.Folder.Drop))
	return cmd
}

func newOutboxList() *cobra.Command {
	var all, dead bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List items that wait or need a person",
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
			items, err := deadletter.Folder(program.From(cmd).Data).List(cmd.Context(), states...)
			if err != nil && len(items) == 0 {
				return err
			}
			none := "no item waits or needs a person"
			head := []any{"ID", "TO", "STATE", "TRIED", "QUEUED", "NEXT", "FROM", "TEXT", "LAST ERROR"}
			return errors.Join(output.Table(cmd, items, none, head, outboxRow), err)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also list sent and dropped items")
	cmd.Flags().BoolVar(&dead, "dead", false, "list only items that need a person")
	return cmd
}

func outboxRow(w deadletter.Item) []any {
	next := ""
	if d := time.Until(w.NextAt); w.State == outbox.StatePending && d > 0 {
		next = "in " + d.Round(time.Second).String()
	}
	to := w.Destination
	if w.Queue != "agents" {
		to = strings.TrimSpace(w.Queue + " " + to)
	}
	return []any{
		term.Printable(
			w.Name(),
		), term.Printable(to), w.State, w.Attempts, view.Ago(time.Since(w.QueuedAt), "") + " ago", next,
		term.Printable(w.Agent), text.Clip(term.Printable(w.Text), 40), text.Clip(term.Printable(w.Error), 120),
	}
}

func newOutboxChange(
	name, short, done string, change func(deadletter.Folder, context.Context, string) error,
) *cobra.Command {
	return &cobra.Command{
		Use:   name + " ITEM...",
		Short: short,
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, item := range args {
				if _, _, err := deadletter.ParseName(item); err != nil {
					return program.Usage("%v", err)
				}
			}
			for _, item := range args {
				err := change(deadletter.Folder(program.From(cmd).Data), cmd.Context(), item)
				if err == nil {
					of, id, _ := deadletter.ParseName(item) //nolint:errcheck // it was parsed above
					err = output.Line(cmd, map[string]any{"program": of, "id": id, "done": name}, "item %s %s", item,
						done)
				}
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// Undelivered lists the items of outboxes that need a person's decision.
func Undelivered(cmd *cobra.Command) (list []string, err error) {
	items, err := deadletter.Folder(program.From(cmd).Data).List(cmd.Context(), outbox.StateDead, outbox.StateUnknown)
	for _, item := range items {
		list = completion.Append(list, item.Name(), string(item.State)+" "+item.Destination)
	}
	return list, err
}

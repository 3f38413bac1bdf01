package agents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/completion"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/deadletter"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/peers/agent/mailbox/reminders"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// An agentReminder is a reminder with the agent that set it.
type agentReminder struct {
	Agent string `json:"agent"` // the name of the program, such as agent-lead
	reminders.Reminder

	database string
}

// NewReminders returns the command `hubbub reminders`.
func NewReminders() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "reminders",
		Short: "List and cancel the reminders of agents",
		Long: "List the reminders that agents have set for themselves (chat.remind). They are read from the\n" +
			"data folder (--data) of the programs, which may run meanwhile.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := readReminders(cmd)
			if err != nil && len(list) == 0 {
				return err
			}
			head := []any{"ID", "AGENT", "CHAT", "DUE", "REPEATS", "TEXT"}
			return errors.Join(output.Table(cmd, list, "no agent has set a reminder", head, reminderRow), err)
		},
	}
	cmd.AddCommand(&cobra.Command{
		Use:   "cancel REMINDER...",
		Short: "Cancel reminders",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			list, err := readReminders(cmd)
			for _, id := range args {
				if cancelled, failed := cancelReminder(cmd.Context(), list, id); failed != nil {
					return errors.Join(err, failed)
				} else if err := output.Line(
					cmd, map[string]string{"id": id, "agent": cancelled}, "%s of %s is cancelled", id, cancelled,
				); err != nil {
					return err
				}
			}
			return err
		},
	})
	return cmd
}

func readReminders(cmd *cobra.Command) (list []agentReminder, err error) {
	for _, a := range deadletter.Folder(program.From(cmd).Data).Agents() {
		kept, failed := reminders.Read(cmd.Context(), a.Database)
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("reading the reminders of %s: %w", a.Name, failed))
		}
		for _, r := range kept {
			list = append(list, agentReminder{a.Name, r, a.Database})
		}
	}
	return list, err
}

func cancelReminder(ctx context.Context, list []agentReminder, id string) (agent string, err error) {
	for _, r := range list {
		if r.ID != id {
			continue
		}
		found, err := reminders.RequestCancel(ctx, r.database, id, string(busclient.NewID("reminders")))
		if err != nil || found {
			return r.Agent, err
		}
	}
	return "", fmt.Errorf("no reminder has the ID %s; hubbub reminders lists them", id)
}

func reminderRow(r agentReminder) []any {
	repeats := cmp.Or(r.Cron, "once")
	if r.Cron != "" {
		repeats += " " + r.Zone
	}
	return []any{
		r.ID,
		term.Printable(r.Agent),
		term.Printable(string(r.Chat)),
		r.Due.UTC().Format(time.RFC3339),
		term.Printable(repeats),
		text.Clip(term.Printable(text.OneLine(r.Text)), 60),
	}
}

// PendingReminders lists the reminders of agents, for completion.
func PendingReminders(cmd *cobra.Command) (list []string, err error) {
	kept, err := readReminders(cmd)
	for _, r := range kept {
		list = completion.Append(list, r.ID, text.OneLine(r.Text))
	}
	return list, err
}

package logs

import (
	"time"

	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

// ParseTime parses the time of a flag: RFC 3339, a day, or a duration before now.
func ParseTime(flag, text string, now time.Time) (time.Time, error) {
	at, err := view.Moment(flag, text, now)
	if err != nil {
		return at, program.Usage("--%s", err)
	}
	return at, nil
}

// RowFlags are the flags that select rows, and the filter that they make.
type RowFlags struct {
	view.Query
	Chosen read.Filter
}

// AddTimes adds the flags for a range of time. what names what they select.
func (f *RowFlags) AddTimes(cmd *cobra.Command, what string, until bool) {
	cmd.Flags().StringVar(
		&f.Since, "since", "", what+"from this time on: 2026-02-17T12:00:00Z, or an age such as 15m, 12h or 30d",
	)
	if until {
		cmd.Flags().StringVar(&f.Until, "until", "", what+"before this time, in the same format")
	}
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if f.Chosen, err = f.Filter(time.Now()); err != nil {
			return program.Usage("--%s", err)
		}
		return nil
	}
}

// Add adds all flags that select rows.
func (f *RowFlags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(
		&f.Topic, "topic", "", "rows whose topic matches this pattern; with ! before it, rows whose topic does not",
	)
	flags.StringVar(
		&f.Peer,
		"peer",
		"",
		"rows whose actor matches this pattern: the sender of send rows, the target of process rows; with ! before "+
			"it, rows whose actor does not",
	)
	flags.StringSliceVar(
		&f.Types, "type", nil, "rows of messages of this type; with ! before it, of all other types (repeatable)",
	)
	flags.StringSliceVar(&f.Events, "event", nil, "rows of this event, such as send_start (repeatable)")
	flags.StringVar(&f.Status, "status", "", "rows with this status, such as timeout")
	flags.StringVar(&f.Text, "text", "", "rows with this text in the payload, the error or the message ID")
	f.AddTimes(cmd, "rows ", true)
	for flag, names := range map[string][]string{
		"type":   view.TypeNames(),
		"event":  view.EventNames(),
		"status": view.Statuses,
	} {
		_ = cmd.RegisterFlagCompletionFunc(
			flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp),
		) // the flag exists
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

// activityFile is the name of the activity log in a data folder.
const activityFile = "activity.db"

// logFlag adds --log, which says which logs a command reads.
func logFlag(cmd *cobra.Command) *[]string {
	return cmd.PersistentFlags().StringArray("log", nil,
		"activity log to read: a data folder or a database; repeat it for the buses of a cluster (default that of --data)")
}

// logPaths returns the databases that --log names.
func logPaths(env *program.Env, named []string) []string {
	if len(named) == 0 {
		return []string{env.DataFile(activityFile)}
	}
	paths := make([]string, len(named))
	for i, name := range named {
		paths[i] = name
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			paths[i] = filepath.Join(name, activityFile)
		}
	}
	return paths
}

// openLogs opens the logs that --log names; each must exist. Close must be
// called.
func openLogs(cmd *cobra.Command, named []string) (*activitylog.Reader, error) {
	r := activitylog.Open(logPaths(program.From(cmd), named)...)
	if err := r.Check(cmd.Context()); err != nil {
		r.Close()
		return nil, describeLog(err)
	}
	return r, nil
}

// describeLog adds advice to the error of a log that cannot be read.
func describeLog(err error) error {
	if errors.Is(err, activitylog.ErrNoLog) {
		return fmt.Errorf("%w: is --data (or --log) right? A bus writes it there: start one with `hubbub up` or `hubbub demo`", err)
	}
	return err
}

// moment reads the time of a flag: RFC 3339, a day, or a duration before now.
func moment(flag, text string, now time.Time) (time.Time, error) {
	at, err := view.Moment(flag, text, now)
	if err != nil {
		return at, program.Usage("--%s", err)
	}
	return at, nil
}

// rowFlags are the flags that choose rows.
type rowFlags struct{ view.Query }

func (f *rowFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Topic, "topic", "", "rows whose topic matches this pattern")
	flags.StringVar(&f.Peer, "peer", "", "rows whose actor matches this pattern: the sender of send rows, the target of process rows")
	flags.StringSliceVar(&f.Types, "type", nil, "rows of messages of this type (repeatable)")
	flags.StringSliceVar(&f.Events, "event", nil, "rows of this event, such as send_start (repeatable)")
	flags.StringVar(&f.Status, "status", "", "rows with this status, such as timeout")
	flags.StringVar(&f.Text, "text", "", "rows with this text in the payload, the error or the message id")
	flags.StringVar(&f.Since, "since", "", "rows from this time on: 2026-02-17T12:00:00Z, or 15m, 12h, 30d ago")
	flags.StringVar(&f.Until, "until", "", "rows before this time, written likewise")
	for flag, names := range map[string][]string{"type": view.TypeNames(), "event": view.EventNames(), "status": view.Statuses} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
}

// filter returns the filter, or a usage error that names the flag.
func (f *rowFlags) filter(now time.Time) (activitylog.Filter, error) {
	filter, err := f.Filter(now)
	if err != nil {
		return filter, program.Usage("--%s", err)
	}
	return filter, nil
}

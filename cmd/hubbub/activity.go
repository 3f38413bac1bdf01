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

// logs are the values of --log, which say which logs a command reads.
type logs []string

// addLogs adds --log to a command and those below it.
func addLogs(cmd *cobra.Command) *logs {
	l := new(logs)
	cmd.PersistentFlags().StringArrayVar((*[]string)(l), "log", nil,
		"activity log to read: a data folder or a database; repeat it for the buses of a cluster (default that of --data)")
	return l
}

// read makes the RunE of a command that reads the logs; each of them must exist.
func (l *logs) read(run func(cmd *cobra.Command, r *activitylog.Reader, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		r := activitylog.Open(logPaths(program.From(cmd), *l)...)
		defer r.Close()
		if err := r.Check(cmd.Context()); err != nil {
			return describeLog(err)
		}
		return run(cmd, r, args)
	}
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

// rowFlags are the flags that choose rows, and what they mean once a command runs.
type rowFlags struct {
	view.Query
	filter activitylog.Filter
}

// addTimes adds the flags for a range of time. what names what is chosen.
func (f *rowFlags) addTimes(cmd *cobra.Command, what string, until bool) {
	cmd.Flags().StringVar(&f.Since, "since", "", what+"from this time on: 2026-02-17T12:00:00Z, or 15m, 12h, 30d ago")
	if until {
		cmd.Flags().StringVar(&f.Until, "until", "", what+"before this time, written likewise")
	}
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if f.filter, err = f.Filter(time.Now()); err != nil {
			return program.Usage("--%s", err)
		}
		return nil
	}
}

// add adds all of them.
func (f *rowFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Topic, "topic", "", "rows whose topic matches this pattern")
	flags.StringVar(&f.Peer, "peer", "", "rows whose actor matches this pattern: the sender of send rows, the target of process rows")
	flags.StringSliceVar(&f.Types, "type", nil, "rows of messages of this type (repeatable)")
	flags.StringSliceVar(&f.Events, "event", nil, "rows of this event, such as send_start (repeatable)")
	flags.StringVar(&f.Status, "status", "", "rows with this status, such as timeout")
	flags.StringVar(&f.Text, "text", "", "rows with this text in the payload, the error or the message id")
	f.addTimes(cmd, "rows ", true)
	for flag, names := range map[string][]string{"type": view.TypeNames(), "event": view.EventNames(), "status": view.Statuses} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
}

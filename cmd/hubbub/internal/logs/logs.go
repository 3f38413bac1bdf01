package logs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"

	"github.com/spf13/cobra"
)

// File is the name of the activity log in a data folder.
const File = "activity.db"

// A Flag holds the values of --log: the activity logs that a command reads.
type Flag []string

// AddFlag adds --log to a command and its subcommands.
func AddFlag(cmd *cobra.Command) *Flag {
	l := new(Flag)
	cmd.PersistentFlags().StringArrayVar((*[]string)(l), "log", nil,
		"activity log to read: a data folder or a database; repeat it for the buses of a cluster (default: the log "+
			"in --data)")
	return l
}

// Run returns a RunE function for a command that reads the logs. Each log must exist.
func (l *Flag) Run(
	run func(cmd *cobra.Command, r *read.Reader, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		r := read.Open(Paths(program.From(cmd), *l)...)
		defer r.Close()
		if err := r.Check(cmd.Context()); err != nil {
			return Explain(err)
		}
		return run(cmd, r, args)
	}
}

// Progress shows that a log is being read, until something is printed.
func Progress(cmd *cobra.Command) *term.Progress {
	return program.From(cmd).Progress("reading the log", "", nil)
}

// Paths returns the database files that the values of --log name.
func Paths(env *program.Env, named []string) []string {
	if len(named) == 0 {
		return []string{env.DataFile(File)}
	}
	paths := make([]string, len(named))
	for i, name := range named {
		paths[i] = name
		if info, err := os.Stat(name); err == nil && info.IsDir() {
			paths[i] = filepath.Join(name, File)
		}
	}
	return paths
}

// recentRows is how many of the newest rows are searched for titles and short IDs.
const recentRows = 2000

// Titles returns the titles of the chats in recent rows. Without a log it returns none.
func Titles(ctx context.Context, r *read.Reader) *view.Titles {
	titles := new(view.Titles)
	rows, _, _ := r.Before(
		ctx, read.Filter{Events: []activitylog.Event{activitylog.SendStart}}, nil, recentRows,
	) // on an error, use the rows that were read
	for i := range rows {
		titles.Learn(&rows[i])
	}
	return titles
}

// TitlesFor returns the titles from the logs that a command reads.
func TitlesFor(cmd *cobra.Command) *view.Titles {
	var named []string
	if cmd.Flag("log") != nil {
		named, _ = cmd.Flags().GetStringArray("log") // the flag has this type
	}
	r := read.Open(Paths(program.From(cmd), named)...)
	defer r.Close()
	return Titles(cmd.Context(), r)
}

// Explain adds advice to the error of a log that cannot be read.
func Explain(err error) error {
	if errors.Is(err, activitylog.ErrNoLog) {
		return fmt.Errorf("%w: check --data or --log. A bus writes the log: start one with `hubbub up` or `hubbub demo`", err)
	}
	return err
}

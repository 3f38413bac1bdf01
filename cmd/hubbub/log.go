package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"

	"github.com/spf13/cobra"
)

func newLog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Check, prove, export and prune the activity log",
		RunE: func(*cobra.Command, []string) error {
			return program.Usage("say what to do: hubbub log verify, prove, key, export, prune or sql; hubbub tail shows it")
		},
	}
	logs := addLogs(cmd)
	cmd.AddCommand(newLogVerify(logs), newLogExport(logs), newLogPrune(logs), newLogSQL(logs), newLogKey(logs), newLogProve(logs))
	return cmd
}

func newLogPrune(logs *logs) *cobra.Command {
	var before string
	cmd := &cobra.Command{
		Use:   "prune --before TIME",
		Short: "Delete sealed files of the log that are older than a time",
		Long: "Delete the sealed files of the activity log all of whose rows are older than a time,\n" +
			"the oldest first. Their room on the disk is free at once. Rows that are as old stay\n" +
			"where younger ones are in the same file, and in activity.db until it is sealed. The\n" +
			"bus may run meanwhile; by --activity-keep it does this by itself.",
		Example: "  hubbub log prune --before 30d\n  hubbub log prune --before 2026-01-01T00:00:00Z",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if before == "" {
				return program.Usage("--before says which rows to delete: those before 2026-01-01T00:00:00Z, or older than 30d")
			}
			at, err := moment("before", before, time.Now())
			if err != nil {
				return err
			}
			for _, path := range logPaths(program.From(cmd), *logs) {
				if err := prune(cmd, path, at); err != nil {
					return describeLog(err)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "rows older than this are deleted: 2026-01-01T00:00:00Z, or 30d, 12h")
	return cmd
}

func prune(cmd *cobra.Command, path string, before time.Time) error {
	if err := activitylog.CheckVersion(path); err != nil {
		return err
	}
	progress := program.From(cmd).Progress("deleting sealed files of "+path, "", nil)
	removed, err := activitylog.Prune(cmd.Context(), path, before)
	progress.End()
	switch {
	case err != nil && removed.Segments > 0:
		return fmt.Errorf("%w (%d rows were deleted before)", err, removed.Rows)
	case err != nil:
		return err
	}
	return printLine(cmd, struct {
		Log    string    `json:"log"`
		Before time.Time `json:"before"`
		activitylog.Removal
	}{path, before.UTC(), removed}, "%d rows from before %s deleted from %s, in %d sealed files of %d bytes",
		removed.Rows, before.Local().Format(time.DateTime), path, removed.Segments, removed.Bytes)
}

func newLogExport(logs *logs) *cobra.Command {
	var rows rowFlags
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write rows as JSON lines, the oldest first",
		Long: "Write rows of the activity log to standard output, one JSON object a line, by the\n" +
			"names of the columns. Several logs (--log) are merged by time.",
		Example: "  hubbub log export > activity.jsonl\n  hubbub log export --since 24h --type tg_message | jq .payload_json.content",
		RunE: logs.read(func(cmd *cobra.Command, r *activitylog.Reader, _ []string) error {
			w := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			enc := jsonLines(w)
			progress := program.From(cmd).Progress("exporting", "rows", cmd.OutOrStdout())
			defer progress.End()
			err := r.Each(cmd.Context(), rows.filter, func(e *activitylog.Entry) error {
				progress.Add(1)
				return enc.Encode(e)
			})
			return errors.Join(err, w.Flush())
		}),
	}
	rows.add(cmd)
	return cmd
}

func newLogSQL(logs *logs) *cobra.Command {
	return &cobra.Command{
		Use:   "sql SELECT...",
		Short: "Run one SELECT over all files of the log",
		Long: "Run one SELECT over all files of the log as one table, activity_log, with the columns\n" +
			"id, ts, event, message_id, rpc_id, actor, topic, status, payload_json, error and bus.\n" +
			"A line a row, columns apart by tabs; with --json an object a row.",
		Example: "  hubbub log sql 'SELECT * FROM activity_log ORDER BY id DESC LIMIT 20'\n" +
			"  hubbub log sql 'SELECT event, count(*) FROM activity_log GROUP BY event'",
		Args: cobra.MinimumNArgs(1),
		RunE: logs.read(func(cmd *cobra.Command, r *activitylog.Reader, args []string) error {
			w := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			print := sqlLines(w)
			if newPrinter(cmd).json {
				print = sqlObjects(jsonLines(w))
			}
			progress := readingLog(cmd)
			defer progress.End()
			err := r.SQL(cmd.Context(), strings.Join(args, " "), func(columns []string, values []any) error {
				progress.End()
				return print(columns, values)
			})
			return errors.Join(err, w.Flush())
		}),
	}
}

// sqlLines returns what prints a row as a line, the first behind the names of the columns.
func sqlLines(w io.Writer) func(columns []string, values []any) error {
	begun := false
	return func(columns []string, values []any) error {
		if !begun {
			begun = true
			if _, err := fmt.Fprintln(w, strings.Join(columns, "\t")); err != nil {
				return err
			}
		}
		cells := make([]string, len(values))
		for i, v := range values {
			if v != nil {
				cells[i] = term.Printable(fmt.Sprint(v))
			}
		}
		_, err := fmt.Fprintln(w, strings.Join(cells, "\t"))
		return err
	}
}

func sqlObjects(enc *json.Encoder) func(columns []string, values []any) error {
	return func(columns []string, values []any) error {
		object := make(map[string]any, len(columns))
		for i, name := range columns {
			object[name] = values[i]
		}
		return enc.Encode(object)
	}
}

func newLogVerify(logs *logs) *cobra.Command {
	var opts activitylog.VerifyOptions
	var kept []string
	strict := false
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the log is whole",
		Long: "Check the file, its schema, and that each message has one send_start, one\n" +
			"send_finish, and a process_start and process_finish for each peer that its result\n" +
			"counts. Check that no row was altered, removed or moved since the bus signed it,\n" +
			"and name the first one that was. Exit 1 when something is wrong that neither a kill\n" +
			"of the bus nor a log_gap row explains; with --strict also for those.\n\n" +
			"A log that somebody cut, or replaced by an older copy of all its files, is only told\n" +
			"by what was kept elsewhere: --checkpoint with a copy of activity.checkpoint or with a\n" +
			"proof, and --key with what hubbub log key printed.",
		Example: "  hubbub log verify\n  hubbub log verify --checkpoint /backup/activity.checkpoint",
		RunE: logs.read(func(cmd *cobra.Command, r *activitylog.Reader, _ []string) error {
			var err error
			if opts.Checkpoints, err = readCheckpoints(kept); err != nil {
				return err
			}
			progress := program.From(cmd).Progress("checking the log", "rows", nil)
			opts.OnRow = func() { progress.Add(1) }
			v, err := r.Verify(cmd.Context(), &opts)
			progress.End()
			if err == nil {
				err = printResult(cmd, v, func(p *printer) { p.verdict(v) })
			}
			switch {
			case err != nil:
				return err
			case !v.OK():
				return fmt.Errorf("the activity log is not whole: %d problems", int64(len(v.Problems))+v.More)
			case strict && (v.Cut > 0 || len(v.Gaps) > 0):
				return fmt.Errorf("the activity log is not complete: %d messages end early, %d gaps", v.Cut, len(v.Gaps))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&opts.Quick, "quick", false, "leave out SQLite's own check, which reads the whole file")
	cmd.Flags().BoolVar(&opts.Partial, "partial", false, "these are not all logs of a cluster: rows may be in another one")
	cmd.Flags().StringVar(&opts.Key, "key", "", "verifier key that must have signed the log, as hubbub log key printed it")
	cmd.Flags().StringArrayVar(&kept, "checkpoint", nil, "file with a checkpoint or proof of the log that was kept elsewhere (repeatable)")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 1 also for gaps and for messages that a kill cut short")
	cmd.Flags().DurationVar(&opts.Longest, "longest", time.Minute, "how long a message may be under way")
	return cmd
}

func (p *printer) verdict(v *activitylog.Verdict) {
	state := p.Paint(term.Green, "whole")
	if !v.OK() {
		state = p.Paint(term.Red, "not whole")
	}
	p.line("the log is %s: %d rows, %d messages, %d complete", state, v.Rows, v.Messages, v.Complete)
	if v.Rows > 0 {
		p.line("from %s to %s", v.First.Local().Format(time.DateTime), v.Last.Local().Format(time.DateTime))
	}
	count := func(n int64, format string) {
		if n > 0 {
			p.line(format, n)
		}
	}
	count(v.UnderWay, "%d messages at the end are still under way")
	count(v.Cut, "%d messages end early or begin late: the bus was killed, rows were lost in a gap, or pruned")
	count(v.Elsewhere, "%d messages have rows in the logs of other buses")
	for _, a := range v.Audits {
		p.audit(a)
	}
	for _, g := range v.Gaps {
		p.line("%s %s: %d rows were lost: %s", p.Paint(term.Yellow, "gap"), g.At.Local().Format(time.DateTime), g.Lost, term.Printable(g.Reason))
	}
	for _, f := range v.Problems {
		where := f.Log
		if f.ID > 0 {
			where = fmt.Sprintf("%s row %d", where, f.ID)
		}
		if f.MessageID != "" {
			where += " message " + term.Printable(f.MessageID)
		}
		p.line("%s %s: %s", p.Paint(term.Red, "problem"), where, term.Printable(f.What))
	}
	count(v.More, "and %d problems more")
}

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

// readingLog says that a log is read, until something is printed.
func readingLog(cmd *cobra.Command) *term.Progress {
	return program.From(cmd).Progress("reading the log", "", nil)
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

// titledRows is in how many of the last rows titles of chats are looked for.
const titledRows = 2000

// titlesIn returns what people call the chats in which something was said lately, as the logs
// tell; without logs, none.
func titlesIn(ctx context.Context, r *activitylog.Reader) *view.Titles {
	titles := new(view.Titles)
	rows, _, _ := r.Before(ctx, activitylog.Filter{Events: []activitylog.Event{activitylog.SendStart}}, nil, titledRows) // those it has
	for i := range rows {
		titles.Learn(&rows[i])
	}
	return titles
}

// titlesHere is titlesIn for the logs that a command reads.
func titlesHere(cmd *cobra.Command) *view.Titles {
	var named []string
	if cmd.Flag("log") != nil {
		named, _ = cmd.Flags().GetStringArray("log") // the flag is one
	}
	r := activitylog.Open(logPaths(program.From(cmd), named)...)
	defer r.Close()
	return titlesIn(cmd.Context(), r)
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
	flags.StringVar(&f.Topic, "topic", "", "rows whose topic matches this pattern, or with ! before it does not")
	flags.StringVar(&f.Peer, "peer", "", "rows whose actor matches this pattern: the sender of send rows, the target of process rows; or with ! before it does not")
	flags.StringSliceVar(&f.Types, "type", nil, "rows of messages of this type, or with ! before it of all others (repeatable)")
	flags.StringSliceVar(&f.Events, "event", nil, "rows of this event, such as send_start (repeatable)")
	flags.StringVar(&f.Status, "status", "", "rows with this status, such as timeout")
	flags.StringVar(&f.Text, "text", "", "rows with this text in the payload, the error or the message id")
	f.addTimes(cmd, "rows ", true)
	for flag, names := range map[string][]string{"type": view.TypeNames(), "event": view.EventNames(), "status": view.Statuses} {
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
}

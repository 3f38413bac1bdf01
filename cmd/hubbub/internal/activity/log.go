package activity

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/audit"
	"hubbub/activitylog/read"
	"hubbub/activitylog/write"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"

	"github.com/spf13/cobra"
)

// NewLog returns the command `hubbub log`.
func NewLog() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "log",
		Short: "Check, prove, export and prune the activity log",
		RunE: func(*cobra.Command, []string) error {
			return program.Usage(
				"choose a subcommand: hubbub log verify, prove, key, export, prune or sql; hubbub tail shows the log",
			)
		},
	}
	from := logs.AddFlag(cmd)
	cmd.AddCommand(
		newLogVerify(from), newLogExport(from), newLogPrune(from), newLogSQL(from), newLogKey(from), newLogProve(from),
	)
	return cmd
}

func newLogPrune(from *logs.Flag) *cobra.Command {
	var before string
	cmd := &cobra.Command{
		Use:   "prune --before TIME",
		Short: "Delete sealed files of the log that are older than a time",
		Long: "Delete the sealed files of the activity log whose rows are all older than a time, oldest first.\n" +
			"This frees their disk space at once. Older rows stay if their file also has newer rows, or if\n" +
			"they are in activity.db, which is not sealed yet. The bus may run meanwhile. With\n" +
			"--activity-keep, the bus does this automatically. After a jump of the clock, an age is refused\n" +
			"until the bus trusts the clock.",
		Example: "  hubbub log prune --before 30d\n  hubbub log prune --before 2026-01-01T00:00:00Z",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if before == "" {
				return program.Usage("--before is missing: give a time such as 2026-01-01T00:00:00Z, or an age such " +
					"as 30d")
			}
			at, err := logs.ParseTime("before", before, time.Now())
			if err != nil {
				return err
			}
			_, err = activitylog.ParseSpan(before)
			isAge := err == nil
			for _, path := range logs.Paths(program.From(cmd), *from) {
				if isAge {
					if err := checkClock(path, at); err != nil {
						return err
					}
				}
				if err := prune(cmd, path, at); err != nil {
					return logs.Explain(err)
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&before, "before", "", "delete rows older than this: 2026-01-01T00:00:00Z, or 30d, 12h")
	return cmd
}

// checkClock returns an error if the bus does not trust the clock, from which an age is computed.
func checkClock(path string, before time.Time) error {
	s, err := write.ReadClock(path)
	if err != nil || s.Ahead <= 0 {
		return nil // hubbub doctor reports a damaged file
	}
	return fmt.Errorf("nothing was deleted from %s: the clock jumped from %s to %s, and the bus has not run for a day "+
		"since; if the clock is right, give --before as a time: %s",
		path, s.Jump.From.UTC().Format(time.RFC3339), s.Jump.To.UTC().Format(time.RFC3339),
		before.UTC().Format(time.RFC3339))
}

func prune(cmd *cobra.Command, path string, before time.Time) error {
	if err := write.CheckVersion(path); err != nil {
		return err
	}
	progress := program.From(cmd).Progress("deleting sealed files of "+path, "", nil)
	removed, err := write.Prune(cmd.Context(), path, before)
	progress.End()
	switch {
	case err != nil && removed.Segments > 0:
		return fmt.Errorf("%w (%d rows were deleted before)", err, removed.Rows)
	case err != nil:
		return err
	}
	return output.Line(cmd, struct {
		Log    string    `json:"log"`
		Before time.Time `json:"before"`
		write.Removal
	}{path, before.UTC(), removed}, "%d rows from before %s deleted from %s, in %d sealed files of %d bytes",
		removed.Rows, before.Local().Format(moment), path, removed.Segments, removed.Bytes)
}

func newLogExport(from *logs.Flag) *cobra.Command {
	var rows logs.RowFlags
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write rows as JSON lines, oldest first",
		Long: "Write rows of the activity log to standard output, one JSON object per line. The members have\n" +
			"the names of the columns. Several logs (--log) are merged by time.",
		Example: "  hubbub log export > activity.jsonl\n  hubbub log export --since 24h --type tg_message | jq " +
			".payload_json.content",
		RunE: from.Run(func(cmd *cobra.Command, r *read.Reader, _ []string) error {
			w := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			enc := output.NewEncoder(w)
			progress := program.From(cmd).Progress("exporting", "rows", cmd.OutOrStdout())
			defer progress.End()
			err := r.Each(cmd.Context(), rows.Chosen, func(e *activitylog.Entry) error {
				progress.Add(1)
				return enc.Encode(e)
			})
			return errors.Join(err, w.Flush())
		}),
	}
	rows.Add(cmd)
	return cmd
}

func newLogSQL(from *logs.Flag) *cobra.Command {
	return &cobra.Command{
		Use:   "sql SELECT...",
		Short: "Run one SELECT over all files of the log",
		Long: "Run one SELECT over all files of the log as one table, activity_log. Its columns are id, ts,\n" +
			"event, message_id, rpc_id, actor, topic, status, payload_json, error and bus. The output has one\n" +
			"line per row, with tabs between the columns; with --json it has one object per row.",
		Example: "  hubbub log sql 'SELECT * FROM activity_log ORDER BY id DESC LIMIT 20'\n" +
			"  hubbub log sql 'SELECT event, count(*) FROM activity_log GROUP BY event'",
		Args: cobra.MinimumNArgs(1),
		RunE: from.Run(func(cmd *cobra.Command, r *read.Reader, args []string) error {
			w := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
			print := sqlLines(w)
			if output.NewPrinter(cmd).JSON {
				print = sqlObjects(output.NewEncoder(w))
			}
			progress := logs.Progress(cmd)
			defer progress.End()
			err := r.SQL(cmd.Context(), strings.Join(args, " "), func(columns []string, values []any) error {
				progress.End()
				return print(columns, values)
			})
			return errors.Join(err, w.Flush())
		}),
	}
}

// sqlLines returns a function that prints rows as lines. The first line has the names of the
// columns.
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

func newLogVerify(from *logs.Flag) *cobra.Command {
	var opts audit.VerifyOptions
	var kept []string
	strict := false
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Check that the log is complete and unaltered",
		Long: "Check the file, its schema, and the rows of each message: one send_start, one send_finish, and a\n" +
			"process_start and process_finish for each peer that the result counts. Check that no row was\n" +
			"altered, removed or moved since the bus signed it, and name the first such row. Exit 1 on errors\n" +
			"that neither a killed bus nor a log_gap row explains; with --strict, on those too.\n\n" +
			"If somebody truncated the log, or replaced all its files with an older copy, only data kept\n" +
			"elsewhere shows it: --checkpoint with a copy of activity.checkpoint or a proof, and --key with\n" +
			"the output of hubbub log key.",
		Example: "  hubbub log verify\n  hubbub log verify --checkpoint /backup/activity.checkpoint",
		RunE: from.Run(func(cmd *cobra.Command, r *read.Reader, _ []string) error {
			var err error
			if opts.Checkpoints, err = readCheckpoints(kept); err != nil {
				return err
			}
			progress := program.From(cmd).Progress("checking the log", "rows", nil)
			opts.OnRow = func() { progress.Add(1) }
			v, err := audit.Verify(cmd.Context(), r, &opts)
			progress.End()
			if err == nil {
				err = output.Result(cmd, v, func(p *output.Printer) { printVerdict(p, v) })
			}
			switch {
			case err != nil:
				return err
			case !v.OK():
				return fmt.Errorf("the activity log is not intact: %d problems", int64(len(v.Problems))+v.More)
			case strict && (v.Cut > 0 || len(v.Gaps) > 0):
				return fmt.Errorf("the activity log is not complete: %d messages end early, %d gaps", v.Cut,
					len(v.Gaps))
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&opts.Quick, "quick", false, "skip SQLite's own check, which reads the whole file")
	cmd.Flags().BoolVar(&opts.Partial, "partial", false,
		"these are not all logs of a cluster; rows may be in another one")
	cmd.Flags().StringVar(&opts.Key, "key", "",
		"verifier key that must have signed the log, as printed by hubbub log key")
	cmd.Flags().StringArrayVar(
		&kept, "checkpoint", nil, "file with a checkpoint or proof of the log, kept elsewhere (repeatable)",
	)
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 1 also for gaps and for messages that a kill cut short")
	cmd.Flags().DurationVar(&opts.Longest, "longest", time.Minute, "how long a message may be under way")
	return cmd
}

func printVerdict(p *output.Printer, v *audit.Verdict) {
	state := p.Paint(term.Green, "intact")
	if !v.OK() {
		state = p.Paint(term.Red, "not intact")
	}
	p.Linef("the log is %s: %d rows, %d messages, %d complete", state, v.Rows, v.Messages, v.Complete)
	if v.Rows > 0 {
		p.Linef("from %s to %s", v.First.Local().Format(moment), v.Last.Local().Format(moment))
	}
	count := func(n int64, format string) {
		if n > 0 {
			p.Linef(format, n)
		}
	}
	count(v.UnderWay, "%d messages at the end are still under way")
	count(v.Cut, "%d messages end early or begin late: the bus was killed, rows were lost in a gap, or pruned")
	count(v.Elsewhere, "%d messages have rows in the logs of other buses")
	for _, a := range v.Audits {
		printAudit(p, a)
	}
	for _, g := range v.Gaps {
		p.Linef(
			"%s %s: %d rows were lost: %s",
			p.Paint(term.Yellow, "gap"),
			g.At.Local().Format(moment),
			g.Lost,
			term.Printable(g.Reason),
		)
	}
	for _, f := range v.Problems {
		where := f.Log
		if f.ID > 0 {
			where = fmt.Sprintf("%s row %d", where, f.ID)
		}
		if f.MessageID != "" {
			where += " message " + term.Printable(f.MessageID)
		}
		p.Linef("%s %s: %s", p.Paint(term.Red, "problem"), where, term.Printable(f.What))
	}
	count(v.More, "and %d more problems")
}

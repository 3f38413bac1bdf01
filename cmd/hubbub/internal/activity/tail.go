package activity

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

// tailOptions are the flags of tail.
type tailOptions struct {
	rows   logs.RowFlags
	from   *logs.Flag
	follow bool
	all    bool
	lines  int
}

// NewTail returns the command `hubbub tail`.
func NewTail() *cobra.Command {
	var t tailOptions
	cmd := &cobra.Command{
		Use:   "tail",
		Short: "Show what happened on the bus, and follow it live",
		Long: "Show rows of the activity log, oldest first: each message when it is sent, delivered to each\n" +
			"peer and finished, and each connection and subscription. On a terminal, a message that reached\n" +
			"everybody is one line, and typing indicators and short-lived commands are hidden; --all shows\n" +
			"every row. On a narrow terminal, a line has only the end of the message ID; `hubbub trace` and\n" +
			"`hubbub why` accept that too.\n\n" +
			"With --follow, it continues with new rows and survives restarts of the bus. It reads the log, so\n" +
			"it slows nobody down. Several logs (--log) are merged by time, and rows of the same time by the\n" +
			"order of the flags. The rows of each log keep their order.",
		Example: "  hubbub tail --follow\n  hubbub tail --since 15m --topic 'tg:*' --type tg_reply\n" +
			"  hubbub tail --status timeout --json | jq .actor\n" +
			"  hubbub tail --follow --peer '!cli:*' --type '!agent_event'",
		RunE: t.run,
	}
	t.from = logs.AddFlag(cmd)
	t.rows.Add(cmd)
	cmd.Flags().BoolVarP(&t.all, "all", "a", false, "show every row of a message (default unless on a terminal)")
	cmd.Flags().BoolVarP(&t.follow, "follow", "f", false, "continue with new rows until interrupted")
	cmd.Flags().IntVarP(
		&t.lines, "lines", "n", -1,
		"maximum number of rows, counted from the end (default 100 on a terminal, otherwise all)",
	)
	return cmd
}

// linesOnTerminal is the default of --lines on a terminal.
const linesOnTerminal = 100

func (t *tailOptions) run(cmd *cobra.Command, _ []string) (err error) {
	env := program.From(cmd)
	r := read.Open(logs.Paths(env, *t.from)...)
	defer r.Close()
	out := newTailWriter(output.NewPrinter(cmd), new(view.Titles))
	if out.Columns > 0 && !out.JSON {
		out.layout.titles = logs.Titles(cmd.Context(), r)
	}
	t.rows.Brief = !t.all && !out.JSON && out.Columns > 0
	filter, err := t.rows.Filter(time.Now())
	out.layout.brief = filter.Brief
	if err != nil {
		return program.Usage("--%s", err)
	}
	lines := t.lines
	if lines < 0 && out.Columns > 0 && t.rows.Since == "" {
		lines = linesOnTerminal
	}
	waiting := func(err error) { fmt.Fprintf(env.Stderr, "%s; waiting for it\n", err) }
	if !t.follow {
		_, err = t.printStored(cmd.Context(), r, filter, lines, out)
		if err == nil && !out.printed && !out.JSON {
			env.Tell("no rows match")
		}
		return errors.Join(logs.Explain(err), out.flush())
	}
	var at read.Cursor // from the beginning
	if lines >= 0 {
		if at, err = t.printLast(cmd.Context(), r, filter, lines, out, waiting); err != nil ||
			cmd.Context().Err() != nil {
			return errors.Join(err, out.flush())
		}
	}
	return r.Follow(cmd.Context(), filter, at, waiting, out.show)
}

// printLast prints the last stored rows and returns the position after them. It waits for a
// locked log, and accepts that the log does not exist yet.
func (t *tailOptions) printLast(
	ctx context.Context, r *read.Reader, f read.Filter, lines int, out *tailWriter, waiting func(error),
) (read.Cursor, error) {
	at, err := t.printStored(ctx, r, f, lines, out)
	for told := false; errors.Is(
		err, activitylog.ErrLocked,
	) && ctx.Err() == nil; at, err = t.printStored(ctx, r, f, lines, out) {
		if !told {
			waiting(err)
			told = true
		}
	}
	switch {
	case errors.Is(err, activitylog.ErrNoLog), ctx.Err() != nil: // a stop is not an error
		err = nil
	case err == nil:
		err = out.flush()
	}
	return at, logs.Explain(err)
}

// printStored prints the last stored rows, or all of them if lines is negative, and returns the
// position after them.
func (t *tailOptions) printStored(
	ctx context.Context, r *read.Reader, f read.Filter, lines int, out *tailWriter,
) (read.Cursor, error) {
	if lines < 0 {
		return nil, r.EachPage(ctx, f, out.write)
	}
	end, err := r.End(ctx)
	if err != nil {
		return nil, err
	}
	rows, _, err := r.Before(ctx, f, read.Beyond(end), lines)
	if err != nil {
		return nil, err
	}
	return end, out.write(rows)
}

// A tailWriter prints rows as JSON, as aligned and coloured columns on a terminal, or as plain
// columns.
type tailWriter struct {
	*output.Printer
	buffer  *bufio.Writer
	layout  *rowLayout
	printed bool // at least one row was printed
}

func newTailWriter(p *output.Printer, titles *view.Titles) *tailWriter {
	t := &tailWriter{Printer: p, buffer: bufio.NewWriter(p.Out), layout: newRowLayout(p.Painter, p.Columns, titles)}
	p.Out = t.buffer
	return t
}

func (t *tailWriter) write(rows []activitylog.Entry) error {
	t.printed = t.printed || len(rows) > 0
	for i := range rows {
		t.layout.titles.Learn(&rows[i])
		t.layout.cells(&rows[i]) // fit the columns to all rows before the first line
	}
	for i := range rows {
		if t.JSON {
			t.Value(&rows[i])
		} else {
			t.Linef("%s", t.layout.line(&rows[i]))
		}
	}
	return t.Err
}

func (t *tailWriter) flush() error { return t.buffer.Flush() }

// show prints rows and flushes them.
func (t *tailWriter) show(rows []activitylog.Entry) error {
	return errors.Join(t.write(rows), t.flush())
}

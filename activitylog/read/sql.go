package read

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// SQL runs one SELECT over all files of the log as one table, activity_log, and calls row with
// each row of the result. The statement can only read that table. A range of id or ts reads only
// the rows in the range, and ORDER BY id needs no sorting.
func (r *Reader) SQL(ctx context.Context, query string, row func(columns []string, values []any) error) (failed error) {
	if len(r.sources) != 1 {
		return fmt.Errorf("SQL reads one log, but there are %d: name one with --log", len(r.sources))
	}
	conn, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, conn.Close()) }()
	conn.SetInterrupt(ctx.Done())
	if err := sqlitex.ExecuteTransient(conn, sortIn(), nil); err != nil {
		return err
	}
	t := &table{ctx: ctx, r: r}
	if err := conn.SetModule("activity_log", &sqlite.Module{Connect: t.connect}); err != nil {
		return err
	}
	if err := conn.SetAuthorizer(sqlite.AuthorizeFunc(onlyReads)); err != nil {
		return err
	}
	stmt, rest, err := conn.PrepareTransient(query)
	if err != nil {
		return err
	}
	defer stmt.Finalize() //nolint:errcheck // Step returns its error
	if rest > 0 {
		return errors.New("only one statement is allowed: leave out what follows the first semicolon")
	}
	columns := make([]string, stmt.ColumnCount())
	for i := range columns {
		columns[i] = stmt.ColumnName(i)
	}
	for {
		more, err := stmt.Step()
		if err != nil || !more {
			return errors.Join(t.err, err)
		}
		values := make([]any, len(columns))
		for i := range values {
			values[i] = valueOf(stmt, i)
		}
		if err := row(columns, values); err != nil {
			return err
		}
	}
}

// sortIn returns the pragma for temporary tables. They are kept in memory if no folder for
// temporary files is writable, as in a container with a read-only root.
func sortIn() string {
	const write, search = 2, 1
	folders := []string{os.Getenv("SQLITE_TMPDIR"), os.Getenv("TMPDIR"), "/var/tmp", "/usr/tmp", "/tmp", "."}
	for _, folder := range folders {
		if info, err := os.Stat(folder); err == nil && info.IsDir() && syscall.Access(folder, write|search) == nil {
			return "PRAGMA temp_store=DEFAULT"
		}
	}
	return "PRAGMA temp_store=MEMORY"
}

func onlyReads(a sqlite.Action) sqlite.AuthResult {
	switch a.Type() {
	case sqlite.OpSelect, sqlite.OpRead, sqlite.OpFunction, sqlite.OpRecursive:
		return sqlite.AuthResultOK
	default:
		return sqlite.AuthResultDeny
	}
}

func valueOf(stmt *sqlite.Stmt, i int) any {
	switch stmt.ColumnType(i) {
	case sqlite.TypeInteger:
		return stmt.ColumnInt64(i)
	case sqlite.TypeFloat:
		return stmt.ColumnFloat(i)
	case sqlite.TypeText:
		return stmt.ColumnText(i)
	case sqlite.TypeBlob:
		return segment.Blob(stmt, i)
	default:
		return nil
	}
}

// A table is the log as a virtual table of SQLite.
type table struct {
	ctx context.Context
	r   *Reader
	err error // error of reading the log
}

func (t *table) connect(*sqlite.Conn, *sqlite.VTableConnectOptions) (sqlite.VTable, *sqlite.VTableConfig, error) {
	return t, &sqlite.VTableConfig{Declaration: `CREATE TABLE activity_log (id INTEGER, ts TEXT, event TEXT, message_id TEXT, rpc_id TEXT,
		actor TEXT, topic TEXT, status TEXT, payload_json TEXT, error TEXT, bus TEXT)`}, nil
}

// BestIndex implements sqlite.VTable. IndexID.String begins with - for reading backward, or +,
// and has a letter for each argument of Filter: a bound of id or ts, or a message id.
func (t *table) BestIndex(in *sqlite.IndexInputs) (*sqlite.IndexOutputs, error) {
	out := &sqlite.IndexOutputs{ConstraintUsage: make([]sqlite.IndexConstraintUsage, len(in.Constraints)),
		EstimatedCost: 1e9}
	order := "+"
	if len(in.OrderBy) == 1 && in.OrderBy[0].Column <= 0 {
		if out.OrderByConsumed = true; in.OrderBy[0].Desc {
			order = "-"
		}
	}
	args := 0
	for i, c := range in.Constraints {
		letter := bounds[c.Op]
		switch {
		case c.Column > 0 && c.Collation != "BINARY":
			continue
		case c.Usable && c.Op == sqlite.IndexConstraintEq && c.Column == 3:
			letter = "m"
		case !c.Usable || letter == "" || c.Column > 1:
			continue
		case c.Column == 1:
			letter = map[string]string{"g": "s", "G": "s", "l": "u", "L": "u", "e": "t"}[letter]
		}
		args++
		out.ConstraintUsage[i].ArgvIndex = args
		out.EstimatedCost /= 1000
		order += letter
	}
	out.ID.String = order
	return out, nil
}

// bounds are the letters of operators: g and l exclude the bound, G and L include it.
var bounds = map[sqlite.IndexConstraintOp]string{
	sqlite.IndexConstraintGT: "g", sqlite.IndexConstraintGE: "G", sqlite.IndexConstraintLT: "l",
	sqlite.IndexConstraintLE: "L", sqlite.IndexConstraintEq: "e",
}

func (t *table) Open() (sqlite.VTableCursor, error) { return &tableCursor{table: t}, nil }

// Disconnect implements sqlite.VTable.
func (t *table) Disconnect() error { return nil }

// Destroy implements sqlite.VTable.
func (t *table) Destroy() error { return nil }

// A tableCursor is a place in the log, with the rows of a page after it.
type tableCursor struct {
	*table
	filter   Filter
	backward bool
	at       Cursor
	last     int64 // id of the last row, in the direction of reading
	page     int   // rows in a page
	rows     []activitylog.Entry
	ended    bool // no page follows
}

// Filter implements sqlite.VTableCursor. SQLite checks every bound again.
func (c *tableCursor) Filter(id sqlite.IndexID, args []sqlite.Value) error {
	low, high := int64(0), int64(math.MaxInt64-1)
	c.filter, c.backward, c.rows, c.ended = Filter{}, id.String[0] == '-', nil, false
	for i, letter := range id.String[1:] {
		n, want := args[i].Int64(), sqlite.TypeText
		if strings.ContainsRune("gGlLe", letter) {
			want = sqlite.TypeInteger
		}
		if args[i].Type() != want { // leave other types to SQLite
			continue
		}
		switch letter {
		case 'g', 'G':
			low = max(low, n)
		case 'l', 'L':
			high = min(high, n)
		case 'e':
			low, high = max(low, n), min(high, n)
		case 'm':
			rows, err := c.r.rowsOf(c.ctx, args[i].Text())
			if c.err = err; err != nil {
				return err
			}
			if len(rows) < maxMessageRows && args[i].Text() != "" { // otherwise there may be more
				slices.SortFunc(rows, func(a, b activitylog.Entry) int { return cmp.Compare(a.ID, b.ID) })
				c.rows, c.ended = rows, true
			}
		case 's', 't', 'u':
			c.filter.bound(letter, args[i].Text())
		}
	}
	c.page = int(min(pageRows, uint64(max(high-low, 0))+1))
	if c.at, c.last = (Cursor{max(low-1, 0)}), high; c.backward {
		c.at, c.last = Cursor{high + 1}, low
		slices.Reverse(c.rows)
	}
	if c.ended { // the rows of one message
		low, high := min(low, high), max(low, high)
		c.rows = slices.DeleteFunc(c.rows, func(e activitylog.Entry) bool { return e.ID < low || e.ID > high })
		return nil
	}
	return c.more()
}

// bound narrows the filter to rows whose ts may be at least (s), at most (u) or equal (t) to a
// text. SQLite compares ts as text. For a text in another format, bound uses only its whole
// seconds or days.
func (f *Filter) bound(letter rune, text string) {
	for _, layout := range textLayouts {
		begin := text[:min(len(layout.format), len(text))]
		at, err := time.Parse(layout.format, begin)
		if err != nil || at.Format(layout.format) != begin { // such as T9:00:00
			continue
		}
		if end := at.Add(layout.unit); letter != 's' && (f.Until.IsZero() || end.Before(f.Until)) {
			f.Until = end
		}
		if letter != 'u' && at.After(f.Since) {
			f.Since = at
		}
		return
	}
}

// textLayouts are the formats that bound accepts, and their units.
var textLayouts = []struct {
	format string
	unit   time.Duration
}{
	{segment.TimestampLayout, time.Microsecond}, {"2006-01-02T15:04:05", time.Second}, {time.DateOnly, 24 * time.Hour},
}

// more reads the next page.
func (c *tableCursor) more() (err error) {
	read := c.r.After
	if c.backward {
		read = c.r.Before
	}
	c.rows, c.at, err = read(c.ctx, c.filter, c.at, c.page)
	c.ended = len(c.rows) < c.page
	if c.backward {
		slices.Reverse(c.rows)
	}
	c.err = err
	return err
}

// Next implements sqlite.VTableCursor.
func (c *tableCursor) Next() error {
	if c.rows = c.rows[1:]; len(c.rows) == 0 && !c.ended {
		return c.more()
	}
	return nil
}

// EOF implements sqlite.VTableCursor.
func (c *tableCursor) EOF() bool {
	return len(c.rows) == 0 || !c.backward && c.rows[0].ID > c.last || c.backward && c.rows[0].ID < c.last
}

// RowID implements sqlite.VTableCursor.
func (c *tableCursor) RowID() (int64, error) { return c.rows[0].ID, nil }

// Close implements sqlite.VTableCursor.
func (c *tableCursor) Close() error { return nil }

// Column implements sqlite.VTableCursor.
func (c *tableCursor) Column(i int, _ bool) (sqlite.Value, error) {
	e := &c.rows[0]
	if i <= 0 {
		return sqlite.IntegerValue(e.ID), nil
	}
	text := []string{1: e.TS, e.Event, e.MessageID, e.RPCID, e.Actor, e.Topic, e.Status, string(e.Payload), e.Error,
		e.Bus}[i]
	if text == "" && i > 3 { // NULL
		return sqlite.Value{}, nil
	}
	return sqlite.TextValue(text), nil
}

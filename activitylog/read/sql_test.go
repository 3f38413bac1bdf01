package read

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/writetest"
	"hubbub/activitylog/write"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
)

// TestSQL_ReadsAllFilesAsOne compares the results with those of SQLite for the rows of
// all files together.
func TestSQL_ReadsAllFilesAsOne(t *testing.T) {
	path, rows := writetest.Segmented(t, 20, &write.Options{SegmentRows: 6, Bus: "east"})
	if files := len(logtest.Sealed(t, path)); files < 11 { // SQLite itself attaches ten
		t.Fatalf("%d sealed files", files)
	}
	r := opened(t, path)
	all, _, err := r.After(t.Context(), Filter{}, nil, 10_000)
	if err != nil || len(all) != len(rows) {
		t.Fatalf("%d rows of %d, %v", len(all), len(rows), err)
	}
	ask := func(query string) (out []string) {
		t.Helper()
		err := r.SQL(t.Context(), query, func(_ []string, values []any) error {
			out = append(out, strings.Trim(fmt.Sprint(values), "[]"))
			return nil
		})
		if err != nil {
			t.Errorf("%s: %v", query, err)
		}
		return out
	}
	ids := func(keep func(i int, e *activitylog.Entry) bool) (out []string) {
		for i := range all {
			if keep(i, &all[i]) {
				out = append(out, fmt.Sprint(all[i].ID))
			}
		}
		return out
	}
	reversed := func(list []string) []string { slices.Reverse(list); return list }
	mid, message, ts := all[len(all)/2].ID, all[len(all)/2].MessageID, all[len(all)/2].TS
	last := len(all) - 20
	for query, want := range map[string][]string{
		"SELECT id FROM activity_log":                                                             ids(func(int, *activitylog.Entry) bool { return true }),
		"SELECT id FROM activity_log ORDER BY id DESC LIMIT 20":                                   reversed(ids(func(i int, _ *activitylog.Entry) bool { return i >= last })),
		fmt.Sprintf("SELECT id FROM activity_log WHERE id > %d", mid):                             ids(func(_ int, e *activitylog.Entry) bool { return e.ID > mid }),
		fmt.Sprintf("SELECT id FROM activity_log WHERE id BETWEEN %d AND %d ORDER BY id", 5, mid): ids(func(_ int, e *activitylog.Entry) bool { return e.ID >= 5 && e.ID <= mid }),
		fmt.Sprintf("SELECT id FROM activity_log WHERE id <= %d ORDER BY id DESC", mid):           reversed(ids(func(_ int, e *activitylog.Entry) bool { return e.ID <= mid })),
		fmt.Sprintf("SELECT id FROM activity_log WHERE id = %d OR id = 3 ORDER BY id", mid):       ids(func(_ int, e *activitylog.Entry) bool { return e.ID == mid || e.ID == 3 }),
		fmt.Sprintf("SELECT id FROM activity_log WHERE id > '%d' AND id < 1e3", mid):              ids(func(_ int, e *activitylog.Entry) bool { return e.ID > mid && e.ID < 1000 }),
		"SELECT id FROM activity_log WHERE message_id = '" + message + "'":                        ids(func(_ int, e *activitylog.Entry) bool { return e.MessageID == message }),
		"SELECT id FROM activity_log WHERE message_id = '" + message + "' ORDER BY id DESC":       reversed(ids(func(_ int, e *activitylog.Entry) bool { return e.MessageID == message })),
		"SELECT id FROM activity_log WHERE message_id = ''":                                       ids(func(_ int, e *activitylog.Entry) bool { return e.MessageID == "" }),
		"SELECT id FROM activity_log WHERE ts >= '" + ts + "'":                                    ids(func(_ int, e *activitylog.Entry) bool { return e.TS >= ts }),
		"SELECT id FROM activity_log WHERE ts <= '" + ts + "'":                                    ids(func(_ int, e *activitylog.Entry) bool { return e.TS <= ts }),
		"SELECT id FROM activity_log WHERE ts = '" + ts + "'":                                     ids(func(_ int, e *activitylog.Entry) bool { return e.TS == ts }),
		"SELECT count(*) FROM activity_log a JOIN activity_log b ON b.id = a.id + 1":              {fmt.Sprint(len(all) - 1)},
		"SELECT count(DISTINCT bus), min(status IS NULL) FROM activity_log":                       {"1 0"},
	} {
		if got := ask(query); !slices.Equal(got, want) {
			t.Errorf("%s\ngives %q\nwant  %q", query, got, want)
		}
	}
	for query, want := range map[string]string{
		"DELETE FROM activity_log": "", "ATTACH '/tmp/x' AS x": "not authorized", "PRAGMA writable_schema = 1": "not authorized",
		"SELECT 1; SELECT 2": "one statement", "SELECT nope FROM activity_log": "no such column", "CREATE TABLE x (y)": "not authorized",
	} {
		if err := r.SQL(t.Context(), query, func([]string, []any) error { return nil }); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// TestSQL_AgreesWithTable compares every comparison of an id or a time, in each order,
// with that of the same rows in an ordinary table.
func TestSQL_AgreesWithTable(t *testing.T) {
	var rows []activitylog.Row
	for i := range 8 {
		rows = append(rows, logtest.Sent(i, logtest.Epoch.Add(time.Duration(i)*time.Second))...)
	}
	path := filepath.Join(t.TempDir(), "activity.db")
	writetest.Store(t, path, &write.Options{SegmentAge: 100 * 365 * 24 * time.Hour}, rows)
	r := opened(t, path)
	last := int64(len(rows))
	ts := func(i int64) string { e := rows[i].Entry(0); return e.TS }
	ask := func(query string) (got []int64) {
		t.Helper()
		if err := r.SQL(t.Context(), query, func(_ []string, values []any) error {
			got = append(got, values[0].(int64))
			return nil
		}); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		return got
	}
	holds := map[string]func(c int) bool{
		"=": func(c int) bool { return c == 0 }, "<": func(c int) bool { return c < 0 }, "<=": func(c int) bool { return c <= 0 },
		">": func(c int) bool { return c > 0 }, ">=": func(c int) bool { return c >= 0 },
	}
	check := func(condition string, fits func(id int64) bool) {
		t.Helper()
		var want []int64
		for id := int64(1); id <= last; id++ {
			if fits(id) {
				want = append(want, id)
			}
		}
		for _, order := range []string{"", " ORDER BY id", " ORDER BY id DESC"} {
			got := ask("SELECT id FROM activity_log WHERE " + condition + order)
			if strings.HasSuffix(order, "DESC") {
				slices.Reverse(got)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s%s gives %d rows; want %d", condition, order, len(got), len(want))
			}
		}
	}
	for op, fits := range holds {
		for _, id := range []int64{0, 1, 20, last, last + 1} {
			check(fmt.Sprintf("id %s %d", op, id), func(i int64) bool { return fits(int(i - id)) })
		}
		for _, i := range []int64{0, 20, last - 1} {
			check(fmt.Sprintf("ts %s '%s'", op, ts(i)), func(id int64) bool { return fits(strings.Compare(ts(id-1), ts(i))) })
		}
	}
	check("id > 5 AND id < 9", func(id int64) bool { return id > 5 && id < 9 })
	check("id >= 5 AND id >= 7 AND id <= 30 AND id <= 20", func(id int64) bool { return id >= 7 && id <= 20 })
	check("id > 9 AND id < 5", func(int64) bool { return false })
	check("id = 7 AND id = 8", func(int64) bool { return false })
	check(fmt.Sprintf("id > 3 AND ts <= '%s'", ts(20)), func(id int64) bool { return id > 3 && ts(id-1) <= ts(20) })
	id := rows[12].MessageID
	of := func(id int64, message string) bool { return rows[id-1].MessageID == message }
	check("message_id = '"+id+"'", func(i int64) bool { return of(i, id) })
	check("message_id = '"+id+"' AND id > 13", func(i int64) bool { return of(i, id) && i > 13 })
	check("message_id = '"+id+"' AND id <= 13", func(i int64) bool { return of(i, id) && i <= 13 })
	check("message_id = '"+id+"' AND id = 13", func(i int64) bool { return of(i, id) && i == 13 })
	check("message_id > '"+id+"'", func(i int64) bool { return rows[i-1].MessageID > id })
	check("message_id = '"+strings.ToUpper(id)+"' COLLATE NOCASE", func(i int64) bool { return of(i, id) })
	check("message_id = '"+id+"  ' COLLATE RTRIM", func(i int64) bool { return of(i, id) })
	check("message_id = CAST('"+id+"' AS BLOB)", func(int64) bool { return false })
	check("ts >= '"+strings.ToLower(ts(20))+"' COLLATE NOCASE", func(i int64) bool { return ts(i-1) >= ts(20) })
	check("ts < CAST('"+ts(20)+"' AS BLOB)", func(int64) bool { return true }) // all bytes are greater than all text
	check("ts > CAST('"+ts(20)+"' AS BLOB)", func(int64) bool { return false })
	check("ts > 20", func(int64) bool { return true })
	check("ts <= 20", func(int64) bool { return false })
	if got := ask("SELECT rowid FROM activity_log WHERE rowid = 7"); !slices.Equal(got, []int64{7}) {
		t.Errorf("row 7 is %v", got)
	}
	byTime := ask("SELECT id FROM activity_log ORDER BY ts DESC, id DESC LIMIT 3")
	if !slices.Equal(byTime, []int64{last, last - 1, last - 2}) {
		t.Errorf("the latest are %v", byTime)
	}
}

// TestSQL_ReadsMoreThanOnePage reads a log that is longer than a page, in both orders.
func TestSQL_ReadsMoreThanOnePage(t *testing.T) {
	var more []activitylog.Row
	for i := range 200 {
		more = append(more, logtest.Sent(i, logtest.Epoch)...)
	}
	long := filepath.Join(t.TempDir(), "activity.db")
	writetest.Store(t, long, &write.Options{SegmentAge: 100 * 365 * 24 * time.Hour}, more)
	for _, order := range []string{"", "DESC"} {
		n, sum := int64(0), int64(0)
		if err := opened(t, long).SQL(t.Context(), "SELECT id FROM activity_log WHERE id > 1 ORDER BY id "+order, func(_ []string, values []any) error {
			n, sum = n+1, sum+values[0].(int64)
			return nil
		}); err != nil || n != int64(len(more)-1) || sum != int64(len(more)*(len(more)+1)/2-1) || n < pageRows {
			t.Errorf("%d rows, whose ids are %d in sum, %v", n, sum, err)
		}
	}
}

// sqlTable returns the virtual table of a log, and its rows.
func sqlTable(t *testing.T) (*table, []activitylog.Row) {
	var rows []activitylog.Row
	for i := range 10 {
		rows = append(rows, logtest.Sent(i, logtest.Epoch.Add(time.Duration(i)*time.Second))...)
	}
	path := filepath.Join(t.TempDir(), "activity.db")
	writetest.Store(t, path, &write.Options{SegmentAge: 100 * 365 * 24 * time.Hour}, rows)
	return &table{ctx: t.Context(), r: opened(t, path)}, rows
}

// TestBestIndex_UsesBoundsAndOrder checks which constraints and orders of a statement narrow the reading.
func TestBestIndex_UsesBoundsAndOrder(t *testing.T) {
	table, _ := sqlTable(t)
	type constraint = sqlite.IndexConstraint
	on := func(column int, op sqlite.IndexConstraintOp) constraint {
		return constraint{Column: column, Op: op, Usable: true, Collation: "BINARY"}
	}
	unusable := on(0, sqlite.IndexConstraintEq)
	unusable.Usable = false
	const cost = 1e9
	for name, c := range map[string]struct {
		constraints []constraint
		order       []sqlite.IndexOrderBy
		id          string
		args        []int
		ordered     bool
		cost        float64
	}{
		"nothing":           {nil, nil, "+", []int{}, false, cost},
		"by id":             {nil, []sqlite.IndexOrderBy{{Column: 0}}, "+", []int{}, true, cost},
		"by row id":         {nil, []sqlite.IndexOrderBy{{Column: -1}}, "+", []int{}, true, cost},
		"backward":          {nil, []sqlite.IndexOrderBy{{Column: 0, Desc: true}}, "-", []int{}, true, cost},
		"by time":           {nil, []sqlite.IndexOrderBy{{Column: 1, Desc: true}}, "+", []int{}, false, cost},
		"by id and time":    {nil, []sqlite.IndexOrderBy{{Column: 0, Desc: true}, {Column: 1}}, "+", []int{}, false, cost},
		"bounds of ids":     {[]constraint{on(0, sqlite.IndexConstraintGT), on(0, sqlite.IndexConstraintLE)}, nil, "+gL", []int{1, 2}, false, cost / 1000 / 1000},
		"the others":        {[]constraint{on(0, sqlite.IndexConstraintGE), on(-1, sqlite.IndexConstraintLT), on(0, sqlite.IndexConstraintEq)}, nil, "+Gle", []int{1, 2, 3}, false, cost / 1000 / 1000 / 1000},
		"bounds of times":   {[]constraint{on(1, sqlite.IndexConstraintGT), on(1, sqlite.IndexConstraintLT), on(1, sqlite.IndexConstraintEq)}, nil, "+sut", []int{1, 2, 3}, false, cost / 1000 / 1000 / 1000},
		"the same, or at":   {[]constraint{on(1, sqlite.IndexConstraintGE), on(1, sqlite.IndexConstraintLE)}, nil, "+su", []int{1, 2}, false, cost / 1000 / 1000},
		"a message":         {[]constraint{on(3, sqlite.IndexConstraintEq)}, nil, "+m", []int{1}, false, cost / 1000},
		"what is not there": {[]constraint{unusable, on(2, sqlite.IndexConstraintEq), on(3, sqlite.IndexConstraintGT), on(0, sqlite.IndexConstraintLike), on(0, sqlite.IndexConstraintEq)}, nil, "+e", []int{0, 0, 0, 0, 1}, false, cost / 1000},
	} {
		out, err := table.BestIndex(&sqlite.IndexInputs{Constraints: c.constraints, OrderBy: c.order})
		if err != nil {
			t.Fatal(err)
		}
		args := []int{}
		for _, u := range out.ConstraintUsage {
			args = append(args, u.ArgvIndex)
		}
		if out.ID.String != c.id || !slices.Equal(args, c.args) || out.OrderByConsumed != c.ordered || out.EstimatedCost != c.cost {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

// TestSQL_ReadsOnlySelectedRange checks how a statement reads the log, so that a narrow
// statement reads little.
func TestSQL_ReadsOnlySelectedRange(t *testing.T) {
	table, rows := sqlTable(t)
	read := func(id string, args ...sqlite.Value) (ids []int64, c *tableCursor) {
		t.Helper()
		cursor, err := table.Open()
		if err != nil {
			t.Fatal(err)
		}
		c = cursor.(*tableCursor)
		if err := c.Filter(sqlite.IndexID{String: id}, args); err != nil {
			t.Fatal(err)
		}
		for _, e := range c.rows {
			ids = append(ids, e.ID)
		}
		return ids, c
	}
	at := func(i int) sqlite.Value { return sqlite.TextValue(rows[i].Entry(0).TS) }
	n := int64(len(rows))
	for _, c := range []struct {
		id   string
		args []sqlite.Value
		want []int64
	}{
		{"+GL", []sqlite.Value{sqlite.IntegerValue(5), sqlite.IntegerValue(7)}, []int64{5, 6, 7}},
		{"-GL", []sqlite.Value{sqlite.IntegerValue(5), sqlite.IntegerValue(7)}, []int64{7, 6, 5}},
		{"+e", []sqlite.Value{sqlite.IntegerValue(5)}, []int64{5}},
		{"-e", []sqlite.Value{sqlite.IntegerValue(5)}, []int64{5}},
		{"+gg", []sqlite.Value{sqlite.IntegerValue(n - 2), sqlite.IntegerValue(2)}, []int64{n - 2, n - 1, n}},
		{"-ll", []sqlite.Value{sqlite.IntegerValue(9), sqlite.IntegerValue(3)}, []int64{3, 2, 1}},
		{"+g", []sqlite.Value{sqlite.IntegerValue(math.MaxInt64)}, nil},
		{"-L", []sqlite.Value{sqlite.IntegerValue(0)}, nil},
		{"+Ls", []sqlite.Value{sqlite.IntegerValue(n), at(int(n) - 1)}, []int64{n}},
		{"+Lt", []sqlite.Value{sqlite.IntegerValue(n), at(int(n) - 1)}, []int64{n}},
		{"+Lu", []sqlite.Value{sqlite.IntegerValue(2), at(0)}, []int64{1}},
		{"+LeG", []sqlite.Value{sqlite.TextValue("2"), sqlite.IntegerValue(4), sqlite.FloatValue(3)}, []int64{4}},
	} {
		if got, _ := read(c.id, c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%s %v reads %v; want %v", c.id, c.args, got, c.want)
		}
	}
	// A page has no more rows than a range of ids, so that a narrow one reads no more.
	for _, c := range []struct {
		id   string
		args []sqlite.Value
		page int
	}{
		{"+", nil, pageRows}, {"+GL", []sqlite.Value{sqlite.IntegerValue(5), sqlite.IntegerValue(7)}, 3},
		{"+GL", []sqlite.Value{sqlite.IntegerValue(7), sqlite.IntegerValue(5)}, 1}, {"+e", []sqlite.Value{sqlite.IntegerValue(7)}, 1},
		{"+GL", []sqlite.Value{sqlite.IntegerValue(1), sqlite.IntegerValue(pageRows + 1)}, pageRows},
	} {
		if _, cursor := read(c.id, c.args...); cursor.page != c.page {
			t.Errorf("%s %v reads pages of %d; want %d", c.id, c.args, cursor.page, c.page)
		}
	}
	if _, cursor := read("+m", sqlite.TextValue(rows[0].MessageID)); !cursor.ended || len(cursor.rows) != 2 {
		t.Errorf("a message is read as %d rows, to its end: %t", len(cursor.rows), cursor.ended)
	}
	if _, cursor := read("+m", sqlite.TextValue("")); len(cursor.rows) != len(rows) {
		t.Errorf("no message is read as %d rows", len(cursor.rows))
	}
}

func TestSQL_Results(t *testing.T) {
	path := writetest.Log(logtest.ChatScript(t), "")
	r := opened(t, path)
	var columns []string
	var got []any
	err := r.SQL(t.Context(), "SELECT 7 AS n, 1.5, 'text', x'0102', NULL, count(*), max(error), min(topic) FROM activity_log WHERE event = 'rejected'", func(c []string, values []any) error {
		columns, got = c, values
		return nil
	})
	want := []any{int64(7), 1.5, "text", []byte{1, 2}, nil, int64(1), "may not send tg_reply", "agent:a"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil || len(columns) != 8 || columns[0] != "n" {
		t.Errorf("%v of %q: %s", err, columns, diff)
	}
	const every = "SELECT id, ts, event, message_id, rpc_id, actor, topic, status, payload_json, error, bus FROM activity_log"
	var direct []string
	if err := r.SQL(t.Context(), every, func(_ []string, values []any) error {
		for i, v := range values {
			if v == nil {
				values[i] = "NULL"
			}
		}
		direct = append(direct, strings.Join(strings.Fields(fmt.Sprintln(values...)), " "))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i, row := range logtest.Query(t, path, every) {
		if row := strings.Join(strings.Fields(strings.ReplaceAll(row, "|", " ")), " "); row != direct[i] {
			t.Errorf("row %d is %s; want %s", i, direct[i], row)
		}
	}
	why := errors.New("why")
	if err := r.SQL(t.Context(), "SELECT 1", func([]string, []any) error { return why }); !errors.Is(err, why) {
		t.Errorf("a row that is refused: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := r.SQL(ended, every, func([]string, []any) error { return nil }); err == nil {
		t.Error("it was read after its end")
	}
	if err := opened(t, path, path).SQL(t.Context(), "SELECT 1", nil); err == nil || !strings.Contains(err.Error(), "there are 2") {
		t.Errorf("of two logs: %v", err)
	}
	if err := opened(t).SQL(t.Context(), "SELECT 1", nil); err == nil || !strings.Contains(err.Error(), "there are 0") {
		t.Errorf("of no log: %v", err)
	}
}

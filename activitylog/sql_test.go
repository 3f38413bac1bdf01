package activitylog

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestSQLReadsAllFilesAsOne: what SQLite says of the rows of every file, put together.
func TestSQLReadsAllFilesAsOne(t *testing.T) {
	path, rows := segmented(t, 40, &Options{SegmentRows: 6, Bus: "east"})
	if files := len(sealed(t, path)); files < 11 { // SQLite itself attaches ten
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
	ids := func(keep func(i int, e *Entry) bool) (out []string) {
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
		"SELECT id FROM activity_log":                                                             ids(func(int, *Entry) bool { return true }),
		"SELECT id FROM activity_log ORDER BY id DESC LIMIT 20":                                   reversed(ids(func(i int, _ *Entry) bool { return i >= last })),
		fmt.Sprintf("SELECT id FROM activity_log WHERE id > %d", mid):                             ids(func(_ int, e *Entry) bool { return e.ID > mid }),
		fmt.Sprintf("SELECT id FROM activity_log WHERE id BETWEEN %d AND %d ORDER BY id", 5, mid): ids(func(_ int, e *Entry) bool { return e.ID >= 5 && e.ID <= mid }),
		fmt.Sprintf("SELECT id FROM activity_log WHERE id <= %d ORDER BY id DESC", mid):           reversed(ids(func(_ int, e *Entry) bool { return e.ID <= mid })),
		fmt.Sprintf("SELECT id FROM activity_log WHERE id = %d OR id = 3 ORDER BY id", mid):       ids(func(_ int, e *Entry) bool { return e.ID == mid || e.ID == 3 }),
		fmt.Sprintf("SELECT id FROM activity_log WHERE id > '%d' AND id < 1e3", mid):              ids(func(_ int, e *Entry) bool { return e.ID > mid && e.ID < 1000 }),
		"SELECT id FROM activity_log WHERE message_id = '" + message + "'":                        ids(func(_ int, e *Entry) bool { return e.MessageID == message }),
		"SELECT id FROM activity_log WHERE message_id = '" + message + "' ORDER BY id DESC":       reversed(ids(func(_ int, e *Entry) bool { return e.MessageID == message })),
		"SELECT id FROM activity_log WHERE message_id = ''":                                       ids(func(_ int, e *Entry) bool { return e.MessageID == "" }),
		"SELECT id FROM activity_log WHERE ts >= '" + ts + "'":                                    ids(func(_ int, e *Entry) bool { return e.TS >= ts }),
		"SELECT id FROM activity_log WHERE ts <= '" + ts + "'":                                    ids(func(_ int, e *Entry) bool { return e.TS <= ts }),
		"SELECT id FROM activity_log WHERE ts = '" + ts + "'":                                     ids(func(_ int, e *Entry) bool { return e.TS == ts }),
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

package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/audit"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"
	"hubbub/activitylog/read"
	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

// A use is an operation on a log. Its result shows whether the whole log was available.
type use struct {
	name string
	of   int // the sealed file that it looks into, 0 for the live one, or all for a use that changes nothing
	do   func(ctx context.Context, path string) (any, error)
}

const all = -1

// reads returns a use that only reads.
func reads(name string, do func(ctx context.Context, r *read.Reader) (any, error)) use {
	return use{name, all, func(ctx context.Context, path string) (any, error) {
		r := read.Open(path)
		defer r.Close()
		return do(ctx, r)
	}}
}

// readsRows returns a use that reads the rows that a filter selects.
func readsRows(name string, f read.Filter) use {
	return reads(name, func(ctx context.Context, r *read.Reader) (any, error) {
		rows, _, err := r.After(ctx, f, nil, 1000)
		return rows, err
	})
}

func readsSQL(name, query string) use {
	return reads(name, func(ctx context.Context, r *read.Reader) (any, error) {
		var out []any
		err := r.SQL(ctx, query, func(_ []string, values []any) error {
			out = append(out, values)
			return nil
		})
		return out, err
	})
}

// brokenScript has the rows that the uses look for: chat messages, attention records,
// and a turn.
func brokenScript(t *testing.T) *logtest.Script {
	s := logtest.AttentionScript(t)
	s.Message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"no id of its own"}`, "agent:a")
	return s
}

// uses are the operations on a log.
func uses(s *logtest.Script) []use {
	return append(readingUses(s), changingUses(time.UnixMicro(s.Rows[len(s.Rows)/2].At))...)
}

func readingUses(s *logtest.Script) []use {
	first, last, middle := s.Rows[0], s.Rows[len(s.Rows)-1], s.Rows[len(s.Rows)/2]
	at := func(r activitylog.Row) time.Time { return time.UnixMicro(r.At) }
	return []use{
		readsRows("all rows", read.Filter{}), readsRows("what began", read.Filter{Events: []activitylog.Event{activitylog.SendStart}}),
		readsRows("the rows since", read.Filter{Since: at(middle)}),
		reads("backward", func(ctx context.Context, r *read.Reader) (any, error) {
			rows, _, err := r.Before(ctx, read.Filter{Since: at(s.Rows[2])}, nil, 1000)
			return rows, err
		}),
		reads("the end", func(ctx context.Context, r *read.Reader) (any, error) { return r.End(ctx) }),
		reads("a message", func(ctx context.Context, r *read.Reader) (any, error) { return r.Message(ctx, first.MessageID) }),
		reads("an event's id", func(ctx context.Context, r *read.Reader) (any, error) { return r.EventID(ctx, first.MessageID) }),
		reads("attention", func(ctx context.Context, r *read.Reader) (any, error) {
			return attentionOf(ctx, r, read.AttentionFilter{})
		}),
		reads("attention to an event", func(ctx context.Context, r *read.Reader) (any, error) {
			return attentionOf(ctx, r, read.AttentionFilter{EventID: "e1"})
		}),
		readsSQL("SQL", "SELECT * FROM activity_log"),
		readsSQL("SQL of a message", "SELECT * FROM activity_log WHERE message_id = '"+first.MessageID+"'"),
		reads("a proof", func(ctx context.Context, r *read.Reader) (any, error) {
			return audit.Prove(ctx, r, first.MessageID, "")
		}),
		reads("the last proof", func(ctx context.Context, r *read.Reader) (any, error) { return audit.Prove(ctx, r, last.MessageID, "") }),
		reads("verify", func(ctx context.Context, r *read.Reader) (any, error) {
			v, err := audit.Verify(ctx, r, nil)
			if err == nil && !v.OK() {
				err = errors.New(v.Problems[0].What)
			}
			if err == nil {
				for _, a := range v.Audits {
					a.Log = ""
				}
			}
			return v, err
		}),
	}
}

// changingUses are the operations on the files of a log. middle is the time of a row in the middle.
func changingUses(middle time.Time) []use {
	return []use{
		{"its footprint", all, func(ctx context.Context, path string) (any, error) {
			f, err := read.DiskUsageOf(ctx, path)
			return f.Since, err
		}},
		{"its files", all, func(_ context.Context, path string) (any, error) {
			files, err := read.Sealed(path, path)
			return len(files), err
		}},
		{"its checkpoint", 0, func(_ context.Context, path string) (any, error) {
			if err := os.Remove(merkle.CheckpointPath(path)); err != nil {
				return nil, err
			}
			if err := publishCheckpoint(path); err != nil {
				return nil, err
			}
			text, err := os.ReadFile(merkle.CheckpointPath(path))
			return string(text), err
		}},
		{"pruning", 2, func(ctx context.Context, path string) (any, error) {
			r, err := Prune(ctx, path, middle)
			return fmt.Sprint(r.Segments, r.Rows), err
		}},
		{"what is kept", 2, func(ctx context.Context, path string) (any, error) {
			r, err := enforce(ctx, activitylog.Retention{Bytes: 1}, path, time.Now())
			return fmt.Sprint(r.Segments, r.Rows), err
		}},
		{"keeping", 3, func(ctx context.Context, path string) (any, error) {
			if err := (&compactor{path: path}).compact(ctx); err != nil {
				return nil, err
			}
			v, err := segment.Open(segment.Path(path, 3))
			if err != nil {
				return nil, err
			}
			n, _ := v.Int64("SELECT count(*) + 1000 * (SELECT count(*) FROM lookup) FROM about")
			indexed := v.Lookup
			_, err = os.Stat(segment.Path(path, 3) + segment.ChecksumSuffix)
			return fmt.Sprint(n, indexed), errors.Join(err, v.Err, v.Conn.Close())
		}},
		{"beginning anew", 3, func(_ context.Context, path string) (any, error) {
			if err := os.Remove(path); err != nil {
				return nil, err
			}
			d, err := openDatabase(path, testOptions(""))
			if err != nil {
				return nil, err
			}
			return stateOf(d.(*database)), d.close()
		}},
		{"writing", 0, func(_ context.Context, path string) (any, error) {
			d, err := openDatabase(path, testOptions(""))
			if err != nil {
				return nil, err
			}
			return stateOf(d.(*database)), d.close()
		}},
		{"going on", 0, func(_ context.Context, path string) (any, error) {
			s, err := openDatabase(path, testOptions(""))
			if err != nil {
				return nil, err
			}
			d := s.(*database)
			_, _, err = d.write([]activitylog.Row{{At: 1, Event: activitylog.PeerConnected}})
			if err = errors.Join(err, d.sync()); err != nil {
				return nil, errors.Join(err, d.close())
			}
			if err := d.rotate(); err != nil {
				return nil, err
			}
			return stateOf(d), d.close()
		}},
	}
}

func stateOf(d *database) string {
	return fmt.Sprint(d.run.Segment, d.next, d.rows, d.firstRowAt, d.signed, d.tree.Size, d.tree.Root())
}

func attentionOf(ctx context.Context, r *read.Reader, f read.AttentionFilter) (list []string, err error) {
	err = errors.Join(r.Attention(ctx, f, func(a *activitylog.AttentionRecord) error {
		list = append(list, a.MessageID+" "+a.Agent+" "+a.Event)
		return nil
	}), r.ChatEvents(ctx, f, func(c *activitylog.ChatEvent) error {
		list = append(list, c.MessageID+" "+c.Agent+" "+c.EventID)
		return nil
	}))
	return list, err
}

// brokenLog is a log of two sealed files, one that was rotated and is to be sealed, and a
// live one.
func brokenLog(t *testing.T, s *logtest.Script) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "activity.db")
	n := len(s.Rows)
	store(t, path, &Options{SegmentRows: int64(n/4 + 1), SegmentAge: 100 * 365 * 24 * time.Hour}, slices.Collect(slices.Chunk(s.Rows, 4))...)
	if files := logtest.Sealed(t, path); len(files) != 3 {
		t.Fatalf("sealed are %v", files)
	}
	if err := errors.Join(segment.Seal(t.Context(), segment.Path(path, 1)), segment.Seal(t.Context(), segment.Path(path, 2))); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestDamagedLog_IsNeverReadAsSmaller renames each table and column in turn, in the active
// file and in others. Every use must then fail, or return the same as for an intact log.
func TestDamagedLog_IsNeverReadAsSmaller(t *testing.T) {
	if logtest.Raced {
		t.Skip("nothing in it runs at one time")
	}
	s := brokenScript(t)
	whole := brokenLog(t, s)
	want := map[string]string{}
	for _, u := range uses(s) {
		want[u.name] = told(t, u, copyLog(t, whole))
		if strings.HasPrefix(want[u.name], "error") {
			t.Fatalf("%s of a whole log: %s", u.name, want[u.name])
		}
	}
	for _, n := range []int{0, 2, 3} {
		file := func(path string) string {
			if n == 0 {
				return path
			}
			return segment.Path(path, n)
		}
		var damages []string
		for _, line := range logtest.Query(t, file(whole), "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'") {
			table, column, _ := strings.Cut(line, "|")
			damages = append(damages, fmt.Sprintf("ALTER TABLE %s RENAME TO gone", table), fmt.Sprintf("ALTER TABLE %s RENAME COLUMN %s TO gone", table, column))
		}
		slices.Sort(damages)
		for _, damage := range slices.Compact(damages) {
			readable := copyLog(t, whole)
			tamper(t, file(readable), damage)
			for _, u := range uses(s) {
				path := readable
				switch u.of {
				case n:
					path = copyLog(t, whole)
					tamper(t, file(path), damage)
				case all:
					if n == 3 {
						continue // as that of the others
					}
				default:
					continue
				}
				if got := told(t, u, path); !strings.HasPrefix(got, "error") && got != want[u.name] {
					t.Errorf("file %d, %s: %s\n%s", n, damage, u.name, cmp.Diff(want[u.name], got))
				}
			}
		}
	}
}

// told returns the result of a use as text.
func told(t *testing.T, u use, path string) string {
	t.Helper()
	v, err := u.do(t.Context(), path)
	if err != nil {
		return "error: " + err.Error()
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), path, "PATH")
}

// TestObstacle_IsReported puts something else where a file of the log is, or will be. Every use
// must then fail, or return the same as for an intact log.
func TestObstacle_IsReported(t *testing.T) {
	if logtest.Raced {
		t.Skip("nothing in it runs at one time")
	}
	s := brokenScript(t)
	whole := brokenLog(t, s)
	folder := func(path string) error {
		return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "x"), nil, 0o600))
	}
	garbage := func(path string) error {
		return os.WriteFile(path, []byte(strings.Repeat("no database\n", 1000)), 0o600)
	}
	cut := func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()/2)
	}
	for name, c := range map[string]struct {
		do    func(path string) error
		fails []string // these must; others may
	}{
		"the live file is a folder":          {folder, []string{"all rows", "verify", "a message", "SQL", "writing", "going on", "its checkpoint", "beginning anew"}},
		"the live file is no database":       {garbage, []string{"all rows", "verify", "writing", "going on", "its checkpoint"}},
		"the live file is cut":               {cut, []string{"verify"}},
		"a sealed file is a folder":          {func(path string) error { return folder(segment.Path(path, 2)) }, []string{"all rows", "verify", "a proof", "pruning", "what is kept"}},
		"a sealed file is no database":       {func(path string) error { return garbage(segment.Path(path, 2)) }, []string{"all rows", "verify", "pruning", "what is kept"}},
		"a sealed file is cut":               {func(path string) error { return cut(segment.Path(path, 2)) }, []string{"verify"}},
		"a rotated file is no database":      {func(path string) error { return garbage(segment.Path(path, 3)) }, []string{"all rows", "verify", "keeping", "beginning anew"}},
		"a rotated file is cut":              {func(path string) error { return cut(segment.Path(path, 3)) }, []string{"verify", "keeping"}},
		"where the next file is made":        {func(path string) error { return folder(path + segment.PreparedSuffix + ".new") }, []string{"keeping"}},
		"where the next file is":             {func(path string) error { return folder(path + segment.PreparedSuffix) }, []string{"going on"}},
		"where a file is sealed":             {func(path string) error { return folder(segment.Path(path, 3) + segment.PreparedSuffix) }, []string{"keeping"}},
		"where a write-ahead log was":        {func(path string) error { return folder(segment.Path(path, 3) + "-wal") }, []string{"keeping"}},
		"where the checkpoint is":            {func(path string) error { return folder(merkle.CheckpointPath(path)) }, []string{"its checkpoint", "keeping"}},
		"where kept hashes are":              {func(path string) error { return folder(segment.KeptTreePath(segment.Path(path, 1))) }, []string{"pruning", "what is kept"}},
		"where a file is to be moved":        {func(path string) error { return os.WriteFile(segment.Path(path, 4), nil, 0o600) }, []string{"going on"}},
		"where the checksum of one is to be": {func(path string) error { return folder(segment.Path(path, 4) + segment.ChecksumSuffix) }, []string{"going on"}},
	} {
		readable := copyLog(t, whole)
		if err := c.do(readable); err != nil {
			t.Fatal(err)
		}
		for _, u := range uses(s) {
			must := slices.Contains(c.fails, u.name)
			if !must && (u.of != all || strings.HasPrefix(name, "where")) {
				continue
			}
			path := readable
			if u.of != all {
				path = copyLog(t, whole)
				if err := c.do(path); err != nil {
					t.Fatal(err)
				}
			}
			got := told(t, u, path)
			want := "an error"
			if failed := strings.HasPrefix(got, "error"); failed || !must && got == told(t, u, whole) {
				continue
			} else if !must {
				want = told(t, u, whole)
			}
			t.Errorf("%s, %s:\n%s", name, u.name, cmp.Diff(want, got))
		}
	}
}

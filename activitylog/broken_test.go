package activitylog

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

	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

// A use is something that is done with a log. What it returns tells whether all of the log
// was there for it.
type use struct {
	name string
	of   int // the sealed file that it looks into, 0 for the live one, or all for a use that changes nothing
	do   func(ctx context.Context, path string) (any, error)
}

const all = -1

// reads is a use that reads.
func reads(name string, do func(ctx context.Context, r *Reader) (any, error)) use {
	return use{name, all, func(ctx context.Context, path string) (any, error) {
		r := Open(path)
		defer r.Close()
		return do(ctx, r)
	}}
}

// readsRows is a use that reads the rows that a filter chooses.
func readsRows(name string, f Filter) use {
	return reads(name, func(ctx context.Context, r *Reader) (any, error) {
		rows, _, err := r.After(ctx, f, nil, 1000)
		return rows, err
	})
}

func readsSQL(name, query string) use {
	return reads(name, func(ctx context.Context, r *Reader) (any, error) {
		var out []any
		err := r.SQL(ctx, query, func(_ []string, values []any) error {
			out = append(out, values)
			return nil
		})
		return out, err
	})
}

// brokenScript has what the uses look for: chat messages, attention records, and a turn.
func brokenScript(t *testing.T) *script {
	s := attentionScript(t)
	s.message(protocol.TypeTGMessage, "tg:1", "agent:a", `{"text":"no id of its own"}`, "agent:a")
	return s
}

// uses are what a log is there for.
func uses(s *script) []use {
	first, last, middle := s.w[0], s.w[len(s.w)-1], s.w[len(s.w)/2]
	at := func(r Row) time.Time { return time.UnixMicro(r.At) }
	return []use{
		readsRows("all rows", Filter{}), readsRows("what began", Filter{Events: []Event{SendStart}}),
		readsRows("the rows since", Filter{Since: at(middle)}),
		reads("backward", func(ctx context.Context, r *Reader) (any, error) {
			rows, _, err := r.Before(ctx, Filter{Since: at(s.w[2])}, nil, 1000)
			return rows, err
		}),
		reads("the end", func(ctx context.Context, r *Reader) (any, error) { return r.End(ctx) }),
		reads("a message", func(ctx context.Context, r *Reader) (any, error) { return r.Message(ctx, first.MessageID) }),
		reads("an event's id", func(ctx context.Context, r *Reader) (any, error) { return r.EventID(ctx, first.MessageID) }),
		reads("attention", func(ctx context.Context, r *Reader) (any, error) { return attentionOf(ctx, r, AttentionFilter{}) }),
		reads("attention to an event", func(ctx context.Context, r *Reader) (any, error) {
			return attentionOf(ctx, r, AttentionFilter{EventID: "e1"})
		}),
		readsSQL("SQL", "SELECT * FROM activity_log"),
		readsSQL("SQL of a message", "SELECT * FROM activity_log WHERE message_id = '"+first.MessageID+"'"),
		reads("a proof", func(ctx context.Context, r *Reader) (any, error) { return r.Prove(ctx, first.MessageID, "") }),
		reads("the last proof", func(ctx context.Context, r *Reader) (any, error) { return r.Prove(ctx, last.MessageID, "") }),
		reads("verify", func(ctx context.Context, r *Reader) (any, error) {
			v, err := r.Verify(ctx, nil)
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
		{"its footprint", all, func(ctx context.Context, path string) (any, error) {
			f, err := DiskUsageOf(ctx, path)
			return f.Since, err
		}},
		{"its files", all, func(_ context.Context, path string) (any, error) {
			files, err := Sealed(path, path)
			return len(files), err
		}},
		{"its checkpoint", 0, func(_ context.Context, path string) (any, error) {
			if err := os.Remove(checkpointPath(path)); err != nil {
				return nil, err
			}
			if err := publishCheckpoint(path); err != nil {
				return nil, err
			}
			text, err := os.ReadFile(checkpointPath(path))
			return string(text), err
		}},
		{"pruning", 2, func(ctx context.Context, path string) (any, error) {
			r, err := Prune(ctx, path, at(middle))
			return fmt.Sprint(r.Segments, r.Rows), err
		}},
		{"what is kept", 2, func(ctx context.Context, path string) (any, error) {
			r, err := Retention{Bytes: 1}.enforce(ctx, path, time.Now())
			return fmt.Sprint(r.Segments, r.Rows), err
		}},
		{"keeping", 3, func(ctx context.Context, path string) (any, error) {
			if err := (&compactor{path: path}).compact(ctx); err != nil {
				return nil, err
			}
			v, err := openView(segmentPath(path, 3))
			if err != nil {
				return nil, err
			}
			n, _ := v.int64("SELECT count(*) + 1000 * (SELECT count(*) FROM lookup) FROM about")
			indexed := v.lookup
			_, err = os.Stat(segmentPath(path, 3) + checksumSuffix)
			return fmt.Sprint(n, indexed), errors.Join(err, v.err, v.conn.Close())
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
			_, _, err = d.write([]Row{{At: 1, Event: PeerConnected}})
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
	return fmt.Sprint(d.run.segment, d.next, d.rows, d.firstRowAt, d.signed, d.tree.size, d.tree.root())
}

func attentionOf(ctx context.Context, r *Reader, f AttentionFilter) (list []string, err error) {
	err = errors.Join(r.Attention(ctx, f, func(a *AttentionRecord) error {
		list = append(list, a.MessageID+" "+a.Agent+" "+a.Event)
		return nil
	}), r.ChatEvents(ctx, f, func(c *ChatEvent) error {
		list = append(list, c.MessageID+" "+c.Agent+" "+c.EventID)
		return nil
	}))
	return list, err
}

// brokenLog is a log of two sealed files, one that was rotated and is to be sealed, and a
// live one.
func brokenLog(t *testing.T, s *script) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "activity.db")
	n := len(s.w)
	store(t, path, &Options{SegmentRows: int64(n/4 + 1), SegmentAge: 100 * 365 * 24 * time.Hour}, slices.Collect(slices.Chunk(s.w, 4))...)
	if files := sealed(t, path); len(files) != 3 {
		t.Fatalf("sealed are %v", files)
	}
	if err := errors.Join(seal(t.Context(), segmentPath(path, 1)), seal(t.Context(), segmentPath(path, 2))); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestADamagedLogIsNeverReadAsLess renames each table and column in turn, in the live file
// and in others. Whatever is done with the log then fails, or gives what it gives for a
// whole log.
func TestADamagedLogIsNeverReadAsLess(t *testing.T) {
	if raced {
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
			return segmentPath(path, n)
		}
		var damages []string
		for _, line := range query(t, file(whole), "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'") {
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

// told returns what a use gives, as text.
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

// TestWhatStandsInTheWayIsTold: something else lies where a file of the log is, or is to be.
// Whatever is done with the log then fails, or gives what it gives for a whole log.
func TestWhatStandsInTheWayIsTold(t *testing.T) {
	if raced {
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
		"a sealed file is a folder":          {func(path string) error { return folder(segmentPath(path, 2)) }, []string{"all rows", "verify", "a proof", "pruning", "what is kept"}},
		"a sealed file is no database":       {func(path string) error { return garbage(segmentPath(path, 2)) }, []string{"all rows", "verify", "pruning", "what is kept"}},
		"a sealed file is cut":               {func(path string) error { return cut(segmentPath(path, 2)) }, []string{"verify"}},
		"a rotated file is no database":      {func(path string) error { return garbage(segmentPath(path, 3)) }, []string{"all rows", "verify", "keeping", "beginning anew"}},
		"a rotated file is cut":              {func(path string) error { return cut(segmentPath(path, 3)) }, []string{"verify", "keeping"}},
		"where the next file is made":        {func(path string) error { return folder(path + preparedSuffix + ".new") }, []string{"keeping"}},
		"where the next file is":             {func(path string) error { return folder(path + preparedSuffix) }, []string{"going on"}},
		"where a file is sealed":             {func(path string) error { return folder(segmentPath(path, 3) + preparedSuffix) }, []string{"keeping"}},
		"where a write-ahead log was":        {func(path string) error { return folder(segmentPath(path, 3) + "-wal") }, []string{"keeping"}},
		"where the checkpoint is":            {func(path string) error { return folder(checkpointPath(path)) }, []string{"its checkpoint", "keeping"}},
		"where kept hashes are":              {func(path string) error { return folder(treePath(segmentPath(path, 1))) }, []string{"pruning", "what is kept"}},
		"where a file is to be moved":        {func(path string) error { return os.WriteFile(segmentPath(path, 4), nil, 0o600) }, []string{"going on"}},
		"where the checksum of one is to be": {func(path string) error { return folder(segmentPath(path, 4) + checksumSuffix) }, []string{"going on"}},
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

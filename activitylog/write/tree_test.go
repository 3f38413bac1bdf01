package write

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"

	"golang.org/x/mod/sumdb/tlog"
	"zombiezen.com/go/sqlite"
)

// TestTree_AgreesWithTlog compares its root and its parts, for each size, with
// those of tlog.
func TestTree_AgreesWithTlog(t *testing.T) {
	var own merkle.Tree
	var stored []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) (list []tlog.Hash, err error) {
		for _, i := range indexes {
			list = append(list, stored[i])
		}
		return list, nil
	})
	for n := range int64(40) {
		want, err := tlog.TreeHash(n, reader)
		if err != nil || own.Root() != want || own.Size != n {
			t.Fatalf("of %d entries the root is %s; want %s, %v", own.Size, own.Root(), want, err)
		}
		if back := merkle.TreeFrom(own.Size, own.Blob()); back.Root() != want || len(back.Peaks) != len(own.Peaks) {
			t.Errorf("of %d entries, read again, the root is %s", n, back.Root())
		}
		if back := merkle.TreeFrom(own.Size, append(own.Blob(), 1, 2, 3)); back.Root() != want {
			t.Errorf("of %d entries, with some bytes more, the root is %s", n, back.Root())
		}
		whole := map[string]tlog.Hash{} // its largest whole parts
		low := int64(0)
		for level := 6; level >= 0; level-- {
			if n>>level&1 == 1 {
				whole[fmt.Sprint(level, " ", low)] = stored[tlog.StoredHashIndex(level, low>>level)]
				low += 1 << level
			}
		}
		for level := range 7 {
			for at := int64(0); at <= n; at++ {
				h, ok := own.Peak(level, at)
				if want, known := whole[fmt.Sprint(level, " ", at)]; ok != known || h != want {
					t.Errorf("of %d entries, those of level %d from %d are %s, %t", n, level, at, h, ok)
				}
			}
		}
		if h, ok := (merkle.Tree{Size: n}).Peak(0, n-1); ok {
			t.Errorf("a tree without hashes has %s", h)
		}
		before := own.Clone()
		h := tlog.RecordHash([]byte(fmt.Sprint(n)))
		hashes, err := tlog.StoredHashesForRecordHash(n, h, reader)
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, hashes...)
		if own.Add(h); before.Root() != want {
			t.Errorf("a copy of %d entries has changed", n)
		}
	}
	var all merkle.Tree
	for n := range int64(39) {
		h := tlog.RecordHash([]byte(fmt.Sprint(n)))
		all.AddAll(h[:])
	}
	if all.Add(tlog.RecordHash([]byte("39"))); all.Root() != own.Root() {
		t.Error("added at once, it is another")
	}
}

func TestParseCheckpoint(t *testing.T) {
	root := tlog.RecordHash([]byte("x"))
	note := fmt.Sprintf("hubbub/log\n7\n%s\n\n— hubbub/log abc\n", root)
	for name, text := range map[string]string{"a note": note, "of a proof": merkle.ProofHeader + "index 3\n\n" + note, "of no entries": strings.Replace(note, "\n7\n", "\n0\n", 1)} {
		c, err := merkle.ParseCheckpoint(text)
		if err != nil || c.Origin != "hubbub/log" || c.Root != root || !strings.HasSuffix(text, c.Note) || strings.HasPrefix(c.Note, "c2sp") || c.Size != 7 && name != "of no entries" {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	for name, text := range map[string]string{
		"nothing": "", "three lines": "hubbub/log\n7\n" + root.String(), "no size": strings.Replace(note, "\n7\n", "\nx\n", 1),
		"less than nothing": strings.Replace(note, "\n7\n", "\n-1\n", 1), "no root": strings.Replace(note, root.String(), "?", 1),
		"a short root": strings.Replace(note, root.String(), "AAAA", 1), "a proof of nothing": merkle.ProofHeader,
	} {
		if c, err := merkle.ParseCheckpoint(text); err == nil || !strings.Contains(err.Error(), "not a checkpoint") {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}

// TestLeaf_HashesTypeOfValue covers values that our programs never store: each is hashed
// with its type, so that different values have different hashes.
func TestLeaf_HashesTypeOfValue(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	store(t, path, nil, logtest.Sent(1, logtest.Epoch))
	tamper(t, path, `DELETE FROM event; INSERT INTO event (id, at, kind, msg, rpc_id, actor, topic, message_id, payload, status, error) VALUES
		(1, 2, 3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), (2, 2, 3, 1, 7, x'0aff', CAST(x'ff22' AS TEXT), 'a"b', 1.5, '', 'é'),
		(3, 2, 3, 1, 1.5, 'p', 't', x'', 4, 'ok', ' '), (4, 2, 3, NULL, 'x', char(7), 'a\b', 'm', '{}', NULL, NULL), (5, 2, 3, NULL, NULL, NULL, NULL, NULL, x'7b7d', NULL, NULL)`)
	v, err := segment.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Conn.Close()
	var got []string
	v.Query("SELECT "+segment.LeafColumns+" FROM event ORDER BY id", nil, func(s *sqlite.Stmt) bool {
		got = append(got, string(segment.AppendStored(nil, s)))
		return true
	})
	v.Query("SELECT NULL, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11", nil, func(s *sqlite.Stmt) bool {
		got = append(got, string(segment.AppendStored(nil, s)))
		return true
	})
	want := []string{
		`{"id":1,"at":2,"kind":3}` + "\n",
		`{"id":2,"at":2,"kind":3,"msg":1,"rpc_id":7,"actor":{"blob":"0aff"},"topic":{"text":"ff22"},"message_id":"a\"b","status":"","error":"é","payload":{"real":"3ff8000000000000"}}` + "\n",
		`{"id":3,"at":2,"kind":3,"msg":1,"rpc_id":{"real":"3ff8000000000000"},"actor":"p","topic":"t","message_id":{"blob":""},"status":"ok","error":" ","usual":4}` + "\n",
		`{"id":4,"at":2,"kind":3,"rpc_id":"x","actor":"\u0007","topic":"a\\b","message_id":"m","bytes":2,"payload":{}}` + "\n",
		`{"id":5,"at":2,"kind":3,"payload":{"blob":"7b7d"}}` + "\n",
		`{,"at":2,"kind":3,"msg":4,"rpc_id":5,"actor":6,"topic":7,"message_id":8,"status":9,"error":10,"usual":11}` + "\n",
	}
	if !slices.Equal(got, want) || v.Err != nil {
		t.Errorf("%v\n%s\nwant\n%s", v.Err, strings.Join(got, ""), strings.Join(want, ""))
	}
}

// TestLeaf_HashesRowsAsStored covers rows of every kind, in commits of every size.
func TestLeaf_HashesRowsAsStored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	odd := &activitylog.Sending{}
	commits := [][]activitylog.Row{
		{{At: 1, Event: activitylog.PeerConnected, Actor: "tg:1", Payload: []byte(`{"remote":"x"}`)}, {At: 2, Event: activitylog.Rejected, MessageID: "é\"", RPCID: "\x01", Error: "no\n"}},
		{{At: 3, Event: activitylog.ProcessStart, MessageID: "odd", RPCID: "a", Actor: "p", Topic: "t", Of: odd}, {At: 4, Event: activitylog.ProcessStart, MessageID: "odd", RPCID: "b", Actor: "q", Topic: "t", Of: odd},
			{At: 5, Event: activitylog.SendFinish, MessageID: "odd", RPCID: "9", Actor: "tg:1", Topic: "t", Status: "", Of: odd}},
		{{At: 6, Event: activitylog.ProcessFinish, MessageID: "odd", RPCID: "a", Actor: "p", Topic: "t", Status: "", Of: odd}},
	}
	for i := range 3 { // their rows in turn
		commits = append(commits, logtest.Sent(3*i+1, logtest.Epoch), logtest.Sent(3*i+2, logtest.Epoch))
	}
	a, b := logtest.Sent(100, logtest.Epoch), logtest.Sent(101, logtest.Epoch)
	commits = append(commits, []activitylog.Row{a[0], b[0], b[1], a[1], b[2]}, append(slices.Clone(b[3:]), logtest.Sent(102, logtest.Epoch)...))
	store(t, path, &Options{SegmentAge: 100 * 365 * 24 * time.Hour}, commits...)
	v, err := segment.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Conn.Close()
	n := 0
	v.Commits(1, func(c *segment.Commit) {
		leaves, marks := leavesOf(v, c.Window)
		if n++; !slices.Equal(leaves, c.Leaves) || !slices.Equal(marks, c.Marks) {
			t.Errorf("rows %d to %d are hashed otherwise than they were", c.Low, c.High)
		}
	})
	if n != len(commits) || v.Err != nil {
		t.Errorf("%d commits, %v", n, v.Err)
	}
	if v := verdict(t, path); v.Audits[0].Signed != v.Audits[0].Entries {
		t.Errorf("%+v", v.Audits[0])
	}
}

// TestSign_StoresCheckpoints checks that durable unsigned rows are signed five seconds after
// the last checkpoint, and all rows at the end of the file.
func TestSign_StoresCheckpoints(t *testing.T) {
	path := filepath.Join(t.TempDir(), "activity.db")
	s, err := openDatabase(path, testOptions(""))
	if err != nil {
		t.Fatal(err)
	}
	d := s.(*database)
	i := 0
	write := func(synced bool) {
		t.Helper()
		i++
		_, _, err := d.write(logtest.Sent(5*i, logtest.Epoch)) // two rows, one entry
		if synced {
			err = errors.Join(err, d.sync())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	signed := func(when string, sizes ...int64) {
		t.Helper()
		var got []int64
		v := &segment.View{Conn: d.conn}
		v.Checkpoints(" ORDER BY size", func(c merkle.Checkpoint, _ int64) { got = append(got, c.Size) })
		if !slices.Equal(got, sizes) || v.Err != nil {
			t.Errorf("%s: signed are %v; want %v, %v", when, got, sizes, v.Err)
		}
	}
	idle := func() {
		t.Helper()
		if err := d.idle(); err != nil {
			t.Fatal(err)
		}
	}
	d.at = time.Now().Add(time.Hour)
	write(true)
	idle()
	signed("soon after the last")
	d.at = time.Time{}
	idle()
	signed("when it is idle", 1)
	if time.Since(d.at) > time.Hour || d.signed != 1 {
		t.Errorf("signed at %s, to %d", d.at, d.signed)
	}
	d.at = time.Time{}
	idle()
	signed("when nothing came", 1)
	write(false)
	d.at = time.Time{}
	idle()
	signed("what is not durable", 1)
	write(true)
	signed("before a commit", 1)
	d.at = time.Time{}
	write(true) // what was durable before
	signed("with a commit", 1, 3)
	key := d.key
	d.key, d.at = nil, time.Time{}
	idle()
	write(true)
	signed("without a key", 1, 3)
	d.key = key
	if err := d.signAll(); err != nil {
		t.Fatal(err)
	}
	signed("at the end", 1, 3, 5)
	if d.signed != 5 {
		t.Errorf("signed are %d", d.signed)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	if _, told := audited(t, path, nil); told != "" {
		t.Error(told)
	}
}

// leavesOf returns the leaves and marks of the rows of a commit, computed from the file.
func leavesOf(v *segment.View, w segment.Window) (leaves, marks []byte) {
	marks = make([]byte, segment.MarkSize*(w.High-w.Low+1))
	leaves = []byte{}
	for _, e := range v.Entries(w) {
		h := segment.LeafHash(e.Bytes)
		leaves = append(leaves, h[:]...)
		for _, r := range e.Rows {
			binary.BigEndian.PutUint16(marks[segment.MarkSize*(r.Id-w.Low):], segment.Mark(e.Row(r)))
		}
	}
	return leaves, marks
}

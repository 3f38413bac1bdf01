package segment

import (
	"hubbub/activitylog/internal/merkle"

	"golang.org/x/mod/sumdb/tlog"
	"zombiezen.com/go/sqlite"
)

// TreeStart returns the tree before the first row of this file that is in the tree, and the id of
// that row. It returns false if no row is.
func (v *View) TreeStart() (t merkle.Tree, first int64, ok bool) {
	v.Query("SELECT size, peaks, first FROM tree", nil, func(s *sqlite.Stmt) bool {
		t, first, ok = merkle.TreeFrom(s.ColumnInt64(0), Blob(s, 1)), s.ColumnInt64(2), true
		return false
	})
	return t, first, ok
}

// A Commit has the range of a commit's rows, their hashes, and their index.
type Commit struct {
	Window
	Leaves []byte
	Marks  []byte
	Index  CommitIndex
}

// commitsAtOnce is how many commits one query reads.
const commitsAtOnce = 256

// Commits calls fn for each commit whose first row is from or later, in order. No transaction is
// open during the calls.
func (v *View) Commits(from int64, fn func(*Commit)) {
	for more := true; more && v.Err == nil; {
		page := make([]Commit, 0, commitsAtOnce)
		v.Query(selectCommits+" WHERE first >= ? ORDER BY first LIMIT ?",
			[]any{from, commitsAtOnce}, func(s *sqlite.Stmt) bool {
				page = append(page, readCommit(s))
				return true
			})
		for i := range page {
			fn(&page[i])
			from = page[i].Low + 1
		}
		more = len(page) == commitsAtOnce
	}
}

// CommitOf returns the commit that contains a row.
func (v *View) CommitOf(id int64) (c Commit) {
	v.Query(selectCommits+" WHERE first <= ? ORDER BY first DESC LIMIT 1", []any{id},
		func(s *sqlite.Stmt) bool {
			c = readCommit(s)
			return false
		})
	return c
}

// selectCommits begins a statement for readCommit.
const selectCommits = "SELECT first, last, leaves, marks, since, until, hashes, subjects FROM batch"

func readCommit(s *sqlite.Stmt) Commit {
	c := Commit{Window: Window{s.ColumnInt64(0), s.ColumnInt64(1)}}
	if s.ColumnType(2) != sqlite.TypeNull {
		c.Leaves, c.Marks = Blob(s, 2), Blob(s, 3)
		c.Leaves = c.Leaves[:len(c.Leaves)/tlog.HashSize*tlog.HashSize]
	}
	c.Index = CommitIndex{s.ColumnInt64(4), s.ColumnInt64(5), Blob(s, 6), Blob(s, 7)}
	return c
}

// Blob returns a copy of a column of bytes.
func Blob(s *sqlite.Stmt, column int) []byte {
	b := make([]byte, s.ColumnLen(column))
	s.ColumnBytes(column, b)
	return b
}

// NoRow is the callback for statements without results.
func NoRow(*sqlite.Stmt) bool { return true }

// Checkpoints calls fn with the checkpoints of the file that satisfy a condition, and the last
// row that each covers.
func (v *View) Checkpoints(where string, fn func(c merkle.Checkpoint, last int64)) {
	v.Query("SELECT size, last, key, note FROM checkpoint"+where, nil, func(s *sqlite.Stmt) bool {
		c, err := merkle.ParseCheckpoint(s.ColumnText(3))
		if err != nil || c.Size != s.ColumnInt64(0) {
			c = merkle.Checkpoint{Size: s.ColumnInt64(0)} // its root matches no tree
		}
		c.Key = s.ColumnText(2)
		fn(c, s.ColumnInt64(1))
		return true
	})
}

// A HashedEntry is an entry of the tree, computed from the rows in a file.
type HashedEntry struct {
	Rows  []HashedRow
	Bytes []byte // after one free byte
}

// A HashedRow is the position of a row in its entry.
type HashedRow struct {
	Id       int64
	from, to int // offsets in the bytes of the entry
}

// Row returns the bytes of one row.
func (e *HashedEntry) Row(r HashedRow) []byte { return e.Bytes[r.from:r.to] }

// Entries returns the entries of a commit, computed from the rows in the file. The writer's
// leafBuilder makes the same ones.
func (v *View) Entries(w Window) (list []*HashedEntry) {
	of := map[int64]*HashedEntry{}
	v.Query("SELECT "+LeafColumns+" FROM event WHERE id BETWEEN ? AND ? ORDER BY id", []any{w.Low, w.High},
		func(s *sqlite.Stmt) bool {
			id, key := s.ColumnInt64(0), s.ColumnInt64(3)
			if key == 0 {
				key = id
			}
			e := of[key]
			if e == nil {
				e = &HashedEntry{Bytes: []byte{0}}
				of[key], list = e, append(list, e)
			}
			from := len(e.Bytes)
			e.Bytes = AppendStored(e.Bytes, s)
			e.Rows = append(e.Rows, HashedRow{id, from, len(e.Bytes)})
			return true
		})
	return list
}

package activitylog

import (
	"encoding/binary"

	"golang.org/x/mod/sumdb/tlog"
	"zombiezen.com/go/sqlite"
)

// treeStart returns the tree before the first row of this file that is in it, and that
// row's id; false if none is.
func (v *view) treeStart() (t tree, first int64, ok bool) {
	v.query("SELECT size, peaks, first FROM tree", nil, func(s *sqlite.Stmt) bool {
		peaks := make([]byte, s.ColumnLen(1))
		s.ColumnBytes(1, peaks)
		t, first, ok = treeFrom(s.ColumnInt64(0), peaks), s.ColumnInt64(2), true
		return false
	})
	return t, first, ok
}

// A commitRecord has the ids and the hashes of a commit's rows, and what finds them.
type commitRecord struct {
	window
	leaves []byte
	marks  []byte
	index  commitIndex
}

// commitsAtOnce is how many commits one query reads.
const commitsAtOnce = 256

// commits calls fn with each commit that begins with a row or a later one, in order. No
// transaction is open meanwhile.
func (v *view) commits(from int64, fn func(*commitRecord)) {
	for more := true; more && v.err == nil; {
		page := make([]commitRecord, 0, commitsAtOnce)
		v.query(selectCommits+" WHERE first >= ? ORDER BY first LIMIT ?",
			[]any{from, commitsAtOnce}, func(s *sqlite.Stmt) bool {
				page = append(page, readCommit(s))
				return true
			})
		for i := range page {
			fn(&page[i])
			from = page[i].low + 1
		}
		more = len(page) == commitsAtOnce
	}
}

// commitOf returns the commit of a row.
func (v *view) commitOf(id int64) (c commitRecord) {
	v.query(selectCommits+" WHERE first <= ? ORDER BY first DESC LIMIT 1", []any{id},
		func(s *sqlite.Stmt) bool {
			c = readCommit(s)
			return false
		})
	return c
}

// selectCommits begins a statement whose rows readCommit reads.
const selectCommits = "SELECT first, last, leaves, marks, since, until, hashes, subjects FROM batch"

func readCommit(s *sqlite.Stmt) commitRecord {
	c := commitRecord{window: window{s.ColumnInt64(0), s.ColumnInt64(1)}}
	if s.ColumnType(2) != sqlite.TypeNull {
		c.leaves, c.marks = readBlob(s, 2), readBlob(s, 3)
		c.leaves = c.leaves[:len(c.leaves)/tlog.HashSize*tlog.HashSize]
	}
	c.index = commitIndex{s.ColumnInt64(4), s.ColumnInt64(5), readBlob(s, 6), readBlob(s, 7)}
	return c
}

func readBlob(s *sqlite.Stmt, column int) []byte {
	b := make([]byte, s.ColumnLen(column))
	s.ColumnBytes(column, b)
	return b
}

// noRow is for statements that give none.
func noRow(*sqlite.Stmt) bool { return true }

// checkpoints calls fn with those of the file that a condition chooses, and the id of the
// last row that each is about.
func (v *view) checkpoints(and string, fn func(c checkpoint, last int64)) {
	v.query("SELECT size, last, key, note FROM checkpoint"+and, nil, func(s *sqlite.Stmt) bool {
		c, err := parseCheckpoint(s.ColumnText(3))
		if err != nil || c.size != s.ColumnInt64(0) {
			c = checkpoint{size: s.ColumnInt64(0)} // its root fits nothing
		}
		c.key = s.ColumnText(2)
		fn(c, s.ColumnInt64(1))
		return true
	})
}

// A hashedEntry is an entry of the tree, made of the rows that a file has.
type hashedEntry struct {
	rows  []hashedRow
	bytes []byte // behind a byte of room
}

type hashedRow struct {
	id       int64
	from, to int // in the bytes of its entry
}

func (e *hashedEntry) row(r hashedRow) []byte { return e.bytes[r.from:r.to] }

// entries returns the entries of a commit, as leafBuilder makes them, from the rows that the
// file has.
func (v *view) entries(w window) (list []*hashedEntry) {
	of := map[int64]*hashedEntry{}
	v.query("SELECT "+leafColumns+" FROM event WHERE id BETWEEN ? AND ? ORDER BY id", []any{w.low, w.high},
		func(s *sqlite.Stmt) bool {
			id, key := s.ColumnInt64(0), s.ColumnInt64(3)
			if key == 0 {
				key = id
			}
			e := of[key]
			if e == nil {
				e = &hashedEntry{bytes: []byte{0}}
				of[key], list = e, append(list, e)
			}
			from := len(e.bytes)
			e.bytes = appendStored(e.bytes, s)
			e.rows = append(e.rows, hashedRow{id, from, len(e.bytes)})
			return true
		})
	return list
}

// leavesOf returns the leaves and marks of the rows of a commit.
func (v *view) leavesOf(w window) (leaves, marks []byte) {
	marks = make([]byte, markSize*(w.high-w.low+1))
	leaves = []byte{}
	for _, e := range v.entries(w) {
		h := leafOf(e.bytes)
		leaves = append(leaves, h[:]...)
		for _, r := range e.rows {
			binary.BigEndian.PutUint16(marks[markSize*(r.id-w.low):], markOf(e.row(r)))
		}
	}
	return leaves, marks
}

package write

import (
	"encoding/binary"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/merkle"
	"hubbub/activitylog/internal/segment"
)

// appendRow appends the bytes to be hashed for a row that the writer stores. AppendStored reads
// the same bytes from the file.
func appendRow(b []byte, r *activitylog.Row, s *stored, id int64) []byte {
	b = segment.AppendNumber(b, 0, id)
	b = segment.AppendNumber(b, 1, r.At)
	b = segment.AppendNumber(b, 2, int64(r.Event))
	if s.msg != 0 {
		b = segment.AppendNumber(b, 3, s.msg)
	}
	if _, ok := smallNumber(s.rpcID); ok {
		b = append(append(b, segment.LeafNames[4]...), s.rpcID...)
	} else if s.rpcID != "" {
		b = segment.AppendText(b, 4, s.rpcID)
	}
	for i, text := range [...]string{s.actor, s.topic, s.messageID} {
		if text != "" {
			b = segment.AppendText(b, 5+i, text)
		}
	}
	if s.status != "" || s.emptyStatus { // the empty one is stored, too
		b = segment.AppendText(b, 8, s.status)
	}
	if r.Error != "" {
		b = segment.AppendText(b, 9, r.Error)
	}
	switch {
	case s.usual >= 0:
		b = segment.AppendUsual(b, s.usual)
	case len(r.Payload) > 0:
		b = segment.AppendPayload(b, borrow(r.Payload))
	}
	return append(b, "}\n"...)
}

// A leafBuilder makes the leaves of a commit, and reuses its buffers for the next one.
type leafBuilder struct {
	commit int64    // number of the commit
	stored []stored // by row
	next   []int32  // by row: the next row of its leaf, or 0
	first  []int32  // by leaf: its first row
	last   []int32
	buf    []byte
	marks  []byte
	hashes []byte
}

// begin removes the previous commit.
func (l *leafBuilder) begin() {
	l.commit++
	clear(l.stored) // it refers to the rows' strings
	l.stored, l.next, l.first, l.last = l.stored[:0], l.next[:0], l.first[:0], l.last[:0]
}

// store returns the stored form of the commit's next rows, whose ids begin with id.
func (l *leafBuilder) store(rows []activitylog.Row, id, file int64) []stored {
	from := len(l.stored)
	for i := range rows {
		l.stored = append(l.stored, encode(&rows[i], id+int64(i), file))
		l.join(&rows[i], id+int64(i))
	}
	return l.stored[from:]
}

// join adds the last stored row to the leaf of the row that it refers to.
func (l *leafBuilder) join(r *activitylog.Row, id int64) {
	i, of := len(l.stored)-1, r.Of
	pointing := l.stored[i].msg != 0
	l.next = append(l.next, 0)
	if pointing && of.Commit == l.commit {
		l.next[l.last[of.Leaf]] = int32(i)
		l.last[of.Leaf] = int32(i)
		return
	}
	if of != nil && (pointing || of.First == id) {
		of.Commit, of.Leaf = l.commit, int32(len(l.first))
	}
	l.first, l.last = append(l.first, int32(i)), append(l.last, int32(i))
}

// leaves computes the leaves of the commit's rows, whose ids begin with id, and adds them to a
// tree.
func (l *leafBuilder) leaves(rows []activitylog.Row, id int64, t *merkle.Tree) {
	l.marks, l.hashes = append(l.marks[:0], make([]byte, segment.MarkSize*len(rows))...), l.hashes[:0]
	for _, at := range l.first {
		l.buf = append(l.buf[:0], 0)
		for more := true; more; more = at > 0 {
			from := len(l.buf)
			l.buf = appendRow(l.buf, &rows[at], &l.stored[at], id+int64(at))
			binary.BigEndian.PutUint16(l.marks[segment.MarkSize*at:], segment.Mark(l.buf[from:]))
			at = l.next[at]
		}
		h := segment.LeafHash(l.buf)
		l.hashes = append(l.hashes, h[:]...)
		t.Add(h)
	}
	if cap(l.buf) > keptEntry {
		l.buf = nil
	}
}

// keptEntry bounds the buffer that is kept for the next entry, in bytes.
const keptEntry = 1 << 20

package activitylog

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/crc32"
	"math"
	"strconv"
	"unicode/utf8"

	"golang.org/x/mod/sumdb/tlog"
	"zombiezen.com/go/sqlite"
)

// An entry of the Merkle tree, a leaf, is what one commit stored of one message: a row that
// says all of its own, with those that point to it, or those that point to one row of an
// earlier commit. So the proof of a message shows no other one. It is a JSON object a row,
// as the table event has it, NULL left out:
//
//	{"id":17,"at":1764000000000000,"kind":1,"rpc_id":3,"actor":"agent:a","topic":"tg:1",
//	 "message_id":"m","status":"...","error":"...","bytes":14,"payload":{"type":"..."}}
//
// "usual" takes the place of the payload where that is a number. How long the payload is
// stands before it, so that no other row has the same bytes, whatever is in them.

// leafColumns are those of the table event in the order in which they are hashed.
const leafColumns = "id, at, kind, msg, rpc_id, actor, topic, message_id, status, error, payload"

// leafNames begin the members of these columns.
var leafNames = [...]string{
	`{"id":`, `,"at":`, `,"kind":`, `,"msg":`, `,"rpc_id":`, `,"actor":`, `,"topic":`, `,"message_id":`, `,"status":`,
	`,"error":`, `,"payload":`,
}

// appendText appends a column with a text.
func appendText(b []byte, column int, s string) []byte {
	b = append(b, leafNames[column]...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return appendQuoted(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendQuoted appends a text that is not all plain characters. One that is not UTF-8 stands
// as hexadecimal digits: no two texts look the same.
func appendQuoted(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		return appendHex(b, "text", s)
	}
	quoted, _ := json.Marshal(s) // a string always can be
	return append(b, quoted...)
}

func appendHex(b []byte, kind, s string) []byte {
	b = append(b, `{"`+kind+`":"`...)
	b = hex.AppendEncode(b, []byte(s))
	return append(b, `"}`...)
}

func appendNumber(b []byte, column int, n int64) []byte {
	return strconv.AppendInt(append(b, leafNames[column]...), n, 10)
}

func appendPayload(b []byte, payload string) []byte {
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, leafNames[10]...)
	return append(b, payload...)
}

func appendUsual(b []byte, n int64) []byte {
	return strconv.AppendInt(append(b, `,"usual":`...), n, 10)
}

// appendRow appends what is hashed of a row that the writer stores: the same bytes as
// appendStored finds in the file.
func appendRow(b []byte, r *Row, s *stored, id int64) []byte {
	b = appendNumber(b, 0, id)
	b = appendNumber(b, 1, r.At)
	b = appendNumber(b, 2, int64(r.Event))
	if s.msg != 0 {
		b = appendNumber(b, 3, s.msg)
	}
	if _, ok := smallNumber(s.rpcID); ok {
		b = append(append(b, leafNames[4]...), s.rpcID...)
	} else if s.rpcID != "" {
		b = appendText(b, 4, s.rpcID)
	}
	for i, text := range [...]string{s.actor, s.topic, s.messageID} {
		if text != "" {
			b = appendText(b, 5+i, text)
		}
	}
	if s.status != "" || s.emptyStatus { // the empty one is stored, too
		b = appendText(b, 8, s.status)
	}
	if r.Error != "" {
		b = appendText(b, 9, r.Error)
	}
	switch {
	case s.usual >= 0:
		b = appendUsual(b, s.usual)
	case len(r.Payload) > 0:
		b = appendPayload(b, borrow(r.Payload))
	}
	return append(b, "}\n"...)
}

// appendStored appends what is hashed of a row that a file has: one of leafColumns.
func appendStored(b []byte, s *sqlite.Stmt) []byte {
	for column := range leafNames {
		switch kind := s.ColumnType(column); {
		case kind == sqlite.TypeNull:
			if column == 0 {
				b = append(b, '{') // no row has it
			}
		case kind == sqlite.TypeInteger && column == 10:
			b = appendUsual(b, s.ColumnInt64(column))
		case kind == sqlite.TypeInteger:
			b = appendNumber(b, column, s.ColumnInt64(column))
		case kind == sqlite.TypeText && column == 10:
			b = appendPayload(b, s.ColumnText(column))
		case kind == sqlite.TypeText:
			b = appendText(b, column, s.ColumnText(column))
		case kind == sqlite.TypeFloat:
			b = append(b, leafNames[column]...)
			b = appendHex(b, "real", string(binary.BigEndian.AppendUint64(nil,
				math.Float64bits(s.ColumnFloat(column)))))
		default:
			blob := make([]byte, s.ColumnLen(column))
			s.ColumnBytes(column, blob)
			b = append(b, leafNames[column]...)
			b = appendHex(b, "blob", string(blob))
		}
	}
	return append(b, "}\n"...)
}

// leafOf returns the hash of an entry that stands behind one byte of room.
func leafOf(entry []byte) tlog.Hash {
	entry[0] = 0 // RFC 6962: what tells a leaf from a node
	return sha256.Sum256(entry)
}

// markSize is the size of a row's mark.
const markSize = 2

// markOf is what a commit keeps of each row beside the leaves: it names the one row of an
// entry that is not what it was. It proves nothing.
func markOf(row []byte) uint16 { return uint16(crc32.Checksum(row, castagnoli)) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A leafBuilder makes the leaves of a commit, in buffers that it keeps for the next one.
type leafBuilder struct {
	commit int64    // counts
	stored []stored // of each row
	next   []int32  // of each row, the next one of its leaf; 0 if there is none
	first  []int32  // of each leaf, its first row
	last   []int32
	buf    []byte
	marks  []byte
	hashes []byte
}

// begin forgets the commit before.
func (l *leafBuilder) begin() {
	l.commit++
	clear(l.stored) // it holds the rows' strings
	l.stored, l.next, l.first, l.last = l.stored[:0], l.next[:0], l.first[:0], l.last[:0]
}

// store decides what is kept of the commit's next rows, of which the first has an id in a file.
func (l *leafBuilder) store(rows []Row, id, file int64) []stored {
	from := len(l.stored)
	for i := range rows {
		l.stored = append(l.stored, rows[i].stored(id+int64(i), file))
		l.join(&rows[i], id+int64(i))
	}
	return l.stored[from:]
}

// join puts the last row that was stored into the leaf of the row that it points to.
func (l *leafBuilder) join(r *Row, id int64) {
	i, of := len(l.stored)-1, r.Of
	pointing := l.stored[i].msg != 0
	l.next = append(l.next, 0)
	if pointing && of.commit == l.commit {
		l.next[l.last[of.leaf]] = int32(i)
		l.last[of.leaf] = int32(i)
		return
	}
	if of != nil && (pointing || of.first == id) {
		of.commit, of.leaf = l.commit, int32(len(l.first))
	}
	l.first, l.last = append(l.first, int32(i)), append(l.last, int32(i))
}

// leaves adds the leaves of the commit's rows, of which the first has an id, to a tree.
func (l *leafBuilder) leaves(rows []Row, id int64, t *tree) {
	l.marks, l.hashes = append(l.marks[:0], make([]byte, markSize*len(rows))...), l.hashes[:0]
	for _, at := range l.first {
		l.buf = append(l.buf[:0], 0)
		for more := true; more; more = at > 0 {
			from := len(l.buf)
			l.buf = appendRow(l.buf, &rows[at], &l.stored[at], id+int64(at))
			binary.BigEndian.PutUint16(l.marks[markSize*at:], markOf(l.buf[from:]))
			at = l.next[at]
		}
		h := leafOf(l.buf)
		l.hashes = append(l.hashes, h[:]...)
		t.add(h)
	}
	if cap(l.buf) > keptEntry {
		l.buf = nil
	}
}

// keptEntry is how many bytes are kept for the next entry.
const keptEntry = 1 << 20

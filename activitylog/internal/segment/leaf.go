package segment

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

// LeafColumns are the columns of the table event in the order in which they are hashed.
//
// An entry of the Merkle tree, a leaf, is what one commit stored of one message: a row and the
// rows that refer to it, or the rows that refer to the same row of an earlier commit. So the
// proof of a message reveals no other message. Each row is a JSON object without NULL columns:
//
//	{"id":17,"at":1764000000000000,"kind":1,"rpc_id":3,"actor":"agent:a","topic":"tg:1",
//	 "message_id":"m","status":"...","error":"...","bytes":14,"payload":{"type":"..."}}
//
// "usual" replaces a payload that is stored as a number. The length of the payload comes before
// it, so that no payload can imitate the bytes of other rows.
const LeafColumns = "id, at, kind, msg, rpc_id, actor, topic, message_id, status, error, payload"

// LeafNames are the beginnings of the members for these columns.
var LeafNames = [...]string{
	`{"id":`, `,"at":`, `,"kind":`, `,"msg":`, `,"rpc_id":`, `,"actor":`, `,"topic":`, `,"message_id":`, `,"status":`,
	`,"error":`, `,"payload":`,
}

// AppendText appends a text column.
func AppendText(b []byte, column int, s string) []byte {
	b = append(b, LeafNames[column]...)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			return appendQuoted(b, s)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// appendQuoted appends a text with special characters. A text that is not UTF-8 is written in
// hexadecimal digits, so that different texts have different bytes.
func appendQuoted(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		return appendHex(b, "text", s)
	}
	quoted, _ := json.Marshal(s) // a string can always be encoded
	return append(b, quoted...)
}

func appendHex(b []byte, kind, s string) []byte {
	b = append(b, `{"`+kind+`":"`...)
	b = hex.AppendEncode(b, []byte(s))
	return append(b, `"}`...)
}

// AppendNumber appends a column of numbers.
func AppendNumber(b []byte, column int, n int64) []byte {
	return strconv.AppendInt(append(b, LeafNames[column]...), n, 10)
}

// AppendPayload appends the length of a payload and the payload.
func AppendPayload(b []byte, payload string) []byte {
	b = append(b, `,"bytes":`...)
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, LeafNames[10]...)
	return append(b, payload...)
}

// AppendUsual appends the number of a usual payload.
func AppendUsual(b []byte, n int64) []byte {
	return strconv.AppendInt(append(b, `,"usual":`...), n, 10)
}

// AppendStored appends the bytes to be hashed for a stored row, selected with LeafColumns.
func AppendStored(b []byte, s *sqlite.Stmt) []byte {
	for column := range LeafNames {
		switch kind := s.ColumnType(column); {
		case kind == sqlite.TypeNull:
			if column == 0 {
				b = append(b, '{') // the id is never NULL
			}
		case kind == sqlite.TypeInteger && column == 10:
			b = AppendUsual(b, s.ColumnInt64(column))
		case kind == sqlite.TypeInteger:
			b = AppendNumber(b, column, s.ColumnInt64(column))
		case kind == sqlite.TypeText && column == 10:
			b = AppendPayload(b, s.ColumnText(column))
		case kind == sqlite.TypeText:
			b = AppendText(b, column, s.ColumnText(column))
		case kind == sqlite.TypeFloat:
			b = append(b, LeafNames[column]...)
			b = appendHex(b, "real", string(binary.BigEndian.AppendUint64(nil,
				math.Float64bits(s.ColumnFloat(column)))))
		default:
			b = append(b, LeafNames[column]...)
			b = appendHex(b, "blob", string(Blob(s, column)))
		}
	}
	return append(b, "}\n"...)
}

// LeafHash returns the hash of an entry, which must begin with one free byte.
func LeafHash(entry []byte) tlog.Hash {
	entry[0] = 0 // the prefix of a leaf in RFC 6962
	return sha256.Sum256(entry)
}

// MarkSize is the size of a mark, in bytes.
const MarkSize = 2

// Mark returns the checksum that a commit keeps for each row. If an entry does not match its
// leaf, the marks show which row was changed. They prove nothing.
func Mark(row []byte) uint16 { return uint16(crc32.Checksum(row, crc32.MakeTable(crc32.Castagnoli))) }

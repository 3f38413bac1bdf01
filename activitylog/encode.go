package activitylog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"unsafe"

	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
)

// insertRows are how many rows one statement inserts: they share the cost of a
// statement, and more than 64 gain nothing. The last is 1.
var insertRows = [...]int{64, 8, 1}

// columns are those of the table event, but for the id, which follows from the row
// before.
const columns = "at, kind, msg, rpc_id, actor, topic, message_id, payload, status, error"

// textColumns is how many of them, the last ones, are text or NULL most of the time.
const (
	numberColumns = 3
	textColumns   = 7
	rowColumns    = numberColumns + textColumns
)

// An insert is a prepared INSERT of a fixed number of rows.
type insert struct {
	stmt  *sqlite.Stmt
	rows  int
	bound []string // what the text columns are bound to; "" is NULL
}

func prepareInsert(conn *sqlite.Conn, rows int) (insert, error) {
	// A row that cannot be inserted ends the whole transaction: SQLite then needs
	// no journal for the statement alone.
	row := "(?" + strings.Repeat(",?", rowColumns-1) + ")"
	stmt, err := conn.Prepare("INSERT OR ROLLBACK INTO event (" + columns + ") VALUES " +
		strings.Repeat(row+",", rows-1) + row)
	if err != nil {
		return insert{}, err
	}
	return insert{stmt: stmt, rows: rows, bound: make([]string, rows*textColumns)}, nil
}

// run inserts rows as they are stored.
func (in *insert) run(rows []Row, as []stored) error {
	for i := range rows {
		in.bind(i, &rows[i], &as[i])
	}
	if _, err := in.stmt.Step(); err != nil {
		return err
	}
	return in.stmt.Reset()
}

// bind sets the parameters of one row. SQLite copies what it is given.
func (in *insert) bind(at int, r *Row, s *stored) {
	p, t := at*rowColumns+1, at*textColumns
	in.stmt.BindInt64(p, r.At)
	in.stmt.BindInt64(p+1, int64(r.Event))
	if s.msg != 0 {
		in.stmt.BindInt64(p+2, s.msg)
	} else {
		in.stmt.BindNull(p + 2)
	}
	p += numberColumns
	if n, ok := smallNumber(s.rpcID); ok {
		in.stmt.BindInt64(p, n)
		in.bound[t] = notText
	} else {
		in.text(p, t, s.rpcID)
	}
	in.text(p+1, t+1, s.actor)
	in.text(p+2, t+2, s.topic)
	in.text(p+3, t+3, s.messageID)
	if s.usual >= 0 {
		in.stmt.BindInt64(p+4, s.usual)
		in.bound[t+4] = notText
	} else {
		in.text(p+4, t+4, borrow(r.Payload))
		if len(r.Payload) > 0 {
			in.bound[t+4] = notText // the payload is the caller's
		}
	}
	if s.emptyStatus {
		in.stmt.BindText(p+5, "")
		in.bound[t+5] = notText
	} else {
		in.text(p+5, t+5, s.status)
	}
	in.text(p+6, t+6, r.Error)
}

// notText stands for a parameter that is bound to something else.
const notText = "\x00 not text"

// text binds a string, or NULL for an empty one. A value that the previous row had at
// this place is still bound: most are the same.
func (in *insert) text(param, at int, s string) {
	if s == in.bound[at] {
		return
	}
	in.bound[at] = s
	if s == "" {
		in.stmt.BindNull(param)
	} else {
		in.stmt.BindText(param, s)
	}
}

// borrow returns bytes as a string that is valid for one bind.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// stored is what the table keeps of a row; schema.sql says how a view completes it.
type stored struct {
	msg                            int64 // id of the row that said the rest; 0 if this row says all
	rpcID, actor, topic, messageID string
	status                         string
	emptyStatus                    bool
	usual                          int64 // number of a usual payload; -1 for another
}

// stored decides what is kept of a row with an id in a file. The first row of a sending
// in a file says all, and the sending remembers it.
func (r *Row) stored(id, file int64) stored {
	s := stored{rpcID: r.RPCID, actor: r.Actor, topic: r.Topic, messageID: r.MessageID, status: r.Status,
		usual: r.usualPayload()}
	if usual := r.usualStatus(s.usual); usual != "" && r.Status == usual {
		s.status = ""
	} else if r.Status == "" && usual != "" {
		s.emptyStatus = true
	}
	of := r.Of
	if of == nil || r.MessageID == "" {
		return s
	}
	pointing := of.file == file && of.first < id && r.Event != SendStart
	switch {
	case !pointing:
		of.file, of.first, of.begun = file, id, r.Event == SendStart
	case r.Event == ProcessStart, r.Event == ProcessFinish:
		if r.Actor == "" {
			return s
		}
		s.msg, s.messageID, s.topic = of.first, "", ""
		if r.Actor == r.Topic {
			s.actor = ""
		}
	case r.Event == SendFinish:
		if !of.begun && (r.Actor == "" || r.RPCID == "") {
			return s
		}
		s.msg, s.messageID, s.topic = of.first, "", ""
		if of.begun {
			s.actor, s.rpcID = "", ""
		}
	}
	return s
}

// usualStatus is the status that a view derives where none is stored; empty if none is.
func (r *Row) usualStatus(payload int64) string {
	switch r.Event {
	case SendStart, ProcessStart:
		return StatusStart
	case ProcessFinish:
		return StatusOK
	case SendFinish:
		switch {
		case payload < 0:
			return ""
		case payload < 4:
			return StatusNoSubscriber
		}
		return StatusOK
	}
	return ""
}

var usualResult = []byte(`{"processed":true}`)

// The usual result of a sendMessage: what stands around the message's id and the number
// of peers, and what may follow, by number.
const (
	acceptedHead = `{"accepted":true,"messageId":"`
	acceptedMid  = `","deliveredTo":`
)

var acceptedTails = [...]string{
	`}`,
	`,"addressee":"` + string(protocol.AddresseeOK) + `"}`,
	`,"addressee":"` + string(protocol.AddresseeFailed) + `"}`,
	`,"addressee":"` + string(protocol.AddresseeAbsent) + `"}`,
}

// usualPayload returns the number that stands for a usual payload; -1 for another one.
func (r *Row) usualPayload() int64 {
	switch {
	case r.Event == ProcessFinish && bytes.Equal(r.Payload, usualResult):
		return 1
	case r.Event != SendFinish:
		return -1
	}
	rest, ok := strings.CutPrefix(borrow(r.Payload), acceptedHead)
	if ok {
		rest, ok = strings.CutPrefix(rest, r.MessageID)
	}
	if ok {
		rest, ok = strings.CutPrefix(rest, acceptedMid)
	}
	if !ok || r.MessageID == "" {
		return -1
	}
	digits := 0
	for digits < len(rest) && rest[digits] >= '0' && rest[digits] <= '9' {
		digits++
	}
	n, ok := smallNumber(rest[:digits])
	tail := slices.Index(acceptedTails[:], rest[digits:])
	if !ok || tail < 0 {
		return -1
	}
	return n<<2 | int64(tail)
}

// smallNumber reads a number that is written back as it was.
func smallNumber(s string) (n int64, ok bool) {
	if s == "" || len(s) > 15 || s[0] == '0' && len(s) > 1 {
		return 0, false
	}
	for i := range len(s) {
		digit := s[i] - '0'
		if digit > 9 {
			return 0, false
		}
		n = 10*n + int64(digit)
	}
	return n, true
}

// hashOf is what a batch keeps of a message id: FNV-1a.
func hashOf(messageID string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(messageID) {
		h = (h ^ uint64(messageID[i])) * 1099511628211
	}
	return cmp.Or(h, 1)
}

// hash returns the hash of the row's message id; false if it has none.
func (r *Row) hash() (uint64, bool) {
	switch {
	case r.MessageID == "":
		return 0, false
	case r.Of == nil:
		return hashOf(r.MessageID), true
	case r.Of.hash == 0:
		r.Of.hash = hashOf(r.MessageID)
	}
	return r.Of.hash, true
}

// A summary is what a commit tells of its rows: their times, and the hashes of their
// message ids.
type summary struct {
	since, until int64
	hashes       []uint64
	subjects     []byte // which rows may have subjects; see addSubjects
}

// summarize makes the summary of at least one row, in the memory of an earlier one. The
// message ids are those of some of the rows.
func (s *summary) summarize(rows []Row, of []int32) {
	s.since, s.until, s.hashes, s.subjects = rows[0].At, rows[0].At, s.hashes[:0], s.subjects[:0]
	for i := range rows {
		r := &rows[i]
		s.since, s.until = min(s.since, r.At), max(s.until, r.At)
		if r.Event == SendStart && mayHaveSubjects(r.Topic, r.Payload) {
			s.subjects = binary.BigEndian.AppendUint16(s.subjects, uint16(i))
		}
	}
	for _, i := range of {
		if h, ok := rows[i].hash(); ok {
			s.hashes = append(s.hashes, h)
		}
	}
	slices.Sort(s.hashes)
	s.hashes = slices.Compact(s.hashes)
}

// blob returns the hashes as a batch stores them.
func (s *summary) blob() []byte {
	b := make([]byte, 0, 8*len(s.hashes))
	for _, h := range s.hashes {
		b = binary.BigEndian.AppendUint64(b, h)
	}
	return b
}

package write

import (
	"bytes"
	"slices"
	"strings"
	"unsafe"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol"

	"zombiezen.com/go/sqlite"
)

// insertRows are the numbers of rows that one statement inserts. Rows share the cost of a
// statement; more than 64 gain nothing. The last number is 1.
var insertRows = [...]int{64, 8, 1}

// columns are the columns of the table event without the id, which SQLite assigns.
const columns = "at, kind, msg, rpc_id, actor, topic, message_id, payload, status, error"

const (
	numberColumns = 3 // the first columns
	textColumns   = 7 // the last ones, which usually hold text or NULL
	rowColumns    = numberColumns + textColumns
)

// An insert is a prepared INSERT of a fixed number of rows.
type insert struct {
	stmt  *sqlite.Stmt
	rows  int
	bound []string // values of the text columns; "" is NULL
}

func prepareInsert(conn *sqlite.Conn, rows int) (insert, error) {
	// A row that cannot be inserted rolls back the whole transaction, so SQLite needs no journal
	// for the statement.
	row := "(?" + strings.Repeat(",?", rowColumns-1) + ")"
	stmt, err := conn.Prepare("INSERT OR ROLLBACK INTO event (" + columns + ") VALUES " +
		strings.Repeat(row+",", rows-1) + row)
	if err != nil {
		return insert{}, err
	}
	return insert{stmt: stmt, rows: rows, bound: make([]string, rows*textColumns)}, nil
}

// run inserts rows in their stored form.
func (in *insert) run(rows []activitylog.Row, as []stored) error {
	for i := range rows {
		in.bind(i, &rows[i], &as[i])
	}
	if _, err := in.stmt.Step(); err != nil {
		return err
	}
	return in.stmt.Reset()
}

// bind sets the parameters of one row. SQLite copies them.
func (in *insert) bind(at int, r *activitylog.Row, s *stored) {
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
			in.bound[t+4] = notText // the payload belongs to the caller
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

// notText marks a parameter that is not bound to a text in bound.
const notText = "\x00 not text"

// text binds a string, or NULL for an empty one, unless the statement already has that value.
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

// stored is a row as the table stores it; the view in schema.sql completes it.
type stored struct {
	msg                            int64 // id of the row with the shared values; 0 if this row has all of them
	rpcID, actor, topic, messageID string
	status                         string
	emptyStatus                    bool
	usual                          int64 // number of a usual payload, or -1
}

// encode returns the stored form of the row with that id in a file. The first row of a Sending in
// a file has all values, and encode notes it in the Sending.
func encode(r *activitylog.Row, id, file int64) stored {
	s := stored{rpcID: r.RPCID, actor: r.Actor, topic: r.Topic, messageID: r.MessageID, status: r.Status,
		usual: usualPayload(r)}
	if usual := usualStatus(r, s.usual); usual != "" && r.Status == usual {
		s.status = ""
	} else if r.Status == "" && usual != "" {
		s.emptyStatus = true
	}
	of := r.Of
	if of == nil || r.MessageID == "" {
		return s
	}
	pointing := of.File == file && of.First < id && r.Event != activitylog.SendStart
	switch {
	case !pointing:
		of.File, of.First, of.Begun = file, id, r.Event == activitylog.SendStart
	case r.Event == activitylog.ProcessStart, r.Event == activitylog.ProcessFinish:
		if r.Actor == "" {
			return s
		}
		s.msg, s.messageID, s.topic = of.First, "", ""
		if r.Actor == r.Topic {
			s.actor = ""
		}
	case r.Event == activitylog.SendFinish:
		if !of.Begun && (r.Actor == "" || r.RPCID == "") {
			return s
		}
		s.msg, s.messageID, s.topic = of.First, "", ""
		if of.Begun {
			s.actor, s.rpcID = "", ""
		}
	}
	return s
}

// usualStatus returns the status that the view derives if none is stored, or "".
func usualStatus(r *activitylog.Row, payload int64) string {
	switch r.Event {
	case activitylog.SendStart, activitylog.ProcessStart:
		return activitylog.StatusStart
	case activitylog.ProcessFinish:
		return activitylog.StatusOK
	case activitylog.SendFinish:
		switch {
		case payload < 0:
			return ""
		case payload < 4:
			return activitylog.StatusNoSubscriber
		}
		return activitylog.StatusOK
	}
	return ""
}

var usualResult = []byte(`{"processed":true}`)

// The parts of the usual result of a sendMessage: the text around the message id, and the
// possible ends by number.
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

// usualPayload returns the number of a usual payload, or -1.
func usualPayload(r *activitylog.Row) int64 {
	switch {
	case r.Event == activitylog.ProcessFinish && bytes.Equal(r.Payload, usualResult):
		return 1
	case r.Event != activitylog.SendFinish:
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

// smallNumber parses a number that formatting restores exactly.
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

// messageHash returns the hash of the row's message id. It returns false if it has none.
func messageHash(r *activitylog.Row) (uint64, bool) {
	switch {
	case r.MessageID == "":
		return 0, false
	case r.Of == nil:
		return segment.HashOf(r.MessageID), true
	case r.Of.Hash == 0:
		r.Of.Hash = segment.HashOf(r.MessageID)
	}
	return r.Of.Hash, true
}

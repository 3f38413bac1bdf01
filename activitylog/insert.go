package activitylog

import (
	"fmt"
	"strings"
	"unsafe"

	"zombiezen.com/go/sqlite"
)

// insertRows are how many rows one statement inserts: they share the cost of a
// statement, and more than 64 gain nothing. The last is 1.
var insertRows = [...]int{64, 8, 1}

// The parameters of one row; `bus` is one more parameter for all rows.
const (
	columnTS = iota
	columnEvent
	columnMessageID
	columnRPCID
	columnActor
	columnTopic
	columnStatus
	columnPayload
	columnError
	rowColumns
)

// An insert is a prepared INSERT of a fixed number of rows.
type insert struct {
	stmt *sqlite.Stmt
	rows int
	last []string // what parameters are bound to; "" is NULL
	time *timestamper
}

func prepareInsert(conn *sqlite.Conn, rows int, bus string) (insert, error) {
	// A row that cannot be inserted ends the whole transaction: SQLite then needs
	// no journal for the statement alone.
	var sql strings.Builder
	sql.WriteString("INSERT OR ROLLBACK INTO activity_log (ts, event, message_id, rpc_id, actor, topic, status, payload_json, error, bus) VALUES ")
	for r := range rows {
		if r > 0 {
			sql.WriteByte(',')
		}
		sql.WriteByte('(')
		for c := range rowColumns {
			fmt.Fprintf(&sql, "?%d,", r*rowColumns+c+1)
		}
		fmt.Fprintf(&sql, "?%d)", rows*rowColumns+1)
	}
	stmt, err := conn.Prepare(sql.String())
	if err != nil {
		return insert{}, err
	}
	if bus != "" {
		stmt.BindText(rows*rowColumns+1, bus)
	}
	return insert{stmt: stmt, rows: rows, last: make([]string, rows*rowColumns), time: &timestamper{}}, nil
}

func (in *insert) run(rows []Row) error {
	for i := range rows {
		in.bind(i*rowColumns, &rows[i])
	}
	if _, err := in.stmt.Step(); err != nil {
		return err
	}
	return in.stmt.Reset()
}

// bind sets the parameters of one row. SQLite copies what it is given.
func (in *insert) bind(at int, r *Row) {
	in.stmt.BindText(at+columnTS+1, borrow(in.time.format(r.At)))
	in.text(at+columnEvent, r.Event.String())
	in.stmt.BindText(at+columnMessageID+1, r.MessageID)
	in.text(at+columnRPCID, r.RPCID)
	in.text(at+columnActor, r.Actor)
	in.text(at+columnTopic, r.Topic)
	in.text(at+columnStatus, r.Status)
	if len(r.Payload) > 0 {
		in.stmt.BindText(at+columnPayload+1, borrow(r.Payload))
	} else {
		in.stmt.BindNull(at + columnPayload + 1)
	}
	in.text(at+columnError, r.Error)
}

// text binds a string, or NULL for an empty one. A value that the
// previous row had at this place is still bound: most are the same.
func (in *insert) text(at int, s string) {
	if s == in.last[at] {
		return
	}
	in.last[at] = s
	if s == "" {
		in.stmt.BindNull(at + 1)
	} else {
		in.stmt.BindText(at+1, s)
	}
}

// borrow returns bytes as a string that is valid for one bind.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

package activitylog

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"zombiezen.com/go/sqlite"
)

// insertRows are how many rows one statement inserts: they share the cost of a
// statement, and more than 64 gain nothing. The last is 1.
var insertRows = [...]int{64, 8, 1}

// rowColumns is how many parameters one row has; `bus` is one more, the first, for all
// rows.
const rowColumns = 9

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
	const row = "(?1,?,?,?,?,?,?,?,?,?)"
	sql := "INSERT OR ROLLBACK INTO activity_log (bus, event, rpc_id, actor, topic, status, error, ts, message_id, payload_json) VALUES " +
		strings.Repeat(row+",", rows-1) + row
	stmt, err := conn.Prepare(sql)
	if err != nil {
		return insert{}, err
	}
	if bus != "" {
		stmt.BindText(1, bus)
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
	for i, s := range [...]string{r.Event.String(), r.RPCID, r.Actor, r.Topic, r.Status, r.Error} {
		in.text(at+i, s)
	}
	in.stmt.BindText(at+8, borrow(in.time.format(r.At)))
	in.stmt.BindText(at+9, r.MessageID)
	if len(r.Payload) > 0 {
		in.stmt.BindText(at+10, borrow(r.Payload))
	} else {
		in.stmt.BindNull(at + 10)
	}
}

// text binds a string, or NULL for an empty one. A value that the
// previous row had at this place is still bound: most are the same.
func (in *insert) text(at int, s string) {
	if s == in.last[at] {
		return
	}
	in.last[at] = s
	if s == "" {
		in.stmt.BindNull(at + 2)
	} else {
		in.stmt.BindText(at+2, s)
	}
}

// borrow returns bytes as a string that is valid for one bind.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// timestampLayout is RFC 3339 in UTC with exactly six digits of the second.
const timestampLayout = "2006-01-02T15:04:05.000000Z"

// A timestamper renders unix microseconds as the column `ts` holds them. It
// keeps the part down to the second, because rows come in order of time. It is
// not safe for concurrent use.
type timestamper struct {
	second int64
	text   [len(timestampLayout)]byte
}

// format returns the text, valid until the next call.
func (t *timestamper) format(micros int64) []byte {
	second, rest := micros/1e6, micros%1e6
	if rest < 0 {
		second, rest = second-1, rest+1e6
	}
	if second != t.second || t.text[0] == 0 {
		t.second = second
		copy(t.text[:], time.Unix(second, 0).UTC().AppendFormat(nil, timestampLayout))
	}
	for i := len(t.text) - 2; i > len(t.text)-8; i-- {
		t.text[i] = byte('0' + rest%10)
		rest /= 10
	}
	return t.text[:]
}

// ParseTime reads a time of the column `ts`, or any RFC 3339 time.
func ParseTime(ts string) (time.Time, error) { return time.Parse(time.RFC3339Nano, ts) }

// ParseSpan reads a duration, such as 15m; one in days, such as 30d or 0.5d, is
// neither negative nor as long as a century.
func ParseSpan(text string) (time.Duration, error) {
	days, ok := strings.CutSuffix(text, "d")
	if !ok {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseFloat(days, 64)
	if err != nil || !(n >= 0 && n < 36500) { // NaN is neither
		return 0, fmt.Errorf("no number of days: %q", text)
	}
	return time.Duration(n * float64(24*time.Hour)), nil
}

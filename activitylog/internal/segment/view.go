package segment

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"hubbub/activitylog"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A View is a read-only connection to a file of a log, for one goroutine at a time. Without a
// connection, it returns no rows.
type View struct {
	Conn      *sqlite.Conn
	File      *File
	info      os.FileInfo
	Frozen    bool // it does not see later writes
	Lookup    bool // the file is sealed and has the table lookup
	About     bool // the file has the table about
	Spanned   bool // the file has the table span
	known     Span // result of the last call of Span
	Envelopes map[string]Envelope
	batches   []Batch // of the active segment, read so far
	time      timestamper
	Err       error // the first error; later reads return nothing
}

// A Batch is a row of the table batch: one commit.
type Batch struct {
	Window
	since, until int64
	Hashes       []byte
}

// A Span is the range of the ids and of the times, in microseconds, of a file's rows. The times
// may not follow the order of the ids, because a clock may be set back.
type Span struct {
	First, Last  int64
	Since, Until int64
}

// An Interval is a half-open range of times in microseconds. It also contains rows with ids in
// Beside, whatever their times are.
type Interval struct {
	Since, Until int64
	Beside       Window
}

// All reports whether i contains all times.
func (i Interval) All() bool { return i.Since == math.MinInt64 && i.Until == math.MaxInt64 }

// Overlaps reports whether i may contain rows of a file with that span.
func (i Interval) Overlaps(s Span) bool {
	return s.Last > 0 && (s.Until >= i.Since && s.Since < i.Until || s.Last >= i.Beside.Low && s.First <= i.Beside.High)
}

type atomicSpan = atomic.Pointer[Span]

// Fail records an error if there is none yet.
func (v *View) Fail(err error) {
	if v.Err == nil {
		v.Err = err
	}
}

// An Envelope is the type and the sender of a message, from its send_start row.
type Envelope struct{ Type, From string }

// opening is held shared while a file is opened, and exclusively while one is renamed. SQLite
// opens a file first, and then its write-ahead log and the index of that log by their names. If
// another file took the name in between, the connection would share and repair the index of the
// other file. SQLite's locks do not prevent that within one process.
var opening sync.RWMutex

// TryRename calls f, which renames a file and creates another in its place, and returns f's
// error. If this process is opening a file, TryRename returns false without calling f.
func TryRename(f func() error) (called bool, err error) {
	if !opening.TryLock() {
		return false, nil
	}
	defer opening.Unlock()
	return true, f()
}

// Open opens a file for reading. If SQLite cannot create its files beside it, in a read-only
// folder or on a full disk, Open reads the file without them: no other process can be writing it.
func Open(path string) (*View, error) {
	opening.RLock()
	defer opening.RUnlock()
	v, err := connectView(path, "")
	switch sqlite.ErrCode(err).ToPrimary() {
	case sqlite.ResultCantOpen, sqlite.ResultReadOnly, sqlite.ResultIOErr:
		parameters := ""
		switch info, walErr := os.Stat(path + "-wal"); {
		case errors.Is(walErr, fs.ErrNotExist), walErr == nil && info.Size() == 0:
			parameters = "?immutable=1"
		case walErr == nil && isMissing(path+"-shm"): // a copy
			parameters = unlocked
		}
		if parameters != "" {
			if v, err = connectView(path, parameters); err == nil {
				v.Frozen = true
			}
		}
	}
	return v, err
}

// unlocked is the URI parameter for reading a database and its write-ahead log without the -shm
// file. SQLite then keeps the index of the write-ahead log in memory.
const unlocked = "?vfs=unix-none"

func connectView(path, parameters string) (*View, error) {
	conn, err := sqlite.OpenConn(fileURI(path)+parameters, sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		return nil, err
	}
	Failpoint("opened")
	conn.SetBusyTimeout(BusyTimeout)
	v := &View{Conn: conn, Envelopes: map[string]Envelope{}}
	if parameters == unlocked {
		v.Query("PRAGMA locking_mode=EXCLUSIVE", nil, NoRow)
	}
	if err := v.inspect(path); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	conn.SetBusyTimeout(readTimeout)
	return v, nil
}

// inspect checks the version of the file and finds its tables. A database without our tables was
// just created, or belongs to another program.
func (v *View) inspect(path string) error {
	names := map[string]bool{}
	v.Query("SELECT name FROM sqlite_master", nil, func(s *sqlite.Stmt) bool {
		names[s.ColumnText(0)] = true
		return true
	})
	switch {
	case v.Err != nil:
		return v.Err
	case len(names) == 0:
		return fmt.Errorf("%w yet: the database is empty", activitylog.ErrNoLog)
	case !names["activity_log"]:
		return errors.New("it has no table activity_log: does it belong to another program?")
	}
	if err := CheckVersion(v.Conn, path); err != nil {
		return err
	}
	v.Lookup, v.About, v.Spanned = names["lookup"], names["about"], names["span"]
	return nil
}

// errStop ends a query early.
var errStop = errors.New("enough")

// Query runs a statement, which the connection keeps prepared. It calls row for each row until
// row returns false or v has an error. The read transaction ends with the query.
func (v *View) Query(sql string, args []any, row func(*sqlite.Stmt) (more bool)) {
	if v.Err != nil || v.Conn == nil {
		return
	}
	err := sqlitex.Execute(v.Conn, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
		if !row(s) || v.Err != nil {
			return errStop
		}
		return nil
	}})
	if err != nil && !errors.Is(err, errStop) {
		v.Fail(err)
	}
}

// Int64 returns the single number that a query returns. It returns false if the number is NULL or
// v has an error.
func (v *View) Int64(sql string, args ...any) (n int64, ok bool) {
	v.Query(sql, args, func(s *sqlite.Stmt) bool {
		n, ok = s.ColumnInt64(0), s.ColumnType(0) != sqlite.TypeNull
		return false
	})
	return n, ok
}

// LastRun returns the last run in the file and the first row of the run. It returns false if the
// file has none.
func (v *View) LastRun() (place Run, first int64, ok bool) {
	v.Query("SELECT first, segment, log, bus FROM run ORDER BY first DESC LIMIT 1", nil, func(s *sqlite.Stmt) bool {
		place, first, ok = Run{s.ColumnInt(1), s.ColumnText(2), s.ColumnText(3)}, s.ColumnInt64(0), true
		return false
	})
	return place, first, ok
}

// LastID returns the id of the last row, or 0.
func (v *View) LastID() int64 {
	last, _ := v.Int64("SELECT max(id) FROM event")
	return last
}

// Rows returns the number of rows.
func (v *View) Rows() int64 {
	n, _ := v.Int64("SELECT count(*) FROM event")
	return n
}

// Span returns the span of the file. It reads only commits added since the last call, or the
// table span of a sealed file.
func (v *View) Span() Span {
	from := "batch WHERE first > ?"
	if v.Spanned {
		from = "span WHERE first > ?"
	}
	v.Query("SELECT min(first), max(last), min(since), max(until) FROM "+from, []any{v.known.Last},
		func(stmt *sqlite.Stmt) bool {
			added := Span{stmt.ColumnInt64(0), stmt.ColumnInt64(1), stmt.ColumnInt64(2), stmt.ColumnInt64(3)}
			switch {
			case added.Last == 0:
			case v.known.Last == 0:
				v.known = added
			default:
				v.known.Last = added.Last
				v.known.Since, v.known.Until = min(v.known.Since, added.Since), max(v.known.Until, added.Until)
			}
			return false
		})
	return v.known
}

// addSpan creates the table span of a sealed file.
func addSpan(_ context.Context, conn *sqlite.Conn) error {
	return sqlitex.ExecuteTransient(conn, "CREATE TABLE span AS SELECT min(first) AS first, max(last) AS last, "+
		"min(since) AS since, max(until) AS until FROM batch HAVING count(*) > 0", nil)
}

// CommitsWithin narrows w to the commits that may have rows in an interval. It begins with the
// first commit in direction dir, and ends within reach ids. The result is empty if there is none.
func (v *View) CommitsWithin(w Window, times Interval, dir Direction, reach int64) (found Window) {
	const commits = "first BETWEEN (SELECT coalesce(max(first), 0) FROM batch WHERE first <= ?) AND ?" +
		" AND last >= ? AND (until >= ? AND since < ? OR last >= ? AND first <= ?)"
	found = Window{1, 0}
	within := func(columns, order string) {
		args := []any{w.Low, w.High, w.Low, times.Since, times.Until, times.Beside.Low, times.Beside.High}
		v.Query("SELECT "+columns+" FROM batch WHERE "+commits+order, args, func(s *sqlite.Stmt) bool {
			if s.ColumnType(0) != sqlite.TypeNull {
				found = Window{max(w.Low, s.ColumnInt64(0)), min(w.High, s.ColumnInt64(1))}
			}
			return false
		})
	}
	if dir == Backward {
		within("first, last", " ORDER BY first DESC LIMIT 1")
		w = Window{max(w.Low, found.High-reach+1), found.High}
	} else {
		within("first, last", " ORDER BY first LIMIT 1")
		w = Window{found.Low, min(w.High, found.Low+reach-1)}
	}
	if found.Low <= found.High {
		within("min(first), max(last)", "")
	}
	return found
}

// RowsOf calls row for each row of a message, at most limit, in order. The statement begins with
// sel, and has the additional condition where.
func (v *View) RowsOf(messageID string, sel, where string, limit int, row func(*sqlite.Stmt) bool) {
	more := true
	for _, c := range v.commitsOf(binary.BigEndian.AppendUint64(nil, HashOf(messageID))) {
		if limit > 0 && more {
			v.Query(sel+" WHERE id BETWEEN ? AND ? AND message_id = ?"+where+" ORDER BY id LIMIT ?",
				[]any{c.Low, c.High, messageID, limit}, func(s *sqlite.Stmt) bool {
					limit--
					more = row(s)
					return more
				})
		}
	}
}

// Has reports whether the batch has rows with this hash of their message ids.
func (b *Batch) Has(hash []byte) bool {
	low, high := 0, len(b.Hashes)/8
	for low < high {
		middle := (low + high) / 2
		switch c := slices.Compare(b.Hashes[8*middle:8*middle+8], hash); {
		case c == 0:
			return true
		case c < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return false
}

// readBatches reads the batches that were added since the last call.
func (v *View) readBatches() {
	after := int64(0)
	if n := len(v.batches); n > 0 {
		after = v.batches[n-1].High
	}
	v.eachBatch(after, func(b *Batch) { v.batches = append(v.batches, *b) })
}

// eachBatch calls do for each batch after a row, in order.
func (v *View) eachBatch(after int64, do func(*Batch)) {
	v.Query("SELECT first, last, since, until, hashes FROM batch WHERE first > ? ORDER BY first", []any{after},
		func(s *sqlite.Stmt) bool {
			do(&Batch{Window{s.ColumnInt64(0), s.ColumnInt64(1)}, s.ColumnInt64(2), s.ColumnInt64(3), Blob(s, 4)})
			return true
		})
}

// StartOf returns the envelope of a message from its send_start row in this file. That row is
// msg, unless msg is 0.
func (v *View) StartOf(messageID string, msg int64) (h Envelope) {
	if msg > 0 {
		v.Query("SELECT payload FROM event WHERE id = ? AND kind = 1", []any{msg}, func(s *sqlite.Stmt) bool {
			h = EnvelopeOf([]byte(s.ColumnText(0)))
			return false
		})
		if h != (Envelope{}) {
			return h
		}
	}
	sel, and := "SELECT payload FROM event", " AND kind = 1"
	v.RowsOf(messageID, sel, and, 1, func(s *sqlite.Stmt) bool {
		h = EnvelopeOf([]byte(s.ColumnText(0)))
		return false
	})
	return h
}

// SelectEntries returns the beginning of a statement for entries.
func (v *View) SelectEntries() string {
	return "SELECT id, kind, message_id, at, rpc_id, actor, topic, status, payload_json, error, bus, msg FROM activity"
}

// SelectStarts is like SelectEntries for send_start rows, which refer to no other row.
func (v *View) SelectStarts() string {
	return `SELECT id, kind, coalesce(message_id, '') AS message_id, at, CAST(rpc_id AS TEXT), actor, topic, coalesce(nullif(status, ''), 'start') AS status,
		payload AS payload_json, error, (SELECT bus FROM run WHERE first <= event.id ORDER BY first DESC LIMIT 1), 0 FROM event`
}

// EventOf returns the event in a row of [View.SelectEntries].
func (v *View) EventOf(s *sqlite.Stmt) string {
	return activitylog.Event(s.ColumnInt(1)).String()
}

// TimeOf returns the time in a row of [View.SelectEntries].
func (v *View) TimeOf(s *sqlite.Stmt) string {
	return string(v.time.format(s.ColumnInt64(3)))
}

// MaxEnvelopes bounds the envelopes that a connection remembers.
const MaxEnvelopes = 50_000

// Remember keeps the envelope of a message.
func (v *View) Remember(messageID string, h Envelope) {
	if len(v.Envelopes) >= MaxEnvelopes {
		clear(v.Envelopes)
	}
	v.Envelopes[messageID] = h
}

func isMissing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// A Direction is the order in which rows are read.
type Direction bool

// The directions in which rows are read.
const (
	Forward  Direction = false
	Backward Direction = true
)

// A Window is a range of ids, both ends included.
type Window struct{ Low, High int64 }

// AnyTime contains all rows.
var AnyTime = Interval{math.MinInt64, math.MaxInt64, Window{1, 0}}

// EnvelopeOf returns the envelope in a payload. It is empty for a payload that is not a message.
func EnvelopeOf(payload []byte) (h Envelope) {
	_ = json.Unmarshal(payload, &h) // other payloads have no type
	return h
}

package activitylog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"sync/atomic"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// A view is one connection to a file of a log that only reads. One goroutine at a time
// uses it. Without a connection it gives nothing.
type view struct {
	conn      *sqlite.Conn
	file      *file
	info      os.FileInfo
	frozen    bool // it sees nothing that is written later
	lookup    bool // it is sealed and has the table lookup
	about     bool // and the table about
	spanned   bool // and the table span
	known     span // of the rows that were there at the last look
	envelopes map[string]envelope
	batches   []batch // of the live file, as far as they were read
	time      timestamper
	err       error // the first; reads after it give nothing
}

// A batch describes a commit of a file.
type batch struct {
	window
	since, until int64
	hashes       []byte
}

// A span is the range of the ids and of the times, in microseconds, of a file's rows. The times
// need not be in the order of the ids: a clock may be put back.
type span struct {
	first, last  int64
	since, until int64
}

// An interval is a range of times in microseconds, without its end. Rows with ids in beside are
// chosen whatever their times are.
type interval struct {
	since, until int64
	beside       window
}

func (i interval) all() bool { return i.since == math.MinInt64 && i.until == math.MaxInt64 }

// meet reports whether a file may have rows that are chosen.
func (i interval) meet(s span) bool {
	return s.last > 0 && (s.until >= i.since && s.since < i.until || s.last >= i.beside.low && s.first <= i.beside.high)
}

type atomicSpan = atomic.Pointer[span]

// fail remembers an error, if it is the first.
func (v *view) fail(err error) {
	if v.err == nil {
		v.err = err
	}
}

// An envelope is the part of a message that its send_start row has.
type envelope struct{ Type, From string }

// openView opens a file for reading. If SQLite cannot create its files beside it, in a
// read-only folder or on a full disk, it is read as it is: nobody can be writing it.
func openView(path string) (*view, error) {
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
				v.frozen = true
			}
		}
	}
	return v, err
}

// unlocked reads a database and its write-ahead log without the -shm file: the index of the
// write-ahead log is kept in memory.
const unlocked = "?vfs=unix-none"

func connectView(path, parameters string) (*view, error) {
	conn, err := sqlite.OpenConn(fileURI(path)+parameters, sqlite.OpenReadOnly|sqlite.OpenURI)
	if err != nil {
		return nil, err
	}
	conn.SetBusyTimeout(busyTimeout)
	v := &view{conn: conn, envelopes: map[string]envelope{}}
	if parameters == unlocked {
		v.query("PRAGMA locking_mode=EXCLUSIVE", nil, noRow)
	}
	if err := v.inspect(path); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	conn.SetBusyTimeout(readTimeout)
	return v, nil
}

// inspect finds out what the file is. A database without our tables is one that is just being
// created, or one of something else. Our tables come all at once, so that those looked for
// first tell which.
func (v *view) inspect(path string) error {
	names := map[string]bool{}
	v.query("SELECT name FROM sqlite_master", nil, func(s *sqlite.Stmt) bool {
		names[s.ColumnText(0)] = true
		return true
	})
	switch {
	case v.err != nil:
		return v.err
	case len(names) == 0:
		return fmt.Errorf("%w yet: the database is empty", ErrNoLog)
	case !names["activity_log"]:
		return errors.New("it has no table activity_log: is it the database of something else?")
	}
	if err := checkVersion(v.conn, path); err != nil {
		return err
	}
	v.lookup, v.about, v.spanned = names["lookup"], names["about"], names["span"]
	return nil
}

// errStop ends a reading early.
var errStop = errors.New("enough")

// query runs a statement, which the connection keeps prepared, and calls row for
// each row of its result until that returns false or v has failed. The read transaction
// ends with it.
func (v *view) query(sql string, args []any, row func(*sqlite.Stmt) (more bool)) {
	if v.err != nil || v.conn == nil {
		return
	}
	err := sqlitex.Execute(v.conn, sql, &sqlitex.ExecOptions{Args: args, ResultFunc: func(s *sqlite.Stmt) error {
		if !row(s) || v.err != nil {
			return errStop
		}
		return nil
	}})
	if err != nil && !errors.Is(err, errStop) {
		v.fail(err)
	}
}

// int64 returns the single number that a query gives; false if it is NULL or v has
// failed.
func (v *view) int64(sql string, args ...any) (n int64, ok bool) {
	v.query(sql, args, func(s *sqlite.Stmt) bool {
		n, ok = s.ColumnInt64(0), s.ColumnType(0) != sqlite.TypeNull
		return false
	})
	return n, ok
}

// lastRun returns where the file stands in its log, from which id on; false if it does not
// say.
func (v *view) lastRun() (place run, first int64, ok bool) {
	v.query("SELECT first, segment, log, bus FROM run ORDER BY first DESC LIMIT 1", nil, func(s *sqlite.Stmt) bool {
		place, first, ok = run{s.ColumnInt(1), s.ColumnText(2), s.ColumnText(3)}, s.ColumnInt64(0), true
		return false
	})
	return place, first, ok
}

func (v *view) lastID() int64 {
	last, _ := v.int64("SELECT max(id) FROM event")
	return last
}

func (v *view) rows() int64 {
	n, _ := v.int64("SELECT count(*) FROM event")
	return n
}

// span returns the span of the file. It reads the commits that were added since the last call,
// or the table span of a sealed file.
func (v *view) span() span {
	from := "batch WHERE first > ?"
	if v.spanned {
		from = "span WHERE first > ?"
	}
	v.query("SELECT min(first), max(last), min(since), max(until) FROM "+from, []any{v.known.last},
		func(stmt *sqlite.Stmt) bool {
			added := span{stmt.ColumnInt64(0), stmt.ColumnInt64(1), stmt.ColumnInt64(2), stmt.ColumnInt64(3)}
			switch {
			case added.last == 0:
			case v.known.last == 0:
				v.known = added
			default:
				v.known.last = added.last
				v.known.since, v.known.until = min(v.known.since, added.since), max(v.known.until, added.until)
			}
			return false
		})
	return v.known
}

// addSpan makes the table span of a sealed file.
func addSpan(_ context.Context, conn *sqlite.Conn) error {
	return sqlitex.ExecuteTransient(conn, "CREATE TABLE span AS SELECT min(first) AS first, max(last) AS last, "+
		"min(since) AS since, max(until) AS until FROM batch HAVING count(*) > 0", nil)
}

// commitsWithin narrows w to the commits that may have rows of some times: from the first of
// them, in direction dir, to the last one within reach ids. The result is empty if w has none.
func (v *view) commitsWithin(w window, times interval, dir direction, reach int64) (found window) {
	const commits = "first BETWEEN (SELECT coalesce(max(first), 0) FROM batch WHERE first <= ?) AND ?" +
		" AND last >= ? AND (until >= ? AND since < ? OR last >= ? AND first <= ?)"
	found = window{1, 0}
	within := func(columns, order string) {
		args := []any{w.low, w.high, w.low, times.since, times.until, times.beside.low, times.beside.high}
		v.query("SELECT "+columns+" FROM batch WHERE "+commits+order, args, func(s *sqlite.Stmt) bool {
			if s.ColumnType(0) != sqlite.TypeNull {
				found = window{max(w.low, s.ColumnInt64(0)), min(w.high, s.ColumnInt64(1))}
			}
			return false
		})
	}
	if dir == backward {
		within("first, last", " ORDER BY first DESC LIMIT 1")
		w = window{max(w.low, found.high-reach+1), found.high}
	} else {
		within("first, last", " ORDER BY first LIMIT 1")
		w = window{found.low, min(w.high, found.low+reach-1)}
	}
	if found.low <= found.high {
		within("min(first), max(last)", "")
	}
	return found
}

// rowsOf calls row with the rows of a message that fulfil a condition, in order: what a
// statement that begins with sel gives.
func (v *view) rowsOf(messageID string, sel, and string, limit int, row func(*sqlite.Stmt) bool) {
	more := true
	for _, c := range v.commitsOf(binary.BigEndian.AppendUint64(nil, hashOf(messageID))) {
		if limit > 0 && more {
			v.query(sel+" WHERE id BETWEEN ? AND ? AND message_id = ?"+and+" ORDER BY id LIMIT ?",
				[]any{c.low, c.high, messageID, limit}, func(s *sqlite.Stmt) bool {
					limit--
					more = row(s)
					return more
				})
		}
	}
}

// has reports whether a batch may have rows of a message.
func (b *batch) has(hash []byte) bool {
	low, high := 0, len(b.hashes)/8
	for low < high {
		middle := (low + high) / 2
		switch c := slices.Compare(b.hashes[8*middle:8*middle+8], hash); {
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

// readBatches reads the batches that were added since the last time.
func (v *view) readBatches() {
	after := int64(0)
	if n := len(v.batches); n > 0 {
		after = v.batches[n-1].high
	}
	v.eachBatch(after, func(b *batch) { v.batches = append(v.batches, *b) })
}

// eachBatch calls do with the batches after a row, in order.
func (v *view) eachBatch(after int64, do func(*batch)) {
	v.query("SELECT first, last, since, until, hashes FROM batch WHERE first > ? ORDER BY first", []any{after},
		func(s *sqlite.Stmt) bool {
			b := batch{window{s.ColumnInt64(0), s.ColumnInt64(1)}, s.ColumnInt64(2), s.ColumnInt64(3),
				make([]byte, s.ColumnLen(4))}
			s.ColumnBytes(4, b.hashes)
			do(&b)
			return true
		})
}

// startOf returns the head of a message from its send_start row in this file, which a row
// may name.
func (v *view) startOf(messageID string, msg int64) (h envelope) {
	if msg > 0 {
		v.query("SELECT payload FROM event WHERE id = ? AND kind = 1", []any{msg}, func(s *sqlite.Stmt) bool {
			h = envelopeOf([]byte(s.ColumnText(0)))
			return false
		})
		if h != (envelope{}) {
			return h
		}
	}
	sel, and := "SELECT payload FROM event", " AND kind = 1"
	v.rowsOf(messageID, sel, and, 1, func(s *sqlite.Stmt) bool {
		h = envelopeOf([]byte(s.ColumnText(0)))
		return false
	})
	return h
}

// selectEntries begins a statement whose rows entry reads.
func (v *view) selectEntries() string {
	return "SELECT id, kind, message_id, at, rpc_id, actor, topic, status, payload_json, error, bus, msg FROM activity"
}

// selectStarts begins a statement for send_start rows alone, which say all of theirs.
func (v *view) selectStarts() string {
	return `SELECT id, kind, coalesce(message_id, '') AS message_id, at, CAST(rpc_id AS TEXT), actor, topic, coalesce(nullif(status, ''), 'start') AS status,
		payload AS payload_json, error, (SELECT bus FROM run WHERE first <= event.id ORDER BY first DESC LIMIT 1), 0 FROM event`
}

func (v *view) eventOf(s *sqlite.Stmt) string {
	return Event(s.ColumnInt(1)).String()
}

func (v *view) timeOf(s *sqlite.Stmt) string {
	return string(v.time.format(s.ColumnInt64(3)))
}

func (v *view) remember(messageID string, h envelope) {
	if len(v.envelopes) >= maxEnvelopes {
		clear(v.envelopes)
	}
	v.envelopes[messageID] = h
}

func isMissing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

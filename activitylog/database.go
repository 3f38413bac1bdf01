package activitylog

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

//go:embed schema.sql
var schema string

// busyTimeout is how long one attempt waits for somebody else's lock. It is
// short, so that the writer notices the end of its context.
const busyTimeout = 100 * time.Millisecond

const (
	// walTarget is the size of the write-ahead log from which the writer asks
	// readers to make way for a checkpoint.
	walTarget = 32 << 20
	// checkpointEvery limits how often it asks.
	checkpointEvery = time.Second
)

// database is the sink on SQLite: one connection, WAL, synchronous=FULL.
type database struct {
	path   string
	conn   *sqlite.Conn
	many   insert // insertRows rows at once
	one    insert
	maxWAL int64
	wal    int64
	asked  time.Time // when readers were last asked to make way
	file   os.FileInfo
	looked time.Time // when the file was last seen to be ours
}

// openDatabase opens or creates the log at path, for its owner only.
func openDatabase(path, bus string, maxWAL int64) (sink, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("creating the folder of the activity log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the activity log: %w (is the data folder writable?)", err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("opening the activity log: %w", err)
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, fmt.Errorf("opening the activity log %s: %w", path, err)
	}
	d := &database{path: path, conn: conn, maxWAL: maxWAL}
	if err := d.prepare(bus); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the activity log %s: %w", path, err), conn.Close())
	}
	return d, nil
}

func (d *database) prepare(bus string) error {
	d.conn.SetBusyTimeout(busyTimeout)
	for _, pragma := range []string{
		"PRAGMA journal_mode=WAL",
		"PRAGMA synchronous=FULL",
		fmt.Sprintf("PRAGMA journal_size_limit=%d", walTarget),
		"PRAGMA temp_store=MEMORY",
	} {
		if err := sqlitex.ExecuteTransient(d.conn, pragma, nil); err != nil {
			return err
		}
	}
	if err := d.createSchema(); err != nil {
		return err
	}
	var err error
	if d.many, err = prepareInsert(d.conn, insertRows, bus); err != nil {
		return err
	}
	if d.one, err = prepareInsert(d.conn, 1, bus); err != nil {
		return err
	}
	d.file, err = os.Stat(d.path)
	d.looked = time.Now()
	return err
}

// createSchema creates what is missing, also the column `bus` in a log that was
// made without it.
func (d *database) createSchema() (err error) {
	end, err := sqlitex.ImmediateTransaction(d.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	if err := sqlitex.ExecuteScript(d.conn, schema, nil); err != nil {
		return err
	}
	columns, err := columnsOf(d.conn)
	if err != nil || columns["bus"] {
		return err
	}
	return sqlitex.ExecuteTransient(d.conn, "ALTER TABLE activity_log ADD COLUMN bus TEXT", nil)
}

func columnsOf(conn *sqlite.Conn) (map[string]bool, error) {
	columns := map[string]bool{}
	err := sqlitex.ExecuteTransient(conn, "SELECT name FROM pragma_table_info('activity_log')", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			columns[s.ColumnText(0)] = true
			return nil
		},
	})
	return columns, err
}

// write implements sink.
func (d *database) write(rows []Row) (first int64, err error) {
	if err := d.checkFile(); err != nil {
		return 0, err
	}
	if err := d.boundWAL(); err != nil {
		return 0, err
	}
	if err := d.insertAll(rows); err != nil {
		return 0, err
	}
	first = d.conn.LastInsertRowID() - int64(len(rows)) + 1
	if info, err := os.Stat(d.path + "-wal"); err == nil {
		d.wal = info.Size()
	}
	return first, nil
}

func (d *database) insertAll(rows []Row) (err error) {
	end, err := sqlitex.ImmediateTransaction(d.conn)
	if err != nil {
		return fmt.Errorf("writing the activity log: %w", err)
	}
	defer func() {
		end(&err)
		if err != nil {
			err = fmt.Errorf("writing the activity log: %w", err)
		}
	}()
	for len(rows) >= insertRows {
		if err := d.many.run(rows[:insertRows]); err != nil {
			return err
		}
		rows = rows[insertRows:]
	}
	for i := range rows {
		if err := d.one.run(rows[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// checkFile notices, within a second, that the file was moved or deleted:
// SQLite would go on writing where nobody looks.
func (d *database) checkFile() error {
	if time.Since(d.looked) < time.Second {
		return nil
	}
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(info, d.file):
		return fmt.Errorf("the activity log %s was moved or deleted; it is created anew", d.path)
	case err != nil:
		return fmt.Errorf("looking at the activity log: %w", err)
	}
	d.looked = time.Now()
	return nil
}

// boundWAL restarts a write-ahead log that has grown because readers kept their
// transactions open, and refuses to grow it beyond its bound.
func (d *database) boundWAL() error {
	if d.wal < walTarget || (d.wal < d.maxWAL && time.Since(d.asked) < checkpointEvery) {
		return nil
	}
	d.asked = time.Now()
	if err := sqlitex.ExecuteTransient(d.conn, "PRAGMA wal_checkpoint(TRUNCATE)", nil); err != nil && !isBusy(err) {
		return fmt.Errorf("checkpointing the activity log: %w", err)
	}
	info, err := os.Stat(d.path + "-wal")
	if err != nil {
		return fmt.Errorf("looking at the write-ahead log: %w", err)
	}
	d.wal = info.Size()
	if d.wal >= d.maxWAL {
		return fmt.Errorf("a reader keeps a transaction open on %s and its write-ahead log has reached %d bytes: end that reader", d.path, d.wal)
	}
	return nil
}

func (d *database) walBytes() int64 { return d.wal }

func (d *database) close() error { return d.conn.Close() }

// isBusy reports whether the database was locked by somebody else.
func isBusy(err error) bool { return sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy }

// insertRows is how many rows one statement inserts: the cost of a statement is
// shared, and more brings nothing.
const insertRows = 32

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
	set  []bool // parameters that are not NULL
	time *timestamper
}

func prepareInsert(conn *sqlite.Conn, rows int, bus string) (insert, error) {
	var sql strings.Builder
	sql.WriteString("INSERT INTO activity_log (ts, event, message_id, rpc_id, actor, topic, status, payload_json, error, bus) VALUES ")
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
	return insert{stmt: stmt, set: make([]bool, rows*rowColumns+1), time: &timestamper{}}, nil
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
	in.stmt.BindText(at+columnEvent+1, r.Event.String())
	in.stmt.BindText(at+columnMessageID+1, r.MessageID)
	in.text(at+columnRPCID, r.RPCID)
	in.text(at+columnActor, r.Actor)
	in.text(at+columnTopic, r.Topic)
	in.text(at+columnStatus, r.Status)
	in.text(at+columnPayload, borrow(r.Payload))
	in.text(at+columnError, r.Error)
}

// text binds a string, or NULL for an empty one.
func (in *insert) text(at int, s string) {
	switch {
	case s != "":
		in.stmt.BindText(at+1, s)
		in.set[at] = true
	case in.set[at]:
		in.stmt.BindNull(at + 1)
		in.set[at] = false
	}
}

// borrow views bytes as a string for the time of one bind.
func borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

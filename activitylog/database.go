package activitylog

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

//go:embed schema.sql
var schema string

// busyTimeout is how long one attempt waits for somebody else's lock. It is
// short, so that the writer notices the end of its context.
const busyTimeout = 100 * time.Millisecond

// pageSize is that of new logs; an older one keeps its own. SQLite's usual 4 KiB
// cost a seventh more processor time, since more pages fill up, are split and
// are written. Larger ones cost a log with little to write more than they gain
// here: every commit writes each page that it touches.
const pageSize = 8 << 10

// database is the sink on SQLite: one connection, WAL, synchronous=FULL.
type database struct {
	path       string
	conn       *sqlite.Conn
	inserts    [len(insertRows)]insert
	maxWAL     int64
	wal        int64
	asked      time.Time             // when a checkpoint in the background began last
	background chan checkpointResult // of the running one; nil if there is none
	commit     time.Duration         // how long the last one took

	file os.FileInfo // of the log when it was opened

	checkpoint func(path string) checkpointResult // backgroundCheckpoint; tests replace it
}

// openDatabase opens or creates the log at path, for its owner only.
func openDatabase(path, bus string, maxWAL int64) (sink, error) {
	if err := datafolder.MakeAll(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("creating the folder of the activity log: %w", err)
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("creating the activity log: %w (is the data folder writable?)", err)
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil, fmt.Errorf("opening the activity log %s: %w", path, err)
	}
	d := &database{path: path, conn: conn, maxWAL: maxWAL, checkpoint: backgroundCheckpoint}
	if err := d.prepare(bus); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the activity log %s: %w", path, err), conn.Close())
	}
	return d, nil
}

// create makes an empty file, unless there is one: another program could take the log
// for unused if this process dropped the locks that its readers hold on it.
func create(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		if err := putAside(path); err != nil {
			return err
		}
	}
	return datafolder.Create(path)
}

// putAside makes room for a new log. A -shm and a -wal file beside a missing log belong
// to one that was moved or deleted while it was read: SQLite would share the first with
// those readers and delete the second. The write-ahead log may hold rows that the moved
// file lacks, so it is kept under another name.
func putAside(path string) error {
	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := os.Lstat(path + "-wal")
	if err != nil || info.Size() == 0 { // SQLite takes an empty one away
		return nil
	}
	return datafolder.Rename(path+"-wal", path+"-wal."+time.Now().UTC().Format("20060102T150405.000000"))
}

func (d *database) prepare(bus string) error {
	d.conn.SetBusyTimeout(busyTimeout)
	for _, pragma := range []string{
		fmt.Sprintf("PRAGMA page_size=%d", pageSize),
		"PRAGMA journal_mode=WAL",
		"PRAGMA synchronous=FULL",
		"PRAGMA temp_store=MEMORY",
	} {
		if err := sqlitex.ExecuteTransient(d.conn, pragma, nil); err != nil {
			return err
		}
	}
	if err := d.cutTo(d.walTarget()); err != nil {
		return err
	}
	if err := d.migrate(); err != nil {
		return err
	}
	var err error
	for i, rows := range insertRows {
		if d.inserts[i], err = prepareInsert(d.conn, rows, bus); err != nil {
			return err
		}
	}
	d.measureWAL()
	d.file, err = os.Stat(d.path)
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
	if err != nil {
		return err
	}
	if !columns["bus"] {
		if err := sqlitex.ExecuteTransient(d.conn, "ALTER TABLE activity_log ADD COLUMN bus TEXT", nil); err != nil {
			return err
		}
	}
	return sqlitex.ExecuteTransient(d.conn, fmt.Sprintf("PRAGMA user_version = %d", schemaVersion), nil)
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
func (d *database) write(rows []Row) (first int64, n int, err error) {
	if err := d.checkFile(); err != nil {
		return 0, 0, err
	}
	if err := d.boundWAL(); err != nil {
		return 0, 0, err
	}
	if n, err = d.insertAll(rows); err != nil {
		return 0, 0, fmt.Errorf("writing the activity log: %w", err)
	}
	d.measureWAL()
	return d.conn.LastInsertRowID() - int64(n) + 1, n, nil
}

// insertAll inserts rows in one transaction until it has taken long enough.
func (d *database) insertAll(rows []Row) (n int, err error) {
	began := time.Now()
	end, err := sqlitex.ImmediateTransaction(d.conn)
	if err != nil {
		return 0, err
	}
	defer func() {
		from := time.Now()
		end(&err)
		d.commit = time.Since(from)
	}()
	for n < len(rows) && (n == 0 || time.Since(began) < insertTime(d.commit)) {
		in := d.insertFor(len(rows) - n)
		if err := in.run(rows[n : n+in.rows]); err != nil {
			return 0, err
		}
		n += in.rows
	}
	return n, nil
}

// insertFor returns the largest insert of at most so many rows.
func (d *database) insertFor(rows int) *insert {
	i := 0
	for d.inserts[i].rows > rows {
		i++
	}
	return &d.inserts[i]
}

func (d *database) walBytes() int64 { return d.wal }

// ending leaves the checkpoint to close: on a slow disk, a checkpoint takes as long as
// two commits. If the pragma fails, so will the writes, which report it.
func (d *database) ending() { _ = d.checkpointAfter(0) }

// close moves the write-ahead log into the database first, so that the file is complete
// without it. If a reader prevents that, the write-ahead log stays and nothing is lost.
func (d *database) close() error {
	if d.background != nil {
		<-d.background // the goroutine ends with it
	}
	err := sqlitex.ExecuteTransient(d.conn, "PRAGMA wal_checkpoint(TRUNCATE)", nil)
	if isBusy(err) {
		err = nil
	}
	return errors.Join(err, d.conn.Close())
}

// isBusy reports whether the database was locked by somebody else.
func isBusy(err error) bool { return sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy }

// transactionTime is how long one transaction may go on inserting: on a slow
// machine a commit still comes before the writer counts as stalled.
const transactionTime = 50 * time.Millisecond

// maxTransactionTime bounds how long one goes on where the disk is slow.
const maxTransactionTime = 2 * time.Second

// insertTime is how long a transaction may go on inserting: as long as the last commit
// took, so that a slow disk writes large transactions.
func insertTime(commit time.Duration) time.Duration {
	return min(max(transactionTime, commit), maxTransactionTime)
}

// A sink stores rows. The writing goroutine alone uses it, so that another
// engine can take the place of this one.
type sink interface {
	// write stores the first n of rows in one durable transaction, or none of
	// them and an error. It stores all that it can within insertTime, at
	// least one. The first gets the id first; the others follow without a hole.
	write(rows []Row) (first int64, n int, err error)
	// walBytes is the size of the write-ahead log after the last write.
	walBytes() int64
	// ending announces close: writes may leave work to it.
	ending()
	close() error
}

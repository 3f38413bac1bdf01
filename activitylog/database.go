package activitylog

import (
	"cmp"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

//go:embed schema.sql
var schema string

// busyTimeout is how long one attempt waits for a lock of another connection. It is short, so
// that the writer notices the end of its context.
const busyTimeout = 100 * time.Millisecond

// pageSize is the page size of new files. SQLite's default of 4 KiB costs a seventh more CPU
// time, since more pages fill up, split and are written. Larger pages cost an idle log more than
// they save here: every commit writes each page that it touches.
const pageSize = 8 << 10

// database is the sink on SQLite: one connection to the active segment, in WAL mode.
//
// A commit writes to the write-ahead log without waiting for the disk. sync waits for it, in
// another goroutine, while the next rows are inserted.
type database struct {
	path string
	opts *Options
	activeSegment
	checkpointing
	shrink time.Duration // how much shorter than transactionTime a transaction is

	mu     sync.Mutex // guards synced
	synced *os.File   // the write-ahead log, for sync; nil before its first commit

	treeHeads
}

// activeSegment is the state of the file that takes new rows.
type activeSegment struct {
	conn    *sqlite.Conn
	inserts [len(insertRows)]insert
	batch   *sqlite.Stmt
	pages   *sqlite.Stmt
	info    os.FileInfo // of the file when it was opened

	file        int64 // identifies the file in Sendings
	run         run   // its position in the log
	next        int64 // id of the next row
	rows        int64
	firstRowAt  int64         // time of its first row
	prepared    bool          // a checkpoint has prepared it for rotation
	lastAttempt time.Time     // of a rotation that readers prevented
	readerWait  time.Duration // how long the next attempt waits for readers
	summary     summary
	merkleLog
}

// A run says which bus writes to which segment of which log, from a row on.
type run struct {
	segment int
	log     string
	bus     string
}

// files counts the files that this process has opened.
var files atomic.Int64

// openDatabase opens or creates the log at path. Only the owner of the file can read it.
func openDatabase(path string, opts *Options) (sink, error) {
	folder := filepath.Dir(path)
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		if err := datafolder.MkdirAll(folder); err != nil {
			return nil, fmt.Errorf("creating the folder of the activity log: %w", err)
		}
	}
	if err := create(path); err != nil {
		return nil, fmt.Errorf("creating the activity log: %w (is the data folder writable?)", err)
	}
	d := &database{path: path, opts: opts}
	d.checkpoint = func(path string) error { return backgroundCheckpoint(path, d.beginStep) }
	if err := d.openActive(nil); err != nil {
		return nil, err
	}
	return d, nil
}

// openActive opens the active segment. Its ids continue after those of the segment before it, if
// that is given.
func (d *database) openActive(before *activeSegment) error {
	conn, err := sqlite.OpenConn(d.path, sqlite.OpenReadWrite)
	if err != nil {
		return fmt.Errorf("opening the activity log %s: %w", d.path, err)
	}
	d.activeSegment = activeSegment{conn: conn, file: files.Add(1)}
	if before != nil {
		d.run, d.next = before.run, before.next
		d.run.segment++
	}
	if err := d.prepare(before); err != nil {
		return errors.Join(fmt.Errorf("preparing the activity log %s: %w", d.path, err), conn.Close())
	}
	return nil
}

func (d *database) prepare(before *activeSegment) error {
	d.conn.SetBusyTimeout(busyTimeout)
	if err := checkVersion(d.conn, d.path); err != nil {
		return err
	}
	if err := makeFile(d.conn); err != nil {
		return err
	}
	d.beginStep(3)
	if err := d.startWAL(); err != nil {
		return err
	}
	for _, pragma := range []string{"PRAGMA temp_store=MEMORY", "PRAGMA wal_autocheckpoint=0",
		fmt.Sprintf("PRAGMA journal_size_limit=%d", usualWAL)} {
		if err := sqlitex.ExecuteTransient(d.conn, pragma, nil); err != nil {
			return err
		}
	}
	if err := d.findPosition(); err != nil {
		return err
	}
	if err := d.openMerkleLog(before); err != nil {
		return err
	}
	d.beginStep(1)
	// The folder now names the write-ahead log, and also a new file and a new key. From here on,
	// a commit is durable once sync has run; checkpoints run beside it.
	err := errors.Join(datafolder.SyncFolder(filepath.Dir(d.path)),
		sqlitex.ExecuteTransient(d.conn, "PRAGMA synchronous=NORMAL", nil))
	if err != nil {
		return err
	}
	for i, rows := range insertRows {
		if d.inserts[i], err = prepareInsert(d.conn, rows); err != nil {
			return err
		}
	}
	if d.batch, err = d.conn.Prepare("INSERT INTO batch (first, last, since, until, hashes, leaves, marks, subjects) " +
		"VALUES (?, ?, ?, ?, ?, ?, ?, ?)"); err != nil {
		return err
	}
	if d.pages, err = d.conn.Prepare("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"); err != nil {
		return err
	}
	d.measureWAL()
	d.info, err = os.Stat(d.path)
	return err
}

// startWAL turns off syncs until the log is open: the first sync covers what is written until
// then. With an existing write-ahead log they stay on, since SQLite must sync the header when it
// restarts that log.
func (d *database) startWAL() error {
	level := "OFF"
	if info, err := os.Stat(d.path + "-wal"); err == nil && info.Size() > 0 {
		level = "NORMAL"
	}
	return sqlitex.ExecuteTransient(d.conn, "PRAGMA synchronous="+level, nil)
}

// findPosition finds the segment number and the next id of the active segment. They continue
// after those of the last sealed file.
func (d *database) findPosition() error {
	v := &view{conn: d.conn}
	place, first, ok := v.lastRun()
	last, _ := v.int64("SELECT max(id) FROM event")
	d.rows, _ = v.int64("SELECT coalesce(sum(last - first + 1), 0) FROM batch")
	d.firstRowAt, _ = v.int64("SELECT min(since) FROM batch")
	if v.err != nil {
		return v.err
	}
	switch {
	case ok:
		d.run, d.next = place, max(first, last+1)
	case d.next == 0:
		var err error
		if d.run, d.next, err = positionAfter(d.path); err != nil {
			return err
		}
	}
	if ok && place.bus == d.opts.Bus {
		return nil
	}
	d.run.bus = d.opts.Bus
	return d.beginRun()
}

// positionAfter returns the position of a new active segment: after the last sealed file.
func positionAfter(path string) (place run, next int64, err error) {
	numbers, err := segmentNumbers(path)
	if err != nil || len(numbers) == 0 {
		return run{segment: 1, log: rand.Text()}, 1, err
	}
	n := numbers[len(numbers)-1]
	v, err := openView(segmentPath(path, n))
	if err != nil {
		return place, 0, fmt.Errorf("looking for the last row of %s: %w", segmentPath(path, n), err)
	}
	place, first, _ := v.lastRun()
	last := v.lastID()
	place.segment, place.log = n+1, cmp.Or(place.log, rand.Text())
	return place, max(first, last+1), errors.Join(v.err, v.conn.Close())
}

// write implements sink.
func (d *database) write(rows []Row) (first int64, n int, err error) {
	if err := d.checkFile(); err != nil {
		return 0, 0, err
	}
	if err := d.boundWAL(); err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if n, err = d.insertAll(rows); err != nil {
		return 0, 0, fmt.Errorf("writing the activity log: %w", err)
	}
	d.adaptTransaction(time.Since(began))
	first = d.next
	if d.rows == 0 || rows[0].At < d.firstRowAt { // the clock may have been wrong
		d.firstRowAt = rows[0].At
	}
	d.next, d.rows = d.next+int64(n), d.rows+int64(n)
	d.advance()
	d.measureWAL()
	return first, n, nil
}

// insertAll inserts rows in one transaction, for at most transactionTime.
func (d *database) insertAll(rows []Row) (n int, err error) {
	began := time.Now()
	end, err := sqlitex.ImmediateTransaction(d.conn)
	if err != nil {
		return 0, err
	}
	defer end(&err)
	d.begin()
	if d.rows == 0 {
		if err := d.insertFirst(&rows[0]); err != nil {
			return 0, err
		}
		n = 1
	}
	for n < len(rows) && (n == 0 || time.Since(began) < transactionTime-d.shrink) {
		in := d.insertFor(len(rows) - n)
		if err := in.run(rows[n:n+in.rows], d.store(rows[n:n+in.rows], d.next+int64(n), d.file)); err != nil {
			return 0, err
		}
		n += in.rows
	}
	failpoint("rows stored")
	return n, d.summarize(rows[:n])
}

// insertFirst inserts the first row of a file. SQLite numbers the other rows after it.
func (d *database) insertFirst(r *Row) error {
	if err := d.insertFor(1).run([]Row{*r}, d.store([]Row{*r}, d.next, d.file)); err != nil {
		return err
	}
	return sqlitex.Execute(d.conn, "UPDATE event SET id = ?", &sqlitex.ExecOptions{Args: []any{d.next}})
}

// beginRun stores which bus writes the following rows.
func (d *database) beginRun() error {
	bus := any(d.run.bus)
	if bus == "" {
		bus = nil
	}
	return sqlitex.Execute(d.conn, "INSERT OR REPLACE INTO run (first, segment, log, bus) VALUES (?, ?, ?, ?)",
		&sqlitex.ExecOptions{Args: []any{d.next, d.run.segment, d.run.log, bus}})
}

// summarize completes a commit. All of its rows and their ids, from d.next on, are known here.
// The summary and the leaves of the tree are part of the commit.
func (d *database) summarize(rows []Row) error {
	s := &d.summary
	s.summarize(rows, d.first)
	for i, n := range [...]int64{d.next, d.next + int64(len(rows)) - 1, s.since, s.until} {
		d.batch.BindInt64(i+1, n)
	}
	d.addLeaves(rows)
	d.batch.BindBytes(5, s.blob())
	d.batch.BindBytes(6, d.hashes)
	d.batch.BindBytes(7, d.marks)
	d.batch.BindBytes(8, s.subjects)
	if _, err := d.batch.Step(); err != nil {
		return err
	}
	err := errors.Join(d.batch.Reset(), d.signDurable())
	failpoint("leaves stored")
	return err
}

// insertFor returns the largest insert statement for at most so many rows.
func (d *database) insertFor(rows int) *insert {
	i := 0
	for d.inserts[i].rows > rows {
		i++
	}
	return &d.inserts[i]
}

// transactionTime is how long one transaction may insert. On a slow machine a commit still comes
// before the writer counts as stalled.
const transactionTime = 50 * time.Millisecond

// adaptTransaction shortens transactions while they take too long.
func (d *database) adaptTransaction(took time.Duration) {
	if took > 2*transactionTime {
		d.shrink = (d.shrink + transactionTime) / 2
	} else {
		d.shrink /= 2
	}
}

// sync implements sink.
func (d *database) sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.synced == nil {
		f, err := os.OpenFile(d.path+"-wal", os.O_RDWR, 0)
		if err != nil {
			return fmt.Errorf("syncing the activity log: %w", err)
		}
		d.synced = f
	}
	head := d.committed.Load()
	if err := d.synced.Sync(); err != nil {
		return fmt.Errorf("syncing the activity log: %w", err)
	}
	d.durable.Store(head)
	return nil
}

// closeSyncedFile closes sync's handle of the write-ahead log.
func (d *database) closeSyncedFile() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.synced != nil {
		_ = d.synced.Close() // it was only synced
		d.synced = nil
	}
}

func (d *database) walBytes() int64 { return d.wal }

// beginStep reports that the disk has finished what it did before, and how often the next step
// syncs at most. SQLite does not report its syncs.
func (d *database) beginStep(syncs int) {
	if d.opts.step != nil {
		d.opts.step(syncs)
	}
}

// close moves the write-ahead log into the database first, so that the file is complete on its
// own. If a reader prevents that, the write-ahead log stays and nothing is lost.
func (d *database) close() error {
	d.closeSyncedFile()
	d.awaitCheckpoint()
	_ = d.signAll() // on failure, the next start signs
	_, err := walCheckpoint(d.conn, "TRUNCATE")
	if isBusy(err) {
		err = nil
	}
	return errors.Join(err, d.conn.Close())
}

// isBusy reports whether another connection had locked the database.
func isBusy(err error) bool { return sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy }

// A sink stores rows. Only the writing goroutine uses it, except for sync. Another storage engine
// could implement it.
type sink interface {
	// write stores the first n of rows in one transaction, or returns an error and stores none.
	// It stores at least one row, and no more than it can in a short time. The rows get
	// consecutive ids from first on. They survive a kill of the process.
	write(rows []Row) (first int64, n int, err error)
	// sync makes durable what was written before. It may run beside write, but not beside rotate
	// or close.
	sync() error
	// due reports whether rotate should be called.
	due() bool
	// rotate ends the active segment and starts a new one. After errInUse nothing has changed;
	// after another error the sink is closed.
	rotate() error
	// idle is called periodically while no rows wait.
	idle() error
	// walBytes is the size of the write-ahead log after the last write.
	walBytes() int64
	close() error
}

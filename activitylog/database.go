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

// busyTimeout is how long one attempt waits for somebody else's lock. It is
// short, so that the writer notices the end of its context.
const busyTimeout = 100 * time.Millisecond

// pageSize is that of new files. SQLite's usual 4 KiB cost a seventh more processor
// time, since more pages fill up, are split and are written. Larger ones cost a log with
// little to write more than they gain here: every commit writes each page that it touches.
const pageSize = 8 << 10

// database is the sink on SQLite: one connection to the live file, in WAL mode.
//
// A commit writes to the write-ahead log and does not wait for the disk: sync does, in
// another goroutine, while the next rows are inserted.
type database struct {
	path string
	opts *Options
	activeSegment
	checkpointing
	shrink time.Duration // how much less than transactionTime a transaction inserts

	mu     sync.Mutex // guards synced
	synced *os.File   // the write-ahead log, for sync; nil before its first commit

	treeHeads
}

// activeSegment is what belongs to the live file.
type activeSegment struct {
	conn    *sqlite.Conn
	inserts [len(insertRows)]insert
	batch   *sqlite.Stmt
	pages   *sqlite.Stmt
	info    os.FileInfo // of the file when it was opened

	file        int64 // that Sendings know it by
	run         run   // where it stands in the log
	next        int64 // id of the next row
	rows        int64
	firstRowAt  int64         // time of its first row
	prepared    bool          // a checkpoint has prepared it to be sealed
	lastAttempt time.Time     // when it could not be sealed
	readerWait  time.Duration // how long the next try waits for readers
	summary     summary
	merkleLog
}

// A run says which bus writes from which id on into which segment of which log.
type run struct {
	segment int
	log     string
	bus     string
}

// files numbers the files that were opened by this program.
var files atomic.Int64

// openDatabase opens or creates the log at path, for its owner only.
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
	d.checkpoint = backgroundCheckpoint
	if err := d.openActive(nil); err != nil {
		return nil, err
	}
	return d, nil
}

// openActive opens the live file and finds where its ids go on: after those of the one
// before it, if that is known.
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
	// The write-ahead log has its name by now, and so have a new file and a new key. A
	// commit is durable once sync has run; the checkpoints go on beside it.
	err := errors.Join(datafolder.SyncFolder(filepath.Dir(d.path)), sqlitex.ExecuteTransient(d.conn, "PRAGMA synchronous=NORMAL", nil))
	if err != nil {
		return err
	}
	for i, rows := range insertRows {
		if d.inserts[i], err = prepareInsert(d.conn, rows); err != nil {
			return err
		}
	}
	if d.batch, err = d.conn.Prepare("INSERT INTO batch (first, last, since, until, hashes, leaves, marks, subjects) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"); err != nil {
		return err
	}
	if d.pages, err = d.conn.Prepare("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"); err != nil {
		return err
	}
	d.measureWAL()
	d.info, err = os.Stat(d.path)
	return err
}

// startWAL lets what is written until the log is open wait for the first sync, unless a
// write-ahead log is there already: to begin that anew, SQLite has to sync its header.
func (d *database) startWAL() error {
	level := "OFF"
	if info, err := os.Stat(d.path + "-wal"); err == nil && info.Size() > 0 {
		level = "NORMAL"
	}
	return sqlitex.ExecuteTransient(d.conn, "PRAGMA synchronous="+level, nil)
}

// findPosition finds the segment and the ids of the live file: they go on after those of the
// last sealed one.
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

// positionAfter returns where a new live file of the log at path stands: behind the last
// sealed one.
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
	if d.rows == 0 || rows[0].At < d.firstRowAt { // a wrong clock may have written the first row
		d.firstRowAt = rows[0].At
	}
	d.next, d.rows = d.next+int64(n), d.rows+int64(n)
	d.advance()
	d.measureWAL()
	return first, n, nil
}

// insertAll inserts rows in one transaction until it has taken long enough.
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

// insertFirst inserts the first row of a file, after whose id those of the others follow.
func (d *database) insertFirst(r *Row) error {
	if err := d.insertFor(1).run([]Row{*r}, d.store([]Row{*r}, d.next, d.file)); err != nil {
		return err
	}
	return sqlitex.Execute(d.conn, "UPDATE event SET id = ?", &sqlitex.ExecOptions{Args: []any{d.next}})
}

// beginRun stores which bus writes from here on.
func (d *database) beginRun() error {
	bus := any(d.run.bus)
	if bus == "" {
		bus = nil
	}
	return sqlitex.Execute(d.conn, "INSERT OR REPLACE INTO run (first, segment, log, bus) VALUES (?, ?, ?, ?)",
		&sqlitex.ExecOptions{Args: []any{d.next, d.run.segment, d.run.log, bus}})
}

// summarize ends a commit: here all of its rows are known, with their ids, from d.next on.
// What it stores of them, and their leaves in the tree, is part of the commit.
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

// insertFor returns the largest insert of at most so many rows.
func (d *database) insertFor(rows int) *insert {
	i := 0
	for d.inserts[i].rows > rows {
		i++
	}
	return &d.inserts[i]
}

// transactionTime is how long one transaction may go on inserting: on a slow
// machine a commit still comes before the writer counts as stalled.
const transactionTime = 50 * time.Millisecond

// adaptTransaction makes transactions shorter while they take long.
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

// closeSyncedFile forgets the write-ahead log, which is about to be closed.
func (d *database) closeSyncedFile() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.synced != nil {
		_ = d.synced.Close() // what was written to it, others have written
		d.synced = nil
	}
}

func (d *database) walBytes() int64 { return d.wal }

// close moves the write-ahead log into the database first, so that the file is complete
// without it. If a reader prevents that, the write-ahead log stays and nothing is lost.
func (d *database) close() error {
	d.closeSyncedFile()
	d.awaitCheckpoint()
	_ = d.signAll() // without it, the next start signs
	_, err := walCheckpoint(d.conn, "TRUNCATE")
	if isBusy(err) {
		err = nil
	}
	return errors.Join(err, d.conn.Close())
}

// isBusy reports whether the database was locked by somebody else.
func isBusy(err error) bool { return sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy }

// A sink stores rows. The writing goroutine alone uses it, except for sync, so that another
// engine can take the place of this one.
type sink interface {
	// write stores the first n of rows in one transaction, or none of them and an
	// error: at least one, and no more than it can in a short time. The first gets the
	// id first; the others follow without a hole. A kill of the program leaves them.
	write(rows []Row) (first int64, n int, err error)
	// sync makes durable what was written before. It may be called while others
	// write, and not while others rotate or close.
	sync() error
	// due reports whether rotate should be called.
	due() bool
	// rotate seals the live file: later rows go to a new one. After errInUse all goes
	// on as before; after another error the sink is closed.
	rotate() error
	// idle is called while nothing waits to be written.
	idle() error
	// walBytes is the size of the write-ahead log after the last write.
	walBytes() int64
	close() error
}

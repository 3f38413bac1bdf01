package write

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/segment"
	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// database implements sink with SQLite: one connection to the active segment, in WAL mode.
//
// A commit writes to the write-ahead log without waiting for the disk. Another goroutine calls
// sync, which waits, while the next rows are inserted.
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
	info    os.FileInfo // of the open file

	file        int64       // identifies the file in Sendings
	run         segment.Run // its position in the log
	next        int64       // id of the next row
	rows        int64
	firstRowAt  int64         // time of its first row
	prepared    bool          // a checkpoint has prepared it for rotation
	lastAttempt time.Time     // time of the last rotation that readers prevented
	readerWait  time.Duration // how long the next attempt waits for readers
	builder     segment.IndexBuilder
	merkleLog
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

// openActive opens the active segment. If before is given, its ids continue after those of that
// segment.
func (d *database) openActive(before *activeSegment) error {
	conn, err := sqlite.OpenConn(d.path, sqlite.OpenReadWrite)
	if err != nil {
		return fmt.Errorf("opening the activity log %s: %w", d.path, err)
	}
	d.activeSegment = activeSegment{conn: conn, file: files.Add(1)}
	if before != nil {
		d.run, d.next = before.run, before.next
		d.run.Segment++
	}
	if err := d.prepare(before); err != nil {
		return errors.Join(fmt.Errorf("preparing the activity log %s: %w", d.path, err), conn.Close())
	}
	return nil
}

func (d *database) prepare(before *activeSegment) error {
	d.conn.SetBusyTimeout(segment.BusyTimeout)
	if err := segment.CheckVersion(d.conn, d.path); err != nil {
		return err
	}
	if err := segment.CreateTables(d.conn); err != nil {
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
	// The folder now names the write-ahead log, and also a new file and a new key. From now on, a
	// commit is durable after sync; checkpoints run concurrently.
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

// startWAL turns off syncs until the log is open, because the first sync covers everything
// written until then. If a write-ahead log exists, syncs stay on: SQLite must sync its header to
// restart it.
func (d *database) startWAL() error {
	level := "OFF"
	if info, err := os.Stat(d.path + "-wal"); err == nil && info.Size() > 0 {
		level = "NORMAL"
	}
	return sqlitex.ExecuteTransient(d.conn, "PRAGMA synchronous="+level, nil)
}

// findPosition finds the segment number and the next id of the active segment, which continue
// those of the last sealed file.
func (d *database) findPosition() error {
	v := &segment.View{Conn: d.conn}
	place, first, ok := v.LastRun()
	last, _ := v.Int64("SELECT max(id) FROM event")
	d.rows, _ = v.Int64("SELECT coalesce(sum(last - first + 1), 0) FROM batch")
	d.firstRowAt, _ = v.Int64("SELECT min(since) FROM batch")
	if v.Err != nil {
		return v.Err
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
	if ok && place.Bus == d.opts.Bus {
		return nil
	}
	d.run.Bus = d.opts.Bus
	return d.beginRun()
}

// positionAfter returns the position of a new active segment after the last sealed file.
func positionAfter(path string) (place segment.Run, next int64, err error) {
	numbers, err := segment.Numbers(path)
	if err != nil || len(numbers) == 0 {
		return segment.Run{Segment: 1, Log: rand.Text()}, 1, err
	}
	n := numbers[len(numbers)-1]
	v, err := segment.Open(segment.Path(path, n))
	if err != nil {
		return place, 0, fmt.Errorf("looking for the last row of %s: %w", segment.Path(path, n), err)
	}
	place, first, _ := v.LastRun()
	last := v.LastID()
	place.Segment, place.Log = n+1, cmp.Or(place.Log, rand.Text())
	return place, max(first, last+1), errors.Join(v.Err, v.Conn.Close())
}

// write implements sink.
func (d *database) write(rows []activitylog.Row) (first int64, n int, err error) {
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
func (d *database) insertAll(rows []activitylog.Row) (n int, err error) {
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
	segment.Failpoint("rows stored")
	return n, d.summarize(rows[:n])
}

// insertFirst inserts the first row of a file. SQLite numbers the other rows after it.
func (d *database) insertFirst(r *activitylog.Row) error {
	if err := d.insertFor(1).run([]activitylog.Row{*r}, d.store([]activitylog.Row{*r}, d.next, d.file)); err != nil {
		return err
	}
	return sqlitex.Execute(d.conn, "UPDATE event SET id = ?", &sqlitex.ExecOptions{Args: []any{d.next}})
}

// beginRun records which bus writes the following rows.
func (d *database) beginRun() error {
	bus := any(d.run.Bus)
	if bus == "" {
		bus = nil
	}
	return sqlitex.Execute(d.conn, "INSERT OR REPLACE INTO run (first, segment, log, bus) VALUES (?, ?, ?, ?)",
		&sqlitex.ExecOptions{Args: []any{d.next, d.run.Segment, d.run.Log, bus}})
}

// summarize completes a commit with its index and the leaves of the tree. All rows and their ids,
// from d.next, are known now.
func (d *database) summarize(rows []activitylog.Row) error {
	b := &d.builder
	b.Reset()
	for i := range rows {
		b.AddRow(rows[i].At, rows[i].Event, rows[i].Topic, rows[i].Payload)
	}
	for _, i := range d.first {
		if h, ok := messageHash(&rows[i]); ok {
			b.AddMessage(h)
		}
	}
	index := b.Index()
	for i, n := range [...]int64{d.next, d.next + int64(len(rows)) - 1, index.Since, index.Until} {
		d.batch.BindInt64(i+1, n)
	}
	d.addLeaves(rows)
	d.batch.BindBytes(5, index.Hashes)
	d.batch.BindBytes(6, d.hashes)
	d.batch.BindBytes(7, d.marks)
	d.batch.BindBytes(8, index.Subjects)
	if _, err := d.batch.Step(); err != nil {
		return err
	}
	err := errors.Join(d.batch.Reset(), d.signDurable())
	segment.Failpoint("leaves stored")
	return err
}

// insertFor returns the largest insert statement for at most that many rows.
func (d *database) insertFor(rows int) *insert {
	i := 0
	for d.inserts[i].rows > rows {
		i++
	}
	return &d.inserts[i]
}

// transactionTime bounds the inserts of one transaction, so that a slow machine commits before
// the writer counts as stalled.
const transactionTime = 50 * time.Millisecond

// adaptTransaction shortens transactions that take too long.
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
		_ = d.synced.Close() // a handle for syncs has nothing to lose
		d.synced = nil
	}
}

// release closes the active segment and sync's handle of its write-ahead log.
func (d *database) release() error {
	d.closeSyncedFile()
	return d.conn.Close()
}

func (d *database) walBytes() int64 { return d.wal }

// beginStep reports that the previous step is done, and how many syncs the next step needs at
// most. SQLite does not report its syncs.
func (d *database) beginStep(syncs int) {
	if d.opts.step != nil {
		d.opts.step(syncs)
	}
}

// close moves the write-ahead log into the database, so that the file is complete on its own. If
// a reader prevents that, the write-ahead log stays and nothing is lost.
func (d *database) close() error {
	d.closeSyncedFile()
	d.awaitCheckpoint()
	_ = d.signAll() // on failure, the next start signs
	_, err := walCheckpoint(d.conn, "TRUNCATE")
	if segment.IsBusy(err) {
		err = nil
	}
	return errors.Join(err, d.conn.Close())
}

// A sink stores rows. Only the writing goroutine uses it, except for sync.
type sink interface {
	// write stores the first n of rows in one transaction, or returns an error and stores none.
	// It stores at least one row, and as many as it can in a short time. The rows get consecutive
	// ids from first, and survive a kill of the process.
	write(rows []activitylog.Row) (first int64, n int, err error)
	// sync makes earlier writes durable. It may run concurrently with write, but not with rotate or
	// close.
	sync() error
	// due reports whether rotate should be called.
	due() bool
	// rotate ends the active segment and starts a new one. If it returns errInUse, nothing has
	// changed; after another error, the sink is closed.
	rotate() error
	// idle is called periodically while no rows wait.
	idle() error
	// walBytes returns the size of the write-ahead log after the last write.
	walBytes() int64
	close() error
}

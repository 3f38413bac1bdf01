package activitylog

import (
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

// create makes a file that is ready for rows, unless one exists. It uses the prepared file if
// there is one. The caller syncs the folder.
func create(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := quarantineWAL(path); err != nil {
		return err
	}
	err := datafolder.RenameUnsynced(path+preparedSuffix, path)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeReady(path)
	}
	return err
}

// quarantineWAL makes room for a new log. A -shm and a -wal file beside a missing log belong to a
// file that was sealed, moved or deleted while it was read: SQLite would share the first with
// those readers and delete the second. The write-ahead log may hold rows that the moved file
// lacks, so it is kept under another name.
func quarantineWAL(path string) error {
	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	info, err := os.Lstat(path + "-wal")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Size() == 0:
		return os.Remove(path + "-wal")
	}
	return datafolder.Rename(path+"-wal", path+"-wal."+time.Now().UTC().Format("20060102T150405.000000"))
}

// makeFile creates the tables of a file unless they exist. One transaction creates all of them,
// so that a kill leaves an empty file or a complete one.
func makeFile(conn *sqlite.Conn) (err error) {
	for _, pragma := range []string{fmt.Sprintf("PRAGMA page_size=%d", pageSize), "PRAGMA journal_mode=WAL"} {
		if err := sqlitex.ExecuteTransient(conn, pragma, nil); err != nil {
			return err
		}
	}
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	v := &view{conn: conn}
	if _, made := v.int64("SELECT 1 FROM sqlite_master WHERE name = 'activity_log'"); made || v.err != nil {
		return v.err
	}
	return sqlitex.ExecuteScript(conn, fmt.Sprintf("%s; PRAGMA user_version = %d", schema, schemaVersion), nil)
}

// sealEvery is the pause between attempts that readers prevent.
const sealEvery = time.Second

// due implements sink. A background checkpoint runs first, so that little is left to move.
func (d *database) due() bool {
	switch {
	case !d.full(), d.background != nil && len(d.background) == 0, time.Since(d.lastAttempt) < sealEvery:
		return false
	case d.prepared:
		return true
	}
	_ = d.awaitCheckpoint() // the next checkpoint reports the error again
	d.startCheckpoint()
	d.prepared = true
	return false
}

// readersTime is by how much the wait for readers grows with each attempt to rotate, up to
// busyTimeout. Overlapping readers leave no moment without a transaction; a transaction that
// begins while the database holds all rows does not prevent the rotation.
const readersTime = 10 * time.Millisecond

// full reports whether the active segment has reached a bound: rows, bytes or age.
func (d *database) full() bool {
	switch {
	case d.rows == 0:
		return false
	case d.rows >= d.opts.SegmentRows, time.Since(time.UnixMicro(d.firstRowAt)) >= d.opts.SegmentAge:
		return true
	}
	n, err := sqlitex.ResultInt64(d.pages)
	return err == nil && n >= d.opts.SegmentBytes
}

// errInUse means that readers prevent the rotation for now.
var errInUse = errors.New("a reader keeps a transaction open")

// rotate implements sink. The write-ahead log is empty when names change, so that a kill between
// two steps leaves complete files. If it leaves no active segment, the next start creates one.
func (d *database) rotate() error {
	if err := d.awaitCheckpoint(); err != nil && !isBusy(err) {
		return errors.Join(err, d.conn.Close())
	}
	d.beginStep(1)
	if err := d.signAll(); err != nil && !isBusy(err) {
		return errors.Join(err, d.conn.Close())
	}
	d.beginStep(checkpointSyncs)
	d.conn.SetBusyTimeout(d.readerWait)
	wal, err := walCheckpoint(d.conn, "TRUNCATE")
	d.conn.SetBusyTimeout(busyTimeout)
	if isBusy(err) || err == nil && wal.busy {
		d.prepared, d.lastAttempt, d.readerWait = false, time.Now(), min(d.readerWait+readersTime, busyTimeout)
		return errInUse
	}
	before := d.activeSegment
	d.beginStep(1)
	d.closeSyncedFile()
	if err := errors.Join(err, d.conn.Close()); err != nil {
		return err
	}
	failpoint("sealing")
	d.beginStep(2)
	if err := renameSegment(d.path, segmentPath(d.path, before.run.segment)); err != nil {
		return err
	}
	d.beginStep(2)
	if err := create(d.path); err != nil {
		return err
	}
	failpoint("replaced")
	d.checkpointing = checkpointing{checkpoint: d.checkpoint}
	return d.openActive(&before)
}

// renameSegment renames a file that is no longer written and whose write-ahead log is empty.
func renameSegment(path, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists already: move it away", to)
	}
	if err := os.Remove(to + checksumSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) { // of another file
		return err
	}
	if err := datafolder.Rename(path, to); err != nil {
		return err
	}
	failpoint("moved")
	return quarantineWAL(path)
}

// failpoint is called between steps that a kill may interrupt. Tests replace it.
var failpoint = func(string) {}

// prepareNext creates the next active segment in advance, so that a rotation does not wait for
// it.
func prepareNext(path string) error {
	to := path + preparedSuffix
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := makeReady(to); err != nil {
		return err
	}
	failpoint("prepared")
	return datafolder.SyncFolder(filepath.Dir(to))
}

// makeReady creates a file that is ready for rows. It syncs the file once, before the file gets
// its name. The caller syncs the folder.
func makeReady(path string) error {
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil { // a later close would drop SQLite's locks
		return err
	}
	conn, err := sqlite.OpenConn(temporary, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	err = sqlitex.ExecuteTransient(conn, "PRAGMA synchronous=OFF", nil)
	if err == nil {
		err = makeFile(conn)
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		return err
	}
	if err := syncFile(temporary); err != nil {
		return err
	}
	return datafolder.RenameUnsynced(temporary, path)
}

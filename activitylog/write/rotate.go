package write

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"hubbub/activitylog/internal/segment"
	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// create creates a file that is ready for rows, unless one exists. It uses the prepared file if
// there is one. The caller syncs the folder.
func create(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := quarantineWAL(path); err != nil {
		return err
	}
	err := datafolder.RenameUnsynced(path+segment.PreparedSuffix, path)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeReady(path)
	}
	return err
}

// quarantineWAL makes room for a new log. A -shm and a -wal file beside a missing log belong to a
// file that was sealed, moved or deleted while it was read. SQLite would share the first with
// those readers and delete the second. The write-ahead log may have rows that the moved file
// lacks, so it is renamed.
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

// sealEvery is the pause between rotations that readers prevent.
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

// readersTime is how much longer each attempt to rotate waits for readers, up to BusyTimeout.
// With overlapping readers, some transaction is always open. But a transaction that begins when
// the database has all rows does not prevent the rotation.
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

// errInUse means that a reader prevents the rotation for now: it has a transaction open, or is
// opening the file.
var errInUse = errors.New("a reader keeps a transaction open")

// rotate implements sink. The write-ahead log is empty before files are renamed, so that a kill
// between two steps leaves complete files. If it leaves no active segment, the next start creates
// one.
func (d *database) rotate() error {
	if err := d.awaitCheckpoint(); err != nil && !segment.IsBusy(err) {
		return errors.Join(err, d.release())
	}
	d.beginStep(1)
	if err := d.signAll(); err != nil && !segment.IsBusy(err) {
		return errors.Join(err, d.release())
	}
	d.beginStep(checkpointSyncs)
	d.conn.SetBusyTimeout(d.readerWait)
	wal, err := walCheckpoint(d.conn, "TRUNCATE")
	d.conn.SetBusyTimeout(segment.BusyTimeout)
	if segment.IsBusy(err) || err == nil && wal.busy {
		d.prepared, d.lastAttempt, d.readerWait = false, time.Now(), min(d.readerWait+readersTime, segment.BusyTimeout)
		return errInUse
	}
	if err != nil {
		return errors.Join(err, d.release())
	}
	before := d.activeSegment
	d.beginStep(5)
	renamed, err := segment.TryRename(d.replaceFile)
	if !renamed {
		d.lastAttempt = time.Now()
		return errInUse
	}
	if err != nil {
		return err
	}
	d.checkpointing = checkpointing{checkpoint: d.checkpoint}
	return d.openActive(&before)
}

// replaceFile gives the active segment its number, and gives its name to a new file.
func (d *database) replaceFile() error {
	if err := d.release(); err != nil {
		return err
	}
	segment.Failpoint("sealing")
	if err := renameSegment(d.path, segment.Path(d.path, d.run.Segment)); err != nil {
		return err
	}
	if err := create(d.path); err != nil {
		return err
	}
	segment.Failpoint("replaced")
	return nil
}

// renameSegment renames a file that is no longer written and whose write-ahead log is empty.
func renameSegment(path, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fmt.Errorf("%s exists already: move it away", to)
	}
	if err := os.Remove(to + segment.ChecksumSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) { // of another file
		return err
	}
	if err := datafolder.Rename(path, to); err != nil {
		return err
	}
	segment.Failpoint("moved")
	return quarantineWAL(path)
}

// prepareNext creates the next active segment in advance, so that a rotation need not wait for
// it.
func prepareNext(path string) error {
	to := path + segment.PreparedSuffix
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	if err := makeReady(to); err != nil {
		return err
	}
	segment.Failpoint("prepared")
	return datafolder.SyncFolder(filepath.Dir(to))
}

// makeReady creates a file that is ready for rows. It syncs the file before the file gets its
// name. The caller syncs the folder.
func makeReady(path string) error {
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil { // a later close would release SQLite's locks
		return err
	}
	conn, err := sqlite.OpenConn(temporary, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	err = sqlitex.ExecuteTransient(conn, "PRAGMA synchronous=OFF", nil)
	if err == nil {
		err = segment.CreateTables(conn)
	}
	if err == nil { // Close would not report that the disk is full
		_, err = walCheckpoint(conn, "TRUNCATE")
	}
	if err := errors.Join(err, conn.Close()); err != nil {
		return err
	}
	if err := datafolder.SyncFile(temporary); err != nil {
		return err
	}
	return datafolder.RenameUnsynced(temporary, path)
}

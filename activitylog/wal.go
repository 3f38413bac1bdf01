package activitylog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"zombiezen.com/go/sqlite/sqlitex"
)

const (
	// usualWAL is the size of the write-ahead log from which the writer leaves
	// its checkpoints to another goroutine, and asks readers to make way.
	usualWAL = 32 << 20
	// checkpointEvery limits how often that happens.
	checkpointEvery = time.Second
	// cutBytes is how much shorter the file becomes each time.
	cutBytes = 64 << 20
)

// errHeld is the error of a write-ahead log that has reached its bound.
var errHeld = errors.New("a reader keeps a transaction open")

// checkFile returns an error if the file was moved or deleted: SQLite would go on
// writing to it. It runs before each commit and takes a thousandth of its time.
func (d *database) checkFile() error {
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(info, d.file):
		return fmt.Errorf("the activity log %s was moved or deleted; it is created anew, and what a reader kept in its write-ahead log stays in %s-wal.*", d.path, d.path)
	case err != nil:
		return fmt.Errorf("looking at the activity log: %w", err)
	}
	return nil
}

// boundWAL restarts a write-ahead log that has grown because readers kept their
// transactions open, and refuses to grow it beyond its bound. The writer waits
// for a long checkpoint only there: below it, the checkpoint goes on in the
// background, and no commit begins another.
func (d *database) boundWAL() error {
	full := d.wal >= d.maxWAL
	if d.background == nil {
		if d.wal <= d.walTarget() || (!full && time.Since(d.asked) < checkpointEvery) {
			return nil
		}
		d.asked = time.Now()
		if err := d.checkpointAfter(0); err != nil {
			return err
		}
		d.background = make(chan checkpointResult, 1)
		go func() { d.background <- d.checkpoint(d.path) }()
	}
	if len(d.background) == 0 && !full {
		return nil
	}
	result := <-d.background
	d.background = nil
	restarted, err := false, result.err
	if result.little {
		restarted, err = d.restartWAL()
	}
	switch {
	case err != nil && !isBusy(err):
		return fmt.Errorf("checkpointing the activity log: %w", err)
	case full && !restarted:
		return fmt.Errorf("%w on %s, and its write-ahead log has reached %d bytes: end that reader", errHeld, d.path, d.wal)
	}
	return nil
}

// restartWAL moves what little is left, asks readers to make way, and reports
// whether the next commit begins at the start of the file. That commit also cuts
// the file, by a piece: a gigabyte at once takes most of a second.
func (d *database) restartWAL() (restarted bool, err error) {
	err = errors.Join(d.cutTo(max(d.wal-cutBytes, d.walTarget())), d.checkpointAfter(littleFrames))
	if err != nil {
		return false, err
	}
	wal, err := walCheckpoint(d.conn, "RESTART")
	return err == nil && !wal.busy, err
}

// cutTo makes the first commit after each restart of the write-ahead log cut its
// file to so many bytes.
func (d *database) cutTo(bytes int64) error {
	return sqlitex.ExecuteTransient(d.conn, fmt.Sprintf("PRAGMA journal_size_limit=%d", bytes), nil)
}

// checkpointAfter makes each commit that finds more frames in the write-ahead log
// move them into the database; 0 is never.
func (d *database) checkpointAfter(frames int) error {
	return sqlitex.ExecuteTransient(d.conn, fmt.Sprintf("PRAGMA wal_autocheckpoint=%d", frames), nil)
}

func (d *database) measureWAL() {
	if info, err := os.Stat(d.path + "-wal"); err == nil {
		d.wal = info.Size()
	}
}

// walTarget is the size above which the write-ahead log is cut.
func (d *database) walTarget() int64 { return min(usualWAL, d.maxWAL/2) }

package activitylog

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"time"

	"zombiezen.com/go/sqlite"
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

// littleFrames is how many pages of the write-ahead log a checkpoint of the
// writer itself may move into the database: as many as SQLite's automatic one.
const littleFrames = 1000

// A checkpointResult is what became of a checkpoint in the background.
type checkpointResult struct {
	little bool // so little is left that the writer may move it
	err    error
}

// backgroundCheckpoint moves the write-ahead log at path into its database by a
// connection of its own while the writer goes on: a log that grew to a gigabyte
// behind a reader takes seconds. It repeats for what the writer adds meanwhile, until
// little is left, a reader blocks it, or the writer adds as fast as it moves: then the
// writer has to wait for the rest.
func backgroundCheckpoint(path string) checkpointResult {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return checkpointResult{err: err}
	}
	conn.SetBusyTimeout(busyTimeout)
	little, err := checkpointRounds(conn)
	return checkpointResult{little: little, err: errors.Join(err, conn.Close())}
}

func checkpointRounds(conn *sqlite.Conn) (little bool, err error) {
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA synchronous=FULL", nil); err != nil {
		return false, err
	}
	for before, last := 0, math.MaxInt; ; {
		wal, err := walCheckpoint(conn, "PASSIVE")
		round := wal.moved - before
		switch {
		case err != nil:
			return false, err
		case wal.busy, wal.frames-wal.moved > littleFrames: // another checkpoint, or a reader
			return false, nil
		case round <= littleFrames, round > last/2:
			return true, nil
		}
		before, last = wal.moved, round
	}
}

// A walState is what a checkpoint found and did.
type walState struct {
	busy   bool // another connection blocked it
	frames int  // in the write-ahead log
	moved  int  // of those, in the database now
}

func walCheckpoint(conn *sqlite.Conn, mode string) (wal walState, err error) {
	err = sqlitex.ExecuteTransient(conn, "PRAGMA wal_checkpoint("+mode+")", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			wal = walState{s.ColumnBool(0), s.ColumnInt(1), s.ColumnInt(2)}
			return nil
		},
	})
	return wal, err
}

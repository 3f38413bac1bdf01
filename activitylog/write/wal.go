package write

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"

	"hubbub/activitylog/internal/segment"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// usualWAL is how much the write-ahead log grows between two checkpoints. It restarts when a
// commit finds that all of it was moved, and with each segment.
const usualWAL = 8 << 20

// errWALFull means that the write-ahead log has reached its bound.
var errWALFull = errors.New("a reader keeps a transaction open")

// checkpointing moves the write-ahead log into the database in the background, while rows are
// written.
type checkpointing struct {
	wal        int64      // size of the write-ahead log
	moved      int64      // its size when the last checkpoint began
	background chan error // result of the running checkpoint; nil if none runs

	checkpoint func(path string) error // backgroundCheckpoint; tests replace it
}

// checkFile returns an error if the file was moved or deleted, because SQLite would continue to
// write to it. It runs before each commit and takes a thousandth of its time.
func (d *database) checkFile() error {
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(info, d.info):
		return fmt.Errorf("the activity log %s was moved or deleted; a new one is created, and the write-ahead log "+
			"that a reader "+
			"kept stays in %s-wal.*", d.path, d.path)
	case err != nil:
		return fmt.Errorf("checking the activity log: %w", err)
	}
	return nil
}

// boundWAL starts checkpoints, and returns an error if the write-ahead log has reached its bound.
// Only a reader that keeps a transaction open can make it grow that far.
func (d *database) boundWAL() error {
	full := d.wal >= d.opts.MaxWAL
	if d.background == nil && (full || d.wal < d.moved || d.wal-d.moved >= min(usualWAL, d.opts.MaxWAL/2)) {
		d.startCheckpoint()
	}
	if d.background == nil || len(d.background) == 0 && !full {
		return nil
	}
	if err := d.awaitCheckpoint(); err != nil && !segment.IsBusy(err) {
		return fmt.Errorf("checkpointing the activity log: %w", err)
	}
	if !full {
		return nil
	}
	d.beginStep(checkpointSyncs)
	wal, err := walCheckpoint(d.conn, "TRUNCATE")
	d.beginStep(1)
	d.measureWAL()
	switch {
	case err != nil && !segment.IsBusy(err):
		return fmt.Errorf("checkpointing the activity log: %w", err)
	case err != nil, wal.busy:
		return fmt.Errorf("%w on %s, and its write-ahead log has reached %d bytes: end that reader", errWALFull, d.path,
			d.wal)
	}
	return nil
}

func (d *database) startCheckpoint() {
	d.moved = d.wal
	done := make(chan error, 1)
	d.background = done
	go func() { done <- d.checkpoint(d.path) }()
}

// awaitCheckpoint waits for the running checkpoint, if any.
func (d *database) awaitCheckpoint() (err error) {
	if d.background != nil {
		err = <-d.background
		d.background = nil
	}
	return err
}

func (d *database) measureWAL() {
	if info, err := os.Stat(d.path + "-wal"); err == nil {
		d.wal = info.Size()
	}
}

// checkpointSyncs is how many files a checkpoint syncs: the write-ahead log, its folder, the
// database.
const checkpointSyncs = 3

// maxFramesLeft is how many pages a checkpoint leaves to the next one. Moving them takes too
// little time to delay a commit.
const maxFramesLeft = 500

// backgroundCheckpoint moves the write-ahead log at path into its database, on its own
// connection, while the writer continues. It repeats this for new frames until few are left, a
// reader blocks it, or the writer adds frames as fast as it moves them. It reports each step.
func backgroundCheckpoint(path string, beginStep func(syncs int)) error {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	conn.SetBusyTimeout(segment.BusyTimeout)
	return errors.Join(checkpointRounds(conn, beginStep), conn.Close())
}

func checkpointRounds(conn *sqlite.Conn, beginStep func(syncs int)) error {
	defer beginStep(1)
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA synchronous=NORMAL", nil); err != nil {
		return err
	}
	for before, last := 0, math.MaxInt; ; {
		beginStep(checkpointSyncs)
		wal, err := walCheckpoint(conn, "PASSIVE")
		round := wal.moved - before
		switch {
		case err != nil:
			return err
		case wal.busy, wal.moved < wal.frames, round <= maxFramesLeft, round > last/2:
			return nil // another checkpoint or a reader blocks it, or little is left
		}
		before, last = wal.moved, round
	}
}

// A walState is the result of a checkpoint.
type walState struct {
	busy   bool // another connection blocked it
	frames int  // in the write-ahead log
	moved  int  // frames that are now in the database
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

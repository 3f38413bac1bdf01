package activitylog

import (
	"errors"
	"math"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

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

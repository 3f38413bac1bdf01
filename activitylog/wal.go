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
	// usualWAL is the size of the write-ahead log from which the writer asks
	// readers to make way for a checkpoint.
	usualWAL = 32 << 20
	// checkpointEvery limits how often it asks.
	checkpointEvery = time.Second
)

// errHeld is the error of a write-ahead log that has reached its bound.
var errHeld = errors.New("a reader keeps a transaction open")

// checkFile notices, within a second, that the file was moved or deleted:
// SQLite would go on writing where nobody looks.
func (d *database) checkFile() error {
	if time.Since(d.looked) < d.lookEvery {
		return nil
	}
	info, err := os.Stat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && !os.SameFile(info, d.file):
		return fmt.Errorf("the activity log %s was moved or deleted; it is created anew", d.path)
	case err != nil:
		return fmt.Errorf("looking at the activity log: %w", err)
	}
	d.looked = time.Now()
	return nil
}

// boundWAL restarts a write-ahead log that has grown because readers kept their
// transactions open, and refuses to grow it beyond its bound.
func (d *database) boundWAL() error {
	if d.wal < d.walTarget() || (d.wal < d.maxWAL && time.Since(d.asked) < checkpointEvery) {
		return nil
	}
	d.asked = time.Now()
	if err := sqlitex.ExecuteTransient(d.conn, "PRAGMA wal_checkpoint(TRUNCATE)", nil); err != nil && !isBusy(err) {
		return fmt.Errorf("checkpointing the activity log: %w", err)
	}
	d.measureWAL()
	if d.wal >= d.maxWAL {
		return fmt.Errorf("%w on %s, and its write-ahead log has reached %d bytes: end that reader", errHeld, d.path, d.wal)
	}
	return nil
}

func (d *database) measureWAL() {
	if info, err := os.Stat(d.path + "-wal"); err == nil {
		d.wal = info.Size()
	}
}

// walTarget is the size that the write-ahead log should not stay above.
func (d *database) walTarget() int64 { return min(usualWAL, d.maxWAL/2) }

package write

import (
	"errors"
	"time"

	"hubbub/activitylog"
)

// Store writes rows to the log at path, each list as one commit, and rotates the active segment
// when it is full. The rows are durable when it returns. No Writer may use the log at the same
// time. It is for tests.
func Store(path string, opts *Options, commits ...[]activitylog.Row) error {
	s, err := openDatabase(path, &NewWriter(path, opts).opts)
	if err != nil {
		return err
	}
	d := s.(*database)
	for _, rows := range commits {
		if err := d.storeCommit(rows); err != nil {
			return errors.Join(err, d.close())
		}
	}
	return errors.Join(d.close(), publishCheckpoint(path))
}

func (d *database) storeCommit(rows []activitylog.Row) error {
	for len(rows) > 0 {
		d.shrink = -time.Hour // never split a commit
		_, n, err := d.write(rows)
		if err := errors.Join(err, d.sync()); err != nil {
			return err
		}
		rows = rows[n:]
	}
	if !d.full() {
		return nil
	}
	for !d.due() {
		if err := d.awaitCheckpoint(); err != nil {
			return err
		}
	}
	for {
		if err := d.rotate(); !errors.Is(err, errInUse) {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

package activitylog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// schemaVersion is written into each log (PRAGMA user_version). Version 1 is the
// table of the specification, which others may have made and left at 0; version
// 2 added the column `bus`.
const schemaVersion = 2

// CheckVersion says why this program must not write the log at path, or nil: a
// newer one made it. It changes nothing. A log that does not exist yet is fine, and
// one that cannot be read just now, since it is locked or damaged, is left to who
// writes it: that never keeps a bus from routing.
func CheckVersion(path string) error {
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return nil
	}
	conn.SetBusyTimeout(busyTimeout) // without it, SQLite would wait for ever
	if _, err = knownVersion(conn, path); !errors.Is(err, errNewer) {
		err = nil
	}
	return errors.Join(err, conn.Close())
}

// errNewer is in the chain of the error of a log that a newer program made.
var errNewer = errors.New("use the newer program that wrote it")

// knownVersion returns the version of a log, unless it is newer than ours.
func knownVersion(conn *sqlite.Conn, path string) (int, error) {
	stmt, err := conn.Prepare("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	version, err := sqlitex.ResultInt(stmt)
	if err == nil && version > schemaVersion {
		err = fmt.Errorf("the activity log %s has schema version %d, and this program knows up to %d: %w",
			path, version, schemaVersion, errNewer)
	}
	return version, err
}

// migrate creates what is missing. A log without the column `bus` is copied
// beside itself first; the change is one transaction, so that a kill leaves the
// old log or the new one.
func (d *database) migrate() error {
	version, err := knownVersion(d.conn, d.path)
	if err != nil || version == schemaVersion {
		return err
	}
	columns, err := columnsOf(d.conn)
	if err != nil {
		return err
	}
	if len(columns) > 0 && !columns["bus"] {
		if err := d.backup(); err != nil {
			return err
		}
	}
	return d.createSchema()
}

// backup copies the log to <path>.v1.backup. One that a kill cut short is made
// anew; one that is there is kept.
func (d *database) backup() error {
	to := d.path + ".v1.backup"
	if _, err := os.Stat(to); err == nil {
		return nil
	}
	partial := to + ".partial"
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("backing up before a migration: %w", err)
	}
	f, err := os.OpenFile(partial, os.O_CREATE|os.O_RDWR, 0o600) // the mode, before anything is in it
	if err != nil {
		return fmt.Errorf("backing up before a migration: %w", err)
	}
	defer f.Close() //nolint:errcheck // synced below
	err = sqlitex.ExecuteTransient(d.conn, "VACUUM INTO ?", &sqlitex.ExecOptions{Args: []any{partial}})
	if err := errors.Join(err, f.Sync()); err != nil {
		return fmt.Errorf("backing up before a migration: %w (is there room on the disk for a copy?)", err)
	}
	return datafolder.Rename(partial, to)
}

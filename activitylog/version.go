package activitylog

import (
	"errors"
	"fmt"
	"os"

	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// schemaVersion is written into each file (PRAGMA user_version). Version 1 is the
// table of the specification, which others may have made and left at 0; version
// 2 added the column `bus`; version 3 is schema.sql, and
// version 4 adds tree.sql.
const (
	schemaVersion = 4
	narrowVersion = 3
)

// CheckVersion says why this program must not write the log at path, or nil: a
// newer one made it. It changes nothing. A log that does not exist yet is fine, and
// one that cannot be read just now, since it is locked or damaged, is left to who
// writes it: that never keeps a bus from routing.
func CheckVersion(path string) error {
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly) // closing it moves no write-ahead log, which takes syncs
	if err != nil {
		return nil
	}
	conn.SetBusyTimeout(busyTimeout) // without it, SQLite would wait for ever
	if _, err = knownVersion(conn, path); !errors.Is(err, datafolder.ErrOtherVersion) {
		err = nil
	}
	return errors.Join(err, conn.Close())
}

// knownVersion returns the version of a file, unless it is newer than ours.
func knownVersion(conn *sqlite.Conn, path string) (int, error) {
	stmt, err := conn.Prepare("PRAGMA user_version")
	if err != nil {
		return 0, err
	}
	version, err := sqlitex.ResultInt(stmt)
	if err == nil && version > schemaVersion {
		err = fmt.Errorf("the activity log %s has schema version %d, and this program knows up to %d: %w",
			path, version, schemaVersion, datafolder.ErrOtherVersion)
	}
	return version, err
}

// takeOver makes the log of an older program the sealed file number 0, as it lies.
func takeOver(path string) error {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return nil
	}
	if older, err := isOlder(path); err != nil || !older {
		return err
	}
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
	if err != nil {
		return fmt.Errorf("opening the activity log %s: %w", path, err)
	}
	old, err := emptyOld(conn, path)
	if err := errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("preparing the activity log %s: %w", path, err)
	}
	if !old {
		return nil
	}
	failpoint("taking over")
	if err := renameSegment(path, segmentPath(path, 0)); err != nil {
		return fmt.Errorf("making the activity log of an older program a segment: %w", err)
	}
	return nil
}

// isOlder reports whether an older program wrote a file, or may have.
func isOlder(path string) (bool, error) {
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return true, nil //nolint:nilerr // whoever opens it to write says what is wrong
	}
	conn.SetBusyTimeout(busyTimeout)
	version, err := knownVersion(conn, path)
	return version < narrowVersion, errors.Join(err, conn.Close())
}

// emptyOld reports whether an older program wrote a file, and if so, moves its write-ahead
// log into it.
func emptyOld(conn *sqlite.Conn, path string) (old bool, err error) {
	conn.SetBusyTimeout(busyTimeout)
	version, err := knownVersion(conn, path)
	if err != nil || version >= narrowVersion {
		return false, err
	}
	if columns, err := columnsOf(conn); err != nil || len(columns) == 0 {
		return false, err
	}
	wal, err := walCheckpoint(conn, "TRUNCATE")
	switch {
	case err == nil && wal.busy:
		return true, errInUse
	case err != nil:
		return true, err
	}
	// What reads it later needs no files beside it; a reader that is there now may stay.
	if err := sqlitex.ExecuteTransient(conn, "PRAGMA journal_mode=DELETE", nil); err != nil && !isBusy(err) {
		return true, err
	}
	return true, nil
}

func columnsOf(conn *sqlite.Conn) (map[string]bool, error) {
	columns := map[string]bool{}
	err := sqlitex.ExecuteTransient(conn, "SELECT name FROM pragma_table_info('activity_log')", &sqlitex.ExecOptions{
		ResultFunc: func(s *sqlite.Stmt) error {
			columns[s.ColumnText(0)] = true
			return nil
		},
	})
	return columns, err
}

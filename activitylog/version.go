package activitylog

import (
	"errors"
	"fmt"
	"os"

	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// schemaVersion is written into each file (PRAGMA user_version).
const schemaVersion = 1

// CheckVersion returns an error if another version of this program made the log at path.
// It changes nothing. It accepts a log that does not exist, and one that is locked or
// damaged: a bus routes even if it cannot write its log.
func CheckVersion(path string) error {
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	// unlike a writing connection, it does no checkpoint when it closes
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil
	}
	conn.SetBusyTimeout(busyTimeout) // without it, SQLite would wait for ever
	if err = checkVersion(conn, path); !errors.Is(err, datafolder.ErrOtherVersion) {
		err = nil
	}
	return errors.Join(err, conn.Close())
}

// checkVersion refuses a file of another version. An empty file has no version yet.
func checkVersion(conn *sqlite.Conn, path string) error {
	version, tables := 0, 0
	err := sqlitex.ExecuteTransient(conn,
		"SELECT (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)",
		&sqlitex.ExecOptions{
			ResultFunc: func(s *sqlite.Stmt) error {
				version, tables = s.ColumnInt(0), s.ColumnInt(1)
				return nil
			},
		})
	if err == nil && tables > 0 && version != schemaVersion {
		err = fmt.Errorf("the activity log %s has schema version %d, and this program knows version %d alone: %w",
			path, version, schemaVersion, datafolder.ErrOtherVersion)
	}
	return err
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

package segment

import (
	_ "embed"
	"fmt"
	"time"

	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// CreateTables creates the tables of a file if they do not exist. It uses one transaction, so
// that a kill leaves an empty file or a complete one.
func CreateTables(conn *sqlite.Conn) (err error) {
	for _, pragma := range []string{fmt.Sprintf("PRAGMA page_size=%d", PageSize), "PRAGMA journal_mode=WAL"} {
		if err := sqlitex.ExecuteTransient(conn, pragma, nil); err != nil {
			return err
		}
	}
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return err
	}
	defer end(&err)
	v := &View{Conn: conn}
	if _, made := v.Int64("SELECT 1 FROM sqlite_master WHERE name = 'activity_log'"); made || v.Err != nil {
		return v.Err
	}
	return sqlitex.ExecuteScript(conn, fmt.Sprintf("%s; PRAGMA user_version = %d", schema, SchemaVersion), nil)
}

// SchemaVersion is the PRAGMA user_version of each file.
const SchemaVersion = 1

// CheckVersion returns an error for a file of another version. An empty file has no version.
func CheckVersion(conn *sqlite.Conn, path string) error {
	v, version, tables := &View{Conn: conn}, 0, 0
	v.Query("SELECT (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)", nil,
		func(s *sqlite.Stmt) bool {
			version, tables = s.ColumnInt(0), s.ColumnInt(1)
			return false
		})
	if v.Err == nil && tables > 0 && version != SchemaVersion {
		return fmt.Errorf("the activity log %s has schema version %d, but this program supports only version %d: %w",
			path, version, SchemaVersion, datafolder.ErrOtherVersion)
	}
	return v.Err
}

//go:embed schema.sql
var schema string

// BusyTimeout is how long one attempt waits for a lock of another connection. It is short, so
// that the writer notices the end of its context soon.
const BusyTimeout = 100 * time.Millisecond

// PageSize is the page size of new files. SQLite's default of 4 KiB needs a seventh more CPU
// time, because more pages fill up, split and are written. Larger pages make an idle log more
// expensive, because every commit writes each page that it changes.
const PageSize = 8 << 10

// IsBusy reports whether err means that another connection has locked the database.
func IsBusy(err error) bool { return sqlite.ErrCode(err).ToPrimary() == sqlite.ResultBusy }

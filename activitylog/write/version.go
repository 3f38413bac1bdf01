package write

import (
	"errors"
	"os"

	"hubbub/activitylog/internal/segment"
	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
)

// CheckVersion returns an error if another version of this program made the log at path. It
// changes nothing. It accepts a log that does not exist, is locked or is damaged, because a bus
// routes even if it cannot write its log.
func CheckVersion(path string) error {
	if _, err := os.Stat(path); err != nil {
		return nil
	}
	// a read-only connection does no checkpoint when it closes
	conn, err := sqlite.OpenConn(path, sqlite.OpenReadOnly)
	if err != nil {
		return nil
	}
	conn.SetBusyTimeout(segment.BusyTimeout) // otherwise SQLite would wait forever
	if err = segment.CheckVersion(conn, path); !errors.Is(err, datafolder.ErrOtherVersion) {
		err = nil
	}
	return errors.Join(err, conn.Close())
}

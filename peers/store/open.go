package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"zombiezen.com/go/sqlite"

	"hubbub/protocol/datafolder"
)

// schemaVersion is the PRAGMA user_version of the databases that this program writes,
// and the only one that it opens.
const schemaVersion = 1

// Open opens the database at path. If the file does not exist, Open creates it, its
// folder (0700) and the tables of schema. A database of another version is refused and
// left untouched.
func Open(path, schema string) (*DB, error) {
	if err := datafolder.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	if err := createFile(path); err != nil {
		return nil, err
	}
	db, err := newDB(path)
	if err != nil {
		return nil, err
	}
	if err := initialize(db.writer, path, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// OpenExisting opens a database that another program owns and may be using. It creates
// nothing and does not check the schema. If there is no file, the error is fs.ErrNotExist.
func OpenExisting(path string) (*DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return newDB(path)
}

// createFile creates the file with mode 0600: databases contain private messages.
func createFile(path string) error {
	if err := datafolder.Create(path); err != nil {
		return fmt.Errorf("opening %s: %w (is the data folder writable?)", path, err)
	}
	return nil
}

// initialize creates the tables of a new database, and checks those of an existing one.
func initialize(c *connection, path, schema string) error {
	var version, tables int
	err := c.run(context.Background(), "SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version",
		nil, func(s *sqlite.Stmt) error { return scan(s, []any{&version, &tables}) })
	if err != nil {
		return fmt.Errorf("reading the schema version of %s: %w", path, err)
	}
	isNew := version == 0 && tables == 0
	if !isNew && version != schemaVersion {
		return fmt.Errorf("%s has schema version %d, and this program reads version %d only: %w",
			path, version, schemaVersion, datafolder.ErrOtherVersion)
	}
	if !isNew {
		if err := checkColumns(c, path, schema); err != nil {
			return err
		}
	}
	// SQLite stores this setting in the file, so it follows the checks.
	if err := c.exec(context.Background(), "PRAGMA journal_mode = WAL", nil); err != nil {
		return fmt.Errorf("setting the journal mode of %s: %w", path, err)
	}
	if !isNew {
		return nil
	}
	if err := create(c, schema); err != nil {
		return fmt.Errorf("creating the tables of %s: %w", path, err)
	}
	return nil
}

// create creates the tables, in one transaction: a kill leaves an empty database.
func create(c *connection, schema string) error {
	if err := c.begin(context.Background()); err != nil {
		return err
	}
	err := c.exec(context.Background(),
		fmt.Sprintf("%s; PRAGMA user_version = %d; COMMIT", schema, schemaVersion), nil)
	if err != nil && !c.conn.AutocommitEnabled() { // a full disk, for one, has rolled it back already
		err = errors.Join(err, c.exec(context.Background(), "ROLLBACK", nil))
	}
	return err
}

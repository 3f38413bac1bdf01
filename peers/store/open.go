package store

import (
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"hubbub/protocol/datafolder"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// schemaVersion is the PRAGMA user_version of the databases that this program writes,
// and the only one that it opens.
const schemaVersion = 1

// cacheSize limits the page cache of each connection to 500 KiB. SQLite's default is
// 2 MiB of memory that the Go runtime does not account for.
const cacheSize = "cache_size(-500)"

// Open opens the database at path. If the file does not exist, Open creates it, its
// folder (0700) and the tables of schema. A database of another version is refused and
// left untouched.
func Open(path, schema string) (*sql.DB, error) {
	if err := datafolder.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	if err := createFile(path); err != nil {
		return nil, err
	}
	db, err := connect(path, url.Values{
		"_pragma": {"busy_timeout(10000)", "synchronous(FULL)", "foreign_keys(ON)", cacheSize},
	})
	if err != nil {
		return nil, err
	}
	if err := initialize(db, path, schema); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// OpenExisting opens a database that another program owns and may be using. It creates
// nothing and does not check the schema. If there is no file, the error is fs.ErrNotExist.
func OpenExisting(path string) (*sql.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return connect(path, url.Values{
		"mode": {"rw"}, "_pragma": {"busy_timeout(10000)", "synchronous(FULL)", "foreign_keys(ON)", cacheSize},
	})
}

func connect(path string, settings url.Values) (*sql.DB, error) {
	settings.Set("_txlock", "immediate")
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+settings.Encode())
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	db.SetMaxOpenConns(4)
	return db, nil
}

// createFile creates the file with mode 0600: databases contain private messages.
func createFile(path string) error {
	if err := datafolder.Create(path); err != nil {
		return fmt.Errorf("opening %s: %w (is the data folder writable?)", path, err)
	}
	return nil
}

// initialize creates the tables of a new database, and checks those of an existing one.
func initialize(db *sql.DB, path, schema string) error {
	var version, tables int
	err := db.QueryRow("SELECT user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_user_version").
		Scan(&version, &tables)
	if err != nil {
		return fmt.Errorf("reading the schema version of %s: %w", path, err)
	}
	isNew := version == 0 && tables == 0
	if !isNew && version != schemaVersion {
		return fmt.Errorf("%s has schema version %d, and this program reads version %d only: %w",
			path, version, schemaVersion, datafolder.ErrOtherVersion)
	}
	if !isNew {
		if err := checkColumns(db, path, schema); err != nil {
			return err
		}
	}
	// SQLite stores this setting in the file, so it follows the checks.
	if _, err := db.Exec("PRAGMA journal_mode = WAL"); err != nil {
		return fmt.Errorf("setting the journal mode of %s: %w", path, err)
	}
	if !isNew {
		return nil
	}
	if err := create(db, schema); err != nil {
		return fmt.Errorf("creating the tables of %s: %w", path, err)
	}
	return nil
}

// create creates the tables, in one transaction: a kill leaves an empty database.
func create(db *sql.DB, schema string) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // a no-op once committed
	if _, err := tx.Exec(schema); err != nil {
		return err
	}
	if _, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", schemaVersion)); err != nil {
		return err
	}
	return tx.Commit()
}

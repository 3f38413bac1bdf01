package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"hubbub/protocol/datafolder"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// cacheSize bounds the pages that each connection keeps, to 500 KiB. By itself
// SQLite lets them grow to 2 MiB with the file, in memory that Go does not see; what
// is not kept is read from the system's cache.
const cacheSize = "cache_size(-500)"

// Open opens the database at path, creating it and its folder (0700), and
// brings its schema to version len(steps): step i takes it from version i to
// i+1. Steps that were released are never changed, only added.
func Open(path string, steps []string) (*sql.DB, error) {
	if err := datafolder.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("creating the data folder: %w", err)
	}
	if err := touch(path); err != nil {
		return nil, err
	}
	db, err := connect(path, url.Values{
		"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(ON)", cacheSize},
	})
	if err != nil {
		return nil, err
	}
	if err := migrate(db, path, steps); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// OpenExisting opens a database that another program keeps, which may run meanwhile, as it
// is: neither created nor migrated. It fails where there is none.
func OpenExisting(path string) (*sql.DB, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return connect(path, url.Values{
		"mode": {"rw"}, "_pragma": {"busy_timeout(10000)", "synchronous(FULL)", "foreign_keys(ON)", cacheSize},
	})
}

// Older reports whether there is a database at path of an earlier version than steps:
// the program that keeps it may be of that version, and still run.
func Older(path string, steps []string) (bool, error) {
	db, err := OpenExisting(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var version int
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return false, errors.Join(fmt.Errorf("reading the schema version of %s: %w", path, err), db.Close())
	}
	return version > 0 && version < len(steps), db.Close()
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

// touch creates the file for its owner only: databases hold what people said.
func touch(path string) error {
	if err := datafolder.Create(path); err != nil {
		return fmt.Errorf("opening %s: %w (is the data folder writable?)", path, err)
	}
	return nil
}

func migrate(db *sql.DB, path string, steps []string) error {
	var version int
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil {
		return fmt.Errorf("reading the schema version of %s: %w", path, err)
	}
	switch {
	case version > len(steps):
		err := fmt.Errorf("%s has schema version %d, and this program knows up to %d: %w", path, version, len(steps), datafolder.ErrNewer)
		if before := backupPath(path, len(steps)); exists(before) {
			err = fmt.Errorf("%w, or put back what was there before: %s", err, before)
		}
		return err
	case version == len(steps):
		return checkShape(db, path, steps)
	case version > 0:
		if err := backup(db, path, version); err != nil {
			return err
		}
	}
	for ; version < len(steps); version++ {
		if err := step(db, version, steps[version]); err != nil {
			return fmt.Errorf("migrating %s from version %d: %w", path, version, err)
		}
	}
	return nil
}

// backupPath returns where the copy of a database is that had a version.
func backupPath(path string, version int) string { return fmt.Sprintf("%s.v%d.backup", path, version) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// backup copies the database before its first migration step. One that a kill
// cut short is made anew.
func backup(db *sql.DB, path string, version int) error {
	to := backupPath(path, version)
	if exists(to) {
		return nil
	}
	if err := copyInto(context.Background(), db, path, to); err != nil {
		return fmt.Errorf("backing up before a migration: %w", err)
	}
	return nil
}

func step(db *sql.DB, version int, statements string) error {
	tx, err := db.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // a no-op once committed
	if _, err := tx.Exec(statements); err != nil {
		return err
	}
	if _, err := tx.Exec(fmt.Sprintf("PRAGMA user_version = %d", version+1)); err != nil {
		return err
	}
	return tx.Commit()
}

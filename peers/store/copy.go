package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"hubbub/protocol/datafolder"
)

// Copy writes a snapshot of the database at path to a new file, which only its owner
// can read, and checks the integrity of the copy. Other programs may use the database
// meanwhile. A kill leaves no file named to.
func Copy(ctx context.Context, path, to string) (err error) {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("copying a database: %w", err)
	}
	if _, err := os.Stat(to); err == nil {
		return fmt.Errorf("%s exists already; a copy never replaces a file", to)
	}
	pragmas := url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(10000)"}}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+pragmas.Encode())
	if err != nil {
		return fmt.Errorf("opening %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return copyInto(ctx, db, path, to)
}

// copyInto is Copy for an open database. It replaces what an interrupted copy left.
func copyInto(ctx context.Context, db *sql.DB, path, to string) error {
	partial := to + ".partial"
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copying %s: %w", path, err)
	}
	if err := createFile(partial); err != nil { // sets the mode before SQLite writes
		return err
	}
	if _, err := db.ExecContext(ctx, "VACUUM INTO ?", partial); err != nil {
		return fmt.Errorf("copying %s: %w", path, err)
	}
	if err := checkCopy(ctx, partial); err != nil {
		return fmt.Errorf("the copy of %s is damaged: %w", path, err)
	}
	if err := syncFile(partial); err != nil {
		return fmt.Errorf("copying %s: %w", path, err)
	}
	return datafolder.Rename(partial, to)
}

func checkCopy(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: path}).EscapedPath()+"?mode=ro&immutable=1")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var result string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&result); err != nil {
		return err
	}
	if result != "ok" {
		return errors.New(result)
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

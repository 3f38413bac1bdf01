package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"zombiezen.com/go/sqlite"

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
	c, err := connect(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	c.conn.SetInterrupt(ctx.Done())
	return copyInto(ctx, c, path, to)
}

// copyInto is Copy for an open database. It replaces what an interrupted copy left.
func copyInto(ctx context.Context, c *connection, path, to string) error {
	partial := to + ".partial"
	if err := os.Remove(partial); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("copying %s: %w", path, err)
	}
	if err := createFile(partial); err != nil { // sets the mode before SQLite writes
		return err
	}
	if err := c.exec(ctx, "VACUUM INTO ?", []any{partial}); err != nil {
		return fmt.Errorf("copying %s: %w", path, err)
	}
	if err := checkCopy(ctx, partial); err != nil {
		return fmt.Errorf("the copy of %s is damaged: %w", path, err)
	}
	if err := datafolder.SyncFile(partial); err != nil {
		return fmt.Errorf("copying %s: %w", path, err)
	}
	return datafolder.Rename(partial, to)
}

func checkCopy(ctx context.Context, path string) (err error) {
	c, err := connect(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return c.run(ctx, "PRAGMA quick_check(1)", nil, func(s *sqlite.Stmt) error {
		if result := s.ColumnText(0); result != "ok" {
			return errors.New(result)
		}
		return nil
	})
}

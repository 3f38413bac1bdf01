package segment

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"hubbub/protocol/datafolder"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// Seal replaces a rotated file with a copy with lookup tables, and then writes its checksum. The
// file is never written again. Current readers continue with the old file.
func Seal(ctx context.Context, path string) error {
	v, err := Open(path)
	if err != nil {
		return fmt.Errorf("sealing %s: %w", path, err)
	}
	done := v.Lookup
	err = v.Conn.Close()
	if err == nil && !done {
		err = addIndexes(ctx, path)
	}
	if err == nil {
		Failpoint("indexed")
		err = WriteChecksum(ctx, path)
	}
	if err != nil {
		return fmt.Errorf("sealing %s: %w", path, err)
	}
	Failpoint("sealed")
	return nil
}

func addIndexes(ctx context.Context, path string) (err error) {
	to := path + PreparedSuffix
	if err := copyFile(ctx, path, to); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	Failpoint("copied")
	conn, err := sqlite.OpenConn(to, sqlite.OpenReadWrite)
	if err != nil {
		return err
	}
	conn.SetInterrupt(ctx.Done())
	for _, pragma := range []string{"PRAGMA journal_mode=DELETE", "PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF",
		"PRAGMA cache_size=-32768"} {
		err = errors.Join(err, sqlitex.ExecuteTransient(conn, pragma, nil))
	}
	if err == nil {
		err = addLookup(ctx, conn)
	}
	if err == nil {
		err = addSubjects(ctx, conn)
	}
	if err == nil {
		err = addSpan(ctx, conn)
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	f, err := os.Open(to)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	Failpoint("indexes made")
	for _, end := range []string{"-wal", "-shm"} { // readers of the replaced file have them open
		if err := os.Remove(path + end); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return datafolder.Rename(to, path)
}

// copyFile copies a file that no other process writes.
func copyFile(ctx context.Context, path, to string) error {
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), ctx.Err())
}

// Checksum returns the SHA-256 of a file in the format of sha256sum.
func Checksum(ctx context.Context, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // only read
	sum := sha256.New()
	if _, err := io.Copy(sum, readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return f.Read(p)
	})); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x  %s\n", sum.Sum(nil), filepath.Base(path)), nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// WriteChecksum writes the checksum of a sealed file beside it.
func WriteChecksum(ctx context.Context, path string) error {
	line, err := Checksum(ctx, path)
	if err != nil {
		return err
	}
	return datafolder.WriteFile(path+ChecksumSuffix, []byte(line))
}

package datafolder

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ErrOtherVersion is wrapped by the error for a database of another schema version.
var ErrOtherVersion = errors.New("use the program that wrote it, or move the file away")

// WriteFile writes a file that only its owner can read, completely or not at all. It replaces an
// existing file. After it has returned nil, the content survives a crash of the machine.
func WriteFile(path string, content []byte) error { return write(path, content, os.Rename) }

// WriteNew is like WriteFile, but does not replace an existing file. If several programs write at
// the same time, one succeeds, and the others keep its file.
func WriteNew(path string, content []byte) error {
	return write(path, content, func(from, to string) error {
		if err := os.Link(from, to); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

// KeyBytes is the length of a key.
const KeyBytes = 32

// ErrNoKey means that a key file has the wrong size.
var ErrNoKey = errors.New("is not a key")

// Key returns the random key in a file. It creates the file if necessary; if several programs do
// so at the same time, all use the first key. It refuses a key that other users may read.
func Key(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = MkdirAll(filepath.Dir(path)); err != nil {
			return nil, err
		}
		key := make([]byte, KeyBytes)
		_, _ = rand.Read(key) // never fails
		if err = WriteNew(path, key); err == nil {
			info, err = os.Stat(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("other users of this machine can read %s: run chmod 600 on it", path)
	}
	key, err := os.ReadFile(path)
	if err == nil && len(key) != KeyBytes {
		err = fmt.Errorf("%s %w of %d bytes: restore it from a backup", path, ErrNoKey, KeyBytes)
	}
	return key, err
}

func write(path string, content []byte, place func(from, to string) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // renamed away, as a rule
	_, err = tmp.Write(content)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := place(tmp.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// Create creates an empty file that only its owner can read, for programs that write in place,
// such as SQLite. It does not open an existing file: closing it again would release the locks
// that this process holds on it.
func Create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(filepath.Dir(path)) // a program that was killed may have created it without syncing
}

// Rename durably renames a file within its folder. The content must already be synced.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}

// RenameUnsynced renames a file within its folder. The content must already be synced; the caller
// syncs the folder.
func RenameUnsynced(from, to string) error { return os.Rename(from, to) }

// SyncFile makes the content of a file survive a crash of the machine.
func SyncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// SyncFolder makes renamed and created files of a folder survive a crash of the machine, if
// the file system supports that.
func SyncFolder(path string) error { return syncFolder(path) }

// Mkdir creates a folder for its owner only. It returns [fs.ErrExist] if the folder exists.
func Mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// MkdirAll creates a folder and its parents for their owner only. It leaves existing folders
// unchanged.
func MkdirAll(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		// its creator may have been killed
		if err := syncFolder(filepath.Dir(path)); !errors.Is(err, fs.ErrPermission) {
			return err
		}
		return nil // a process that may not open the parent did not create the folder
	}
	if above := filepath.Dir(path); above != path {
		if err := MkdirAll(above); err != nil {
			return err
		}
	}
	if err := Mkdir(path); !errors.Is(err, fs.ErrExist) {
		return err
	}
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
	}
	return syncFolder(filepath.Dir(path))
}

// Lock opens the file at path, creates it if necessary, and locks it against other processes
// until it is closed. If another process holds the lock, Lock waits, or returns
// syscall.EWOULDBLOCK if wait is false. Lock refuses a link.
func Lock(path string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	if err := os.NewSyscallError("flock", syscall.Flock(int(f.Fd()), how)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// syncFolder implements SyncFolder. Tests replace it.
var syncFolder = func(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

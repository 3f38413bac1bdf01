package datafolder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Write writes a file that only its owner can read, whole or not at all. It
// replaces the file that is there. Once it has returned nil, the new content
// survives a crash of the machine.
func Write(path string, content []byte) error { return write(path, content, os.Rename) }

// WriteFirst is Write that leaves a file alone that is there: of several programs that
// write at once, one succeeds, and the others find its file.
func WriteFirst(path string, content []byte) error {
	return write(path, content, func(from, to string) error {
		if err := os.Link(from, to); !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
}

func write(path string, content []byte, place func(from, to string) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // renamed away, as a rule
	_, err = tmp.Write(content)
	if err = errors.Join(err, GiveToOwner(tmp), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	if err := place(tmp.Name(), path); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}

// Lock opens the file at path, which is made if it is not there, and locks it against
// other processes until it is closed. If another has locked it, Lock waits, or returns
// an error that is syscall.EWOULDBLOCK if wait is false. A link that somebody has put at
// path is refused, not followed.
func Lock(path string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	switch {
	case err == nil:
		err = GiveToOwner(f)
	case errors.Is(err, fs.ErrExist):
		f, err = os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	if err == nil {
		err = os.NewSyscallError("flock", syscall.Flock(int(f.Fd()), how))
	}
	if err != nil && f != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, err
}

// syncFolder makes what was renamed or created in a folder survive a crash of the
// machine. Tests replace it.
var syncFolder = func(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

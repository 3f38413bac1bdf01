package program

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// OwnData is MakeData for a program that must be the only one of its name that works on
// the folder. Call release at the end. If the process is killed, the kernel releases
// the folder.
func (e *Env) OwnData() (release func(), err error) {
	if _, err := e.MakeData(); err != nil {
		return nil, err
	}
	path := e.DataFile(e.Name + ".lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close() //nolint:errcheck // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another %s works on the data folder %s; give this one another --data", e.Name, e.Data)
		}
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	return func() { f.Close() }, nil //nolint:errcheck // nothing was written
}

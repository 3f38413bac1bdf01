package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFolder makes sure that one broker alone works on a data folder. The
// kernel frees the lock when the process ends, however it ends.
func lockFolder(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close() //nolint:errcheck // nothing was written
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("another hubbub-broker works on this data folder (%s); give this one another --data", path)
		}
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	return func() { f.Close() }, nil
}

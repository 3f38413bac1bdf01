package program

import (
	"errors"
	"fmt"
	"syscall"

	"hubbub/protocol/datafolder"
)

// OwnData is MakeData for a program that must be the only one of its name that works on
// the folder. Call release at the end. If the process is killed, the kernel releases
// the folder.
func (e *Env) OwnData() (release func(), err error) {
	if _, err := e.MakeData(); err != nil {
		return nil, err
	}
	f, err := datafolder.Lock(e.DataFile(e.Name+".lock"), false)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, fmt.Errorf("another %s works on the data folder %s; give this one another --data", e.Name, e.Data)
	}
	if err != nil {
		return nil, fmt.Errorf("locking the data folder: %w", err)
	}
	return func() { f.Close() }, nil //nolint:errcheck // nothing was written
}

package process

import (
	"errors"
	"fmt"

	"hubbub/peers/system"

	"golang.org/x/sys/unix"
)

// canFind reports whether processes can be found again.
const canFind = true

// limit bounds the memory of a process.
func limit(pid int, l system.Limits) error {
	if l.Memory <= 0 {
		return nil
	}
	bound := &unix.Rlimit{Cur: uint64(l.Memory), Max: uint64(l.Memory)}
	if err := unix.Prlimit(pid, unix.RLIMIT_DATA, bound, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("limiting its memory: %w", err)
	}
	return nil
}

package wire

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unread returns how many written bytes the other side's machine has not taken
// from the kernel's queue yet, or 0 where that cannot be known.
func unread(raw syscall.RawConn) int {
	if raw == nil {
		return 0
	}
	queued := 0
	err := raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
			queued = n
		}
	})
	if err != nil {
		return 0
	}
	return queued
}

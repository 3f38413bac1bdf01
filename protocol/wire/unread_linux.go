package wire

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unread returns how many written bytes in the kernel's queue the other side's machine
// has not acknowledged yet, or 0 if that is unknown.
func unread(raw syscall.RawConn) int { return queue(raw, unix.SIOCOUTQ) }

// arrived returns how many bytes in the kernel's queue this program has not read yet, or
// 0 if that is unknown.
func arrived(raw syscall.RawConn) int { return queue(raw, unix.SIOCINQ) }

// queue returns the length of one of a socket's queues.
func queue(raw syscall.RawConn, request uint) (length int) {
	if raw == nil {
		return 0
	}
	err := raw.Control(func(fd uintptr) {
		if n, err := unix.IoctlGetInt(int(fd), request); err == nil {
			length = n
		}
	})
	if err != nil {
		return 0
	}
	return length
}

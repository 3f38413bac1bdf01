package wire

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unread returns how many written bytes the other side's machine has not taken
// from the kernel's queue yet, or 0 where that cannot be known.
func unread(raw syscall.RawConn) int { return queue(raw, unix.SIOCOUTQ) }

// arrived returns how many bytes have come that this program has not taken from
// the kernel's queue yet, or 0 where that cannot be known.
func arrived(raw syscall.RawConn) int { return queue(raw, unix.SIOCINQ) }

// queue asks for the length of one of a socket's queues.
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

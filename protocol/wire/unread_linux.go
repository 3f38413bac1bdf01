package wire

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentBytes returns how many bytes in the kernel's queue the peer's machine has not
// acknowledged, or 0 if that is unknown.
func unsentBytes(raw syscall.RawConn) int { return queue(raw, unix.SIOCOUTQ) }

// unreadBytes returns how many bytes in the kernel's queue this program has not read, or 0 if
// that is unknown.
func unreadBytes(raw syscall.RawConn) int { return queue(raw, unix.SIOCINQ) }

// hungUp reports whether the peer has closed its direction, even if input is still unread.
func hungUp(raw syscall.RawConn) (gone bool) {
	if raw == nil {
		return false
	}
	err := raw.Control(func(fd uintptr) {
		list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(list, 0)
		gone = err == nil && n > 0
	})
	return gone && err == nil
}

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

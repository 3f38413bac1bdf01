//go:build !linux

package wire

import "syscall"

// unread is unknown here, so a side that reads very slowly may count as one that does
// not read.
func unread(syscall.RawConn) int { return 0 }

// arrived is unknown here, so a side whose pong waits behind much other input may count
// as one that sends none.
func arrived(syscall.RawConn) int { return 0 }

// hungUp reports false: it is unknown.
func hungUp(syscall.RawConn) bool { return false }

//go:build !linux

package wire

import "syscall"

// unsentBytes is unknown here, so a peer that reads very slowly may count as one that does not
// read.
func unsentBytes(syscall.RawConn) int { return 0 }

// unreadBytes is unknown here, so a peer whose pong waits behind other input may count as one
// that sends none.
func unreadBytes(syscall.RawConn) int { return 0 }

// hungUp returns false, because the state is unknown.
func hungUp(syscall.RawConn) bool { return false }

//go:build unix && !linux

package fleet

import "syscall"

// childAttributes puts a child into a process group of its own, so that Ctrl-C
// at the terminal reaches only the parent, which stops the children in order.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

package fleet

import "syscall"

// childAttributes puts a child into a process group of its own, so that Ctrl-C
// at the terminal reaches only the parent, which stops the children in order;
// and has the kernel end it when the parent is killed.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

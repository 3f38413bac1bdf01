package datafolder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// reach gives access to a folder inside a closed folder of root, such as the folders of systemd's
// dynamic users in /var/lib/private. It creates a mount namespace for this process, in which
// root's folder contains only that folder, the path that leads to it, and the working folder. It
// then executes the program again as the user, and does not return. If the folder is accessible,
// it does nothing.
func reach(path string, id, group int) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil //nolint:nilerr // it does not exist yet
	}
	closed := ""
	for above := filepath.Dir(real); above != "/"; above = filepath.Dir(above) {
		info, err := os.Stat(above)
		if err != nil {
			return err
		}
		if s, _ := info.Sys().(*syscall.Stat_t); s.Mode&0o001 == 0 && !(int(s.Uid) == id && s.Mode&0o100 != 0) &&
			!(int(s.Gid) == group && s.Mode&0o010 != 0) {
			closed = above
		}
	}
	if closed == "" {
		return nil
	}
	given, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	var folder *os.File
	runtime.LockOSThread() // only this thread switches the user, and continues after the execution
	steps := []struct {
		what string
		do   func() error
	}{
		{"unshare", func() error { return syscall.Unshare(syscall.CLONE_NEWNS) }},
		{"mount /", func() error { return syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") }},
		{"open", func() (err error) {
			folder, err = os.Open(real)
			return err
		}},
		{"mount " + closed, func() error {
			return syscall.Mount("none", closed, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "mode=755,size=64k")
		}},
		{"mkdir " + real, func() error { return os.MkdirAll(real, 0o755) }},
		{"link " + given, func() error {
			if given == real || !isBelow(given, closed) {
				return nil
			}
			return errors.Join(os.MkdirAll(filepath.Dir(given), 0o755), os.Symlink(real, given))
		}},
		{"mount " + real, func() error {
			return syscall.Mount(fmt.Sprintf("/proc/self/fd/%d", folder.Fd()), real, "", syscall.MS_BIND|syscall.MS_REC,
				"")
		}},
		{"chdir " + here, func() error {
			if !isBelow(here, closed) {
				return nil
			}
			return errors.Join(os.MkdirAll(here, 0o755), syscall.Chdir(here))
		}},
		{"setgroups", func() error { return only(syscall.SYS_SETGROUPS, 0, 0, 0) }},
		{"setgid", func() error { return only(syscall.SYS_SETRESGID, group, group, group) }},
		{"setuid", func() error { return only(syscall.SYS_SETRESUID, id, id, id) }},
		{"exec", func() error { return syscall.Exec("/proc/self/exe", os.Args, os.Environ()) }},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return fmt.Errorf("reaching it inside %s, %s: %w", closed, step.what, err)
		}
	}
	return nil
}

// isBelow reports whether an absolute path is a folder or lies in it.
func isBelow(path, folder string) bool { return strings.HasPrefix(path+"/", folder+"/") }

// only makes a system call that affects this thread alone.
func only(call uintptr, a, b, c int) error {
	if _, _, errno := syscall.RawSyscall(call, uintptr(a), uintptr(b), uintptr(c)); errno != 0 {
		return errno
	}
	return nil
}

package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// Advice says what to do about an error that does not say so itself: a file that may
// not be touched belongs to somebody. It is empty if there is no advice.
func Advice(err error) string {
	var denied *fs.PathError
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &denied) {
		return ""
	}
	return adviceFor(denied.Path, os.Geteuid())
}

// adviceFor says which user may look at a path that this user may not touch.
func adviceFor(path string, self int) string {
	for {
		info, err := os.Lstat(path)
		if err == nil {
			stat, ok := info.Sys().(*syscall.Stat_t)
			if !ok || int(stat.Uid) == self || stat.Uid == 0 && info.IsDir() && info.Mode().Perm()&0o005 != 0 {
				return "" // the mode is the reason, or the folder is open to everybody
			}
			owner := userName(stat.Uid)
			return fmt.Sprintf("%s belongs to %s: run this as that user (sudo -u %s ...), or name another folder with --data", path, owner, owner)
		}
		if filepath.Dir(path) == path {
			return ""
		}
		path = filepath.Dir(path)
	}
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "#" + id // as sudo takes it
}

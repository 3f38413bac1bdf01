package datafolder

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

// ActAsOwner permanently switches a process of root to the owner of the data folder at path,
// before it works there. Links that the owner placed in the folder can then lead to nothing that
// the owner could not reach alone, whoever opens them, including SQLite. New files belong to the
// owner without a chown. A folder that does not exist yet will belong to the owner of its parent.
//
// The folders in made are new ones that root makes for the owner, where the owner could not.
// ActAsOwner refuses a data folder that root must not work on. For other users than root it does
// nothing.
func ActAsOwner(path string, made ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	there := path
	info, err := os.Stat(there)
	for ; errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR); info, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	if err == nil {
		err = checkPath(there)
	}
	if err == nil && there == path {
		err = errors.Join(noLinks(path), noLinks(filepath.Join(path, "tokens")))
	}
	if err != nil {
		return err
	}
	if owner := ownerOf(info); owner != 0 {
		for _, folder := range made {
			if err := makeFor(int(owner), folder); err != nil {
				return err
			}
		}
		return switchUser(int(owner), path)
	}
	if there == path && info.Mode()&0o002 != 0 {
		return fmt.Errorf("every user may write to the data folder %s, so root does not use it: run chmod o-w on it, "+
			"or name another with --data", path)
	}
	return nil
}

// makeFor makes a folder inside a folder of root and gives it to another user. Elsewhere the user
// can make it, or must not.
func makeFor(id int, path string) error {
	path, err := filepath.Abs(path)
	if err == nil {
		err = checkPath(filepath.Dir(path))
	}
	if err != nil {
		return err
	}
	if around, err := os.Stat(filepath.Dir(path)); err != nil || ownerOf(around) != 0 {
		return err
	}
	if err := Mkdir(path); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil // without giving it away
		}
		return err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chown(id, groupOf(id)), f.Close())
}

// switchUser switches this process from root to another user, with only the user's own group.
func switchUser(id int, path string) error {
	group := groupOf(id)
	err := reach(path, id, group)
	if err == nil {
		err = errors.Join(syscall.Setgroups([]int{group}), syscall.Setgid(group), syscall.Setuid(id))
	}
	if err != nil {
		return fmt.Errorf("root works on the data folder %s only as its owner, %s, and cannot become that user (%w): "+
			"run this as that user, or name another folder with --data",
			path, UserName(uint32(id)), err)
	}
	return nil
}

// groupOf returns the group of a user. Dynamic users of systemd have a group with the number of
// the user.
func groupOf(id int) int {
	if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
		if group, err := strconv.Atoi(u.Gid); err == nil {
			return group
		}
	}
	return id
}

// checkPath returns an error if path contains a link that another user may have placed, which
// root must not follow.
func checkPath(path string) error {
	for ; filepath.Dir(path) != path; path = filepath.Dir(path) {
		info, err := os.Lstat(path)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		around, err := os.Stat(filepath.Dir(path))
		if err != nil {
			return err
		}
		if owner := max(ownerOf(info), ownerOf(around)); owner != 0 {
			return fmt.Errorf("%s is a link of %s, and root follows only links that root has made: name the folder "+
				"that you mean with --data", path, UserName(owner))
		}
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		if err := checkPath(target); err != nil {
			return err
		}
	}
	return nil
}

// noLinks returns an error if a folder contains a link, or a hard link to another user's file.
func noLinks(folder string) error {
	around, err := os.Stat(folder)
	if err != nil {
		return nil //nolint:nilerr // nothing is in it
	}
	entries, err := os.ReadDir(folder)
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		info, err := os.Lstat(path)
		if err != nil {
			continue // removed meanwhile
		}
		what := ""
		switch s, _ := info.Sys().(*syscall.Stat_t); {
		case info.Mode()&fs.ModeSymlink != 0:
			what = "a link"
		case info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice) != 0:
			what = "no file but a pipe or a device"
		case info.Mode().IsRegular() && s.Nlink > 1 && s.Uid != ownerOf(around):
			what = "another name for a file of " + UserName(s.Uid)
		default:
			continue
		}
		return fmt.Errorf("%s is %s, and root uses none in a data folder: look at it with ls -l, and remove it if it "+
			"is not yours, or run this as the owner of %s",
			path, what, folder)
	}
	return err
}

func ownerOf(info fs.FileInfo) uint32 {
	s, _ := info.Sys().(*syscall.Stat_t)
	return s.Uid
}

// UserName returns the name of a user, or the number in the form that sudo accepts.
func UserName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "#" + id
}

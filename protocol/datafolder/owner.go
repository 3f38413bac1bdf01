package datafolder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// ActAsOwner permanently switches a process of root to the owner of the data folder at path.
// Links in the folder then give the owner no additional access, whichever code opens them,
// including SQLite. New files belong to the owner without a chown. A folder that does not exist
// will belong to the owner of its parent.
//
// Root creates the folders in made for the owner if the owner cannot. ActAsOwner returns an error
// for a data folder that root must not work on. For other users than root, it does nothing.
func ActAsOwner(path string, made ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := checkPath(path); err != nil { // before anything is read through a link
		return err
	}
	there := path
	info, err := os.Stat(there)
	for ; errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR); info, err = os.Stat(there) {
		there = filepath.Dir(there)
	}
	if err == nil && there == path {
		err = noLinks(path)
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

// makeFor creates a folder inside a folder of root and gives it to another user. It does nothing
// elsewhere, because the user can create it, or must not.
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
			return nil // its owner does not change
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
// root must not follow. It follows a link only after checking it.
func checkPath(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	at, rest, links := "/", strings.Split(path, "/"), 0 // at contains no link
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, name)
		info, err := os.Lstat(next)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return nil // nothing is below
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink == 0:
			at = next
			continue
		}
		around, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if owner := max(ownerOf(info), ownerOf(around)); owner != 0 {
			return fmt.Errorf("%s is a link of %s, and root follows only its own links: name the folder "+
				"with --data instead", next, UserName(owner))
		}
		if links++; links > maxLinks {
			return &fs.PathError{Op: "follow", Path: path, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return nil
}

// maxLinks bounds the links that are followed in one path, as in Linux.
const maxLinks = 40

// noLinks returns an error if a data folder or its folder of tokens contains a link, or a hard
// link to another user's file.
func noLinks(path string) error {
	folder, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil //nolint:nilerr // nothing is in it
	}
	defer folder.Close() //nolint:errcheck // nothing was written
	if err := noLinksIn(folder); err != nil {
		return err
	}
	path = filepath.Join(path, "tokens")
	tokens, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	defer tokens.Close() //nolint:errcheck // nothing was written
	return noLinksIn(tokens)
}

func noLinksIn(folder *os.File) error {
	around, err := folder.Stat()
	if err != nil {
		return err
	}
	names, err := folder.Readdirnames(-1)
	for _, name := range names {
		path := filepath.Join(folder.Name(), name)
		info, err := os.Lstat(path)
		if err != nil {
			continue // removed meanwhile
		}
		what := ""
		switch s, _ := info.Sys().(*syscall.Stat_t); {
		case info.Mode()&fs.ModeSymlink != 0:
			what = "a link"
		case info.Mode()&(fs.ModeNamedPipe|fs.ModeDevice) != 0:
			what = "a pipe or a device"
		case info.Mode().IsRegular() && s.Nlink > 1 && s.Uid != ownerOf(around):
			what = "another name for a file of " + UserName(s.Uid)
		default:
			continue
		}
		return fmt.Errorf("%s is %s, which root refuses in a data folder: check it with ls -l, and remove it if it "+
			"is not yours, or run this as the owner of %s",
			path, what, folder.Name())
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

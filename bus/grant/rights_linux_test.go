package grant_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"hubbub/bus/grant"

	"golang.org/x/sys/unix"
)

// TestFile_ReadsFileThatBecomesReadable writes credentials that the bus may not
// read, and then gives the bus access without changing the file.
func TestFile_ReadsFileThatBecomesReadable(t *testing.T) {
	dir, err := os.MkdirTemp("", "grant") // those of the test are its user's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, grant.FileName)
	f := grant.NewFile(path)
	if _, err := f.Create(bridge); err != nil {
		t.Fatal(err)
	}
	other := bridge
	other.Name = "other"
	if _, err := grant.NewFile(path).Create(other); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(path, 0)); err != nil {
		t.Fatal(err)
	}
	dropRights(t)
	if err := f.Reload(); !errors.Is(err, fs.ErrPermission) || len(f.List()) != 1 {
		t.Fatalf("a file that may not be read: %v, %v", err, f.List())
	}
	if err := f.Reload(); err != nil {
		t.Errorf("the same fault again: %v", err)
	}
	restoreRights(t)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(); err != nil || len(f.List()) != 2 {
		t.Errorf("once it may be read: %v, %v", err, f.List())
	}
}

// dropRights makes this test's thread open files as an ordinary user if it runs
// as root. regainRights ends that.
func dropRights(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if os.Geteuid() == 0 {
		setUser(t, 12345)
	}
	t.Cleanup(func() { restoreRights(t) })
}

func restoreRights(t *testing.T) {
	t.Helper()
	setUser(t, os.Geteuid())
	runtime.UnlockOSThread()
}

func setUser(t *testing.T, uid int) {
	t.Helper()
	_, err := unix.SetfsuidRetUid(uid) // it says only who it was before
	if now, _ := unix.SetfsuidRetUid(-1); err != nil || now != uid {
		t.Skipf("this thread cannot open files as another user: it is %d, %v", now, err)
	}
}

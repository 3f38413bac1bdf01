package datafolder

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

// TestALinkIsNotFollowedToLock plants links where root locks a file in another user's
// folder: what they point to would be given to that user.
func TestALinkIsNotFollowedToLock(t *testing.T) {
	dir := t.TempDir()
	treasure := filepath.Join(t.TempDir(), "treasure")
	if err := os.WriteFile(treasure, []byte("root's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, 12345, 12345); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"to a file": treasure, "to nothing": filepath.Join(dir, "none")} {
		path := filepath.Join(dir, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		if f, err := Lock(path, true); !errors.Is(err, syscall.ELOOP) {
			t.Errorf("a link %s was locked: %v, %v", name, f, err)
		}
	}
	for _, path := range []string{treasure, filepath.Join(dir, "none")} {
		if owner, err := ownerOf(path); err == nil && owner != uint32(os.Geteuid()) {
			t.Errorf("%s belongs to %d now", path, owner)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "none")); err == nil {
		t.Error("a file was made through a link")
	}
}

// TestOnlyANewLockIsGivenAway has root lock a file twice, its own and one that is there.
func TestOnlyANewLockIsGivenAway(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	f, err := Lock(path, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock(path, false); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("a second lock: %v", err)
	}
	f.Close()
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{"lock": 0, "new": 12345} {
		f, err := Lock(filepath.Join(dir, name), false)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if owner, err := ownerOf(f.Name()); err != nil || owner != want {
			t.Errorf("%s belongs to %d, %v; want %d", name, owner, err, want)
		}
	}
}

func ownerOf(path string) (uint32, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return 0, err
	}
	return info.Sys().(*syscall.Stat_t).Uid, nil
}

// TestARenameSurvivesAPowerCut watches for the folder being synced after the rename: a
// revoked token would live again without it.
func TestARenameSurvivesAPowerCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var synced []string
	before := syncFolder
	t.Cleanup(func() { syncFolder = before })
	syncFolder = func(folder string) error {
		if _, err := os.Lstat(path); err != nil {
			t.Error("synced before the rename")
		}
		synced = append(synced, folder)
		return before(folder)
	}
	if err := Write(path, []byte("x")); err != nil || !slices.Equal(synced, []string{filepath.Dir(path)}) {
		t.Errorf("synced %v, %v", synced, err)
	}
	failed := errors.New("no sync")
	syncFolder = func(string) error { return failed }
	if err := Write(path, []byte("y")); !errors.Is(err, failed) {
		t.Errorf("a sync that failed: %v", err)
	}
}

package program

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hubbub/protocol/datafolder"
)

// TestAdvice_NamesTheOwner looks at the folder of this user as another user.
func TestAdvice_NamesTheOwner(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	self := os.Geteuid()
	missing := filepath.Join(folder, "tokens", "cli")
	if got := adviceFor(missing, "", self+1); !strings.HasPrefix(got, folder+" belongs to ") || !strings.Contains(got, "sudo -u "+datafolder.UserName(uint32(self))) {
		t.Errorf("to another user: %q", got)
	}
	if got := adviceFor(missing, "", self); got != "" {
		t.Errorf("to its owner: %q", got)
	}
	if got := adviceFor("/no-such-folder-of-root", "", self+1); got != "" {
		t.Errorf("where everybody may look, but only root may write: %q", got)
	}
	if got := datafolder.UserName(4_000_000_000); got != "#4000000000" {
		t.Errorf("a user without a name: %q", got)
	}
	_, err := os.Open(missing)
	if got := Advice(fmt.Errorf("reading: %w", err), ""); err == nil || got != "" {
		t.Errorf("to a missing file (%v): %q", err, got)
	}
}

// TestAdvice_SendsNobodyBackToRoot looks at a file of root as the owner of the data folder. Root
// works there as that owner, so becoming root does not help.
func TestAdvice_SendsNobodyBackToRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make folders of others")
	}
	const owner = 12345
	around := t.TempDir()
	data, closed := filepath.Join(around, "data"), filepath.Join(around, "closed")
	err := errors.Join(os.Mkdir(data, 0o755), os.Chown(data, owner, owner), os.Mkdir(closed, 0o700),
		os.WriteFile(filepath.Join(around, "token"), nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, data, belongs string }{
		{filepath.Join(closed, "hubbub.toml"), data, closed},
		{filepath.Join(closed, "a", "cert.pem"), filepath.Join(data, "new", "er"), closed},
		{closed, data, closed},
		{filepath.Join(around, "token"), data, filepath.Join(around, "token")},
	} {
		got := adviceFor(c.path, c.data, owner)
		want := fmt.Sprintf("%s belongs to root, who works on %s only as its owner: give #12345 access or a copy", c.belongs, c.data)
		if !strings.HasPrefix(got, want) || strings.Contains(got, "sudo") {
			t.Errorf("%s: %q; want %q", c.path, got, want)
		}
	}
	if got := adviceFor(closed, closed, owner); !strings.Contains(got, "sudo -u root") {
		t.Errorf("for a data folder of root: %q", got)
	}
}

// TestAdvice_ForPlaces covers places where nothing can be written, or few files can be
// opened.
func TestAdvice_ForPlaces(t *testing.T) {
	for err, want := range map[error]string{
		&fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}:                            "name a writable folder",
		fmt.Errorf("locking: %w", &fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}): "name a writable folder",
		&fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}:                           "ulimit -n",
		fmt.Errorf("socket: %w", syscall.ENFILE):                                            "LimitNOFILE",
		fmt.Errorf("socket: %w", syscall.EIO):                                               "",
	} {
		if got := Advice(err, ""); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%v: %q; want %q", err, got, want)
		}
	}
}

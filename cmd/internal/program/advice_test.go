package program

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/protocol/datafolder"
)

// TestAdvice_NamesTheOwner looks at the folder of this user with the
// eyes of another one.
func TestAdvice_NamesTheOwner(t *testing.T) {
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	self := os.Geteuid()
	missing := filepath.Join(folder, "tokens", "cli")
	if got := adviceFor(missing, self+1); !strings.HasPrefix(got, folder+" belongs to ") || !strings.Contains(got, "sudo -u "+datafolder.UserName(uint32(self))) {
		t.Errorf("to another user: %q", got)
	}
	if got := adviceFor(missing, self); got != "" {
		t.Errorf("to its owner: %q", got)
	}
	if got := adviceFor("/no-such-folder-of-root", self+1); got != "" {
		t.Errorf("where everybody may look, but only root may write: %q", got)
	}
	if got := datafolder.UserName(4_000_000_000); got != "#4000000000" {
		t.Errorf("a user without a name: %q", got)
	}
	_, err := os.Open(missing)
	if got := Advice(fmt.Errorf("reading: %w", err)); err == nil || got != "" {
		t.Errorf("to a missing file (%v): %q", err, got)
	}
}

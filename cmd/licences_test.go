package cmd_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLicences_AreListed compares deploy/LICENCES.md with the linked modules.
func TestLicences_AreListed(t *testing.T) {
	t.Parallel()
	if out, err := exec.CommandContext(t.Context(), filepath.Join("..", "scripts", "licences"), "--check").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

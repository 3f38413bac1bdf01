package cmd_test

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// TestLicencesAreListed compares deploy/LICENCES.md with what is linked.
func TestLicencesAreListed(t *testing.T) {
	if out, err := exec.CommandContext(t.Context(), filepath.Join("..", "scripts", "licences"), "--check").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

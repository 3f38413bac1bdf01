package laws

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestFrugal_BuildsTheRepositoryOfAnotherUser checks that programs are built without the commit
// where git refuses the repository.
func TestFrugal_BuildsTheRepositoryOfAnotherUser(t *testing.T) {
	if exec.CommandContext(t.Context(), "git", "rev-parse", "--git-dir").Run() != nil {
		t.Skip("there is no repository that git reads")
	}
	flags := func(env ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-c", `set -eu; . scripts/frugal; echo "$GOFLAGS"`)
		cmd.Env = append(append(os.Environ(), "GOFLAGS="), env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if own := flags(); strings.Contains(own, "-buildvcs") {
		t.Errorf("the own repository is built with %s", own)
	}
	another := []string{"GIT_TEST_ASSUME_DIFFERENT_OWNER=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"}
	if other := flags(another...); !strings.Contains(other, " -buildvcs=false") {
		t.Errorf("the repository of another user is built with %s", other)
	}
}

package laws

import (
	"os"
	"os/exec"
	"path/filepath"
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

// TestBrief_MakesNoReleaseWithoutGNUTar replaces make and tar.
func TestBrief_MakesNoReleaseWithoutGNUTar(t *testing.T) {
	for version, release := range map[string]bool{"tar (GNU tar) 1.34": true, "bsdtar 3.5.3 - libarchive 3.7.4": false} {
		bin := t.TempDir()
		for name, script := range map[string]string{"make": `echo "make $1"`, "tar": "echo '" + version + "'", "touch": "true"} {
			if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		brief := exec.CommandContext(t.Context(), "scripts/brief")
		brief.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		out, err := brief.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "make mutate\n") {
			t.Fatalf("%s: %v: %s", version, err, out)
		}
		if made, why := strings.Contains(string(out), "make package\n"), strings.Contains(string(out), "GNU tar"); made != release || why == release {
			t.Errorf("with %s: a release is made: %t, a reason is given: %t", version, made, why)
		}
	}
}

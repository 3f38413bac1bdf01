// Package cmd_test builds the programs and runs them as an operator would, with real sockets and
// files.
package cmd_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"hubbub/peers/agent/harness/harnesstest"
)

// binaries is the folder with the built programs.
var binaries string

func TestMain(m *testing.M) {
	harnesstest.RunReferenceIfAsked()
	harnesstest.RunHoldIfAsked()
	runBridgeIfAsked()
	if os.Getenv(harnesstest.ACPRoleEnv) != "" {
		harnesstest.ServeACP()
		os.Exit(0)
	}
	os.Exit(buildAndRun(m))
}

// buildAndRun builds the programs as scripts/build does, without the commit, unless HUBBUB_PROGRAMS
// names a folder with programs.
func buildAndRun(m *testing.M) int {
	if binaries = os.Getenv("HUBBUB_PROGRAMS"); binaries != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "hubbub-programs-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the system clears it too
	build := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", dir+string(filepath.Separator), "./...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the programs: %v\n%s", err, out)
		return 1
	}
	binaries = dir
	return m.Run()
}

// built returns the path of a program.
func built(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(binaries, name)
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("there is no program %s in %s", name, binaries)
	}
	return path
}

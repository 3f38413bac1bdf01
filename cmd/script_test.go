package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestScripts runs the shell sessions of testdata/script with the programs in PATH. Each has its
// own address ($LISTEN, HUBBUB_BUS).
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			addr := bustest.FreeAddress(t)
			env.Setenv("PATH", binaries+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("LISTEN", addr)
			env.Setenv("HUBBUB_BUS", "ws://"+addr)
			env.Setenv("HUBBUB_DATA", filepath.Join(env.WorkDir, "data"))
			env.Setenv("HOME", env.WorkDir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"until": until,
			"mode":  mode,
		},
	})
}

// patience bounds the waits of scripts.
const patience = 2 * time.Minute

// until repeats a program until its output matches: until PATTERN PROGRAM ARGS...
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until PATTERN PROGRAM ARGS...")
	}
	pattern := regexp.MustCompile(args[0])
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		began := time.Now()
		if ts.Exec(args[1], args[2:]...) == nil && pattern.MatchString(ts.ReadFile("stdout")) {
			return
		}
		<-pauseSince(began)
	}
	ts.Fatalf("%s never said %s; last: %s%s", strings.Join(args[1:], " "), args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
}

// mode checks a file's permissions: mode 600 FILE.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode 600 FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

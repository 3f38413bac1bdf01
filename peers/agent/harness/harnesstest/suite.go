package harnesstest

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// suiteEnv is the command of the public MCP conformance suite. The script
// scripts/mcp-conformance.sh installs the suite and sets the variable.
const suiteEnv = "HUBBUB_MCP_CONFORMANCE"

// revisions are the revisions of the protocol to test.
var revisions = []string{"2025-11-25", "2026-07-28"}

var (
	scenarioPattern = regexp.MustCompile(
		`(?m)^  - (\S+) \[(.*)\]$`,
	) // a scenario in the suite's list, with its revisions
	failurePattern = regexp.MustCompile(`(?m)\[([a-z]\S*) *\] \S*FAILURE\S* (.*)$`) // a check in a scenario's report
)

// Conformance runs every scenario of the suite for a side, "server" or "client", in each
// revision. Scenarios and checks whose name begins with a key of without are skipped for the
// given reason. An unused key fails the test.
func Conformance(t *testing.T, side string, without map[string]string, args ...string) {
	command := strings.Fields(os.Getenv(suiteEnv))
	if len(command) == 0 {
		t.Skipf("%s is not set: make mcp-conformance installs the suite and sets it", suiteEnv)
	}
	run := func(t *testing.T, args ...string) (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, command[0], append(command[1:], args...)...)
		cmd.Dir = t.TempDir() // for the suite's results
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	list, err := run(t, "list", "--"+side)
	scenarios := scenarioPattern.FindAllStringSubmatch(list, -1)
	if err != nil || len(scenarios) == 0 {
		t.Fatalf("the suite lists no scenarios: %v\n%s", err, list)
	}
	used := map[string]bool{}
	reason := func(name string) string {
		for prefix, reason := range without {
			if strings.HasPrefix(name, prefix) {
				used[prefix] = true
				return reason
			}
		}
		return ""
	}
	for _, revision := range revisions {
		for _, s := range scenarios {
			if !strings.Contains(s[2], revision) {
				continue
			}
			t.Run(revision+"/"+s[1], func(t *testing.T) {
				if why := reason(s[1]); why != "" {
					t.Skip(why)
				}
				report, err := run(
					t,
					append([]string{side, "--scenario", s[1], "--spec-version", revision}, args...)...)
				t.Log(report)
				failures := failurePattern.FindAllStringSubmatch(report, -1)
				for _, f := range failures {
					if why := reason(f[1]); why != "" {
						t.Logf("not checked: %s: %s", f[1], why)
					} else {
						t.Errorf("%s: %s", f[1], f[2])
					}
				}
				if err != nil && len(failures) == 0 {
					t.Error(err)
				}
			})
		}
	}
	some := strings.Contains(flag.Lookup("test.run").Value.String(), "/") // only a part of the tests ran
	for prefix := range without {
		if !used[prefix] && !some {
			t.Errorf("nothing in the suite is called %s, or it passes: remove it", prefix)
		}
	}
}

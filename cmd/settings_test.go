package cmd_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// helpOf returns the help of a program.
func helpOf(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), built(t, name), append(args, "--help")...).Output()
	if err != nil {
		t.Fatalf("%s --help: %v", name, err)
	}
	return string(out)
}

var (
	tableLine = regexp.MustCompile(`^#? ?\[([a-z]+)\]`)
	keyLine   = regexp.MustCompile(`^#? ?([a-z0-9-]+) = `)
)

// TestSampleSettings_AreCurrent checks that every key of deploy/hubbub.toml, including those in
// comments, is a flag of its program.
func TestSampleSettings_AreCurrent(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "deploy", "hubbub.toml"))
	if err != nil {
		t.Fatal(err)
	}
	table, keys := "", 0
	for line := range strings.Lines(string(text)) {
		if m := tableLine.FindStringSubmatch(line); m != nil {
			table = m[1]
		} else if m := keyLine.FindStringSubmatch(line); m != nil && table != "" {
			keys++
			if !strings.Contains(helpOf(t, "hubbub-"+table), "--"+m[1]+" ") {
				t.Errorf("hubbub-%s has no flag --%s", table, m[1])
			}
		}
	}
	if keys < 10 {
		t.Errorf("only %d keys were found", keys)
	}
}

// TestProgramTable_NamesFlags checks the table of programs in docs/operating.md.
func TestProgramTable_NamesFlags(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "operating.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| `(hubbub[a-z-]*)` \\|(.*)$").FindAllStringSubmatch(string(text), -1)
	if len(rows) != 8 {
		t.Errorf("the table has %d programs", len(rows))
	}
	for _, row := range rows {
		help := helpOf(t, row[1])
		for _, m := range regexp.MustCompile("`(--[a-z-]+)`").FindAllStringSubmatch(row[2], -1) {
			if !regexp.MustCompile(m[1] + `(\s|$)`).MatchString(help) {
				t.Errorf("%s has no flag %s", row[1], m[1])
			}
		}
		if row[1] != "hubbub" {
			continue
		}
		commands := regexp.MustCompile("`(up [a-z ]+)`").FindStringSubmatch(row[2])
		if commands == nil {
			t.Fatal("the table does not list the commands")
		}
		for name := range strings.FieldsSeq(commands[1]) {
			if !regexp.MustCompile(`(?m)^  ` + name + ` `).MatchString(help) {
				t.Errorf("hubbub has no command %s", name)
			}
		}
	}
}

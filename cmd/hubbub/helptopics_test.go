package main

import (
	"regexp"
	"strings"
	"testing"

	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

// commandInText is a command of ours as a text shows it: in an indented line, or
// between backquotes.
var commandInText = regexp.MustCompile("(?m)^    (hubbub .*)$|`(hubbub [^`]*)`")

// TestTopicsNameRealCommands parses every command in the texts of help as the
// command line would.
func TestTopicsNameRealCommands(t *testing.T) {
	for _, topic := range topics() {
		found := 0
		for _, m := range commandInText.FindAllStringSubmatch(topic.text, -1) {
			line, _, _ := strings.Cut(m[1]+m[2], "   ") // what follows explains it
			checkCommandLine(t, topic.name, strings.Fields(line))
			found++
		}
		if found == 0 {
			t.Errorf("the text of %s shows no command", topic.name)
		}
	}
}

func checkCommandLine(t *testing.T, where string, words []string) {
	t.Helper()
	root := newRoot()
	program.Attach(root)
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words[1:])
	if err != nil || cmd == root {
		t.Errorf("%s: %q is no command: %v", where, strings.Join(words, " "), err)
		return
	}
	for i, w := range rest {
		rest[i] = strings.Trim(w, "'")
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		t.Errorf("%s: %q: %v", where, strings.Join(words, " "), err)
	}
	if cmd.Args != nil && cmd.Name() != "help" {
		if err := cmd.Args(cmd, cmd.Flags().Args()); err != nil && !cmd.HasSubCommands() && !helpAsked(cmd) {
			t.Errorf("%s: %q: %v", where, strings.Join(words, " "), err)
		}
	}
}

func helpAsked(cmd *cobra.Command) bool {
	asked, err := cmd.Flags().GetBool("help")
	return err == nil && asked
}

func TestTopicsFitATerminal(t *testing.T) {
	for _, topic := range topics() {
		for line := range strings.Lines(topic.text) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 140 {
				t.Errorf("%s has a line of %d characters: %s", topic.name, n, line)
			}
		}
	}
}

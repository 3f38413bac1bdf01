package main

import (
	"strings"
	"testing"

	"hubbub/cmd/internal/program"
	"hubbub/docs"

	"github.com/spf13/cobra"
)

func TestTopics_FitTerminal(t *testing.T) {
	for _, topic := range docs.Topics() {
		for line := range strings.Lines(topicText(topic)) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 && !strings.HasPrefix(line, "    ") {
				t.Errorf("%s has a line of %d characters: %s", topic.Name, n, line)
			}
		}
	}
}

// TestHelp_FitsTerminal checks the help of every command.
func TestHelp_FitsTerminal(t *testing.T) {
	root := newRoot()
	program.Attach(root)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		var help strings.Builder
		cmd.SetOut(&help)
		if err := cmd.Help(); err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(help.String()) {
			if n := len([]rune(strings.TrimRight(line, " \n"))); n > 80 {
				t.Errorf("%s --help has a line of %d characters: %s", cmd.CommandPath(), n, line)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(root)
}

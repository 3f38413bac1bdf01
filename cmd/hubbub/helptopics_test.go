package main

import (
	"strings"
	"testing"

	"hubbub/cmd/internal/program"

	"github.com/spf13/cobra"
)

func TestTopics_FitTerminal(t *testing.T) {
	for _, topic := range topics() {
		for line := range strings.Lines(topic.Text) {
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
		for line := range strings.Lines(cmd.Long + "\n" + cmd.UsageString()) {
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

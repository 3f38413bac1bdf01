package program

import (
	"slices"
	"strings"

	"hubbub/cmd/internal/screen"

	"github.com/spf13/cobra"
)

// terminalWidth is that of help, in characters: any terminal shows it.
const terminalWidth = 80

// foldHelp folds the long texts of a tree of commands to the width of a terminal.
func foldHelp(cmd *cobra.Command) {
	cmd.Long = fold(cmd.Long, terminalWidth)
	for _, sub := range cmd.Commands() {
		foldHelp(sub)
	}
}

// fold wraps the paragraphs that are too wide. Indented lines belong to no paragraph
// and stay as they are.
func fold(text string, width int) string {
	var out, paragraph []string
	end := func() {
		if slices.ContainsFunc(paragraph, func(l string) bool { return screen.Width(l) > width }) {
			paragraph = screen.Wrap(strings.Join(paragraph, " "), width)
		}
		out, paragraph = append(out, paragraph...), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' {
			end()
			out = append(out, line)
			continue
		}
		paragraph = append(paragraph, line)
	}
	end()
	return strings.Join(out, "\n")
}

package program

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// terminalWidth is that of help, in characters: any terminal shows it.
const terminalWidth = 80

// foldHelp makes what a tree of commands says about itself as narrow as a
// terminal.
func foldHelp(cmd *cobra.Command) {
	cmd.Long = fold(cmd.Long, terminalWidth)
	for _, sub := range cmd.Commands() {
		foldHelp(sub)
	}
}

// fold breaks the lines of the paragraphs that are too wide anew. Indented lines
// are no paragraphs and stay.
func fold(text string, width int) string {
	var out, paragraph []string
	end := func() {
		if slices.ContainsFunc(paragraph, func(l string) bool { return len([]rune(l)) > width }) {
			paragraph = Wrap(strings.Join(paragraph, " "), width)
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

// Wrap breaks a text between words.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) > width:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

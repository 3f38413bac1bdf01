package main

import (
	"fmt"
	"regexp"
	"strings"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/docs"
	"hubbub/protocol/collab"

	"github.com/spf13/cobra"
)

// linkTarget matches a link of Markdown. A terminal shows its text alone.
var linkTarget = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// topicText returns the page that `hubbub help TOPIC` prints, as text for a
// terminal.
func topicText(t docs.Topic) string {
	text := pageText(t.Text())
	if t.Name == "broker" {
		text += "\n\n" + collab.Manual()
	}
	return text
}

// addTopics adds the pages to `hubbub help`. If a command has the name of a
// page, the command's own help refers to it. A page is laid out when it is
// shown, so that other commands do not wait for it.
func addTopics(root *cobra.Command) {
	commands := map[string]*cobra.Command{}
	for _, cmd := range root.Commands() {
		commands[cmd.Name()] = cmd
	}
	for _, t := range docs.Topics() {
		if own := commands[t.Name]; own != nil {
			own.Long = strings.TrimSpace(own.Long) + "\n\n`hubbub help " + t.Name + "` prints the page about it."
			continue
		}
		page := &cobra.Command{Use: t.Name, Short: t.Summary}
		page.SetHelpFunc(func(cmd *cobra.Command, args []string) {
			cmd.Long = topicText(t)
			root.HelpFunc()(cmd, args)
		})
		root.AddCommand(page)
	}
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // cobra has just added it
	}
	help.Args = cobra.ArbitraryArgs
	help.RunE = func(cmd *cobra.Command, args []string) error {
		name := strings.Join(args, " ")
		for _, t := range docs.Topics() {
			if t.Name == name {
				_, err := fmt.Fprintln(cmd.OutOrStdout(), topicText(t))
				return err
			}
		}
		return program.HelpOn(cmd, args)
	}
}

// pageText lays a page of the documentation out for a terminal of 80 columns.
// Headings are written in capitals, code is indented, and each row of a table
// becomes a paragraph.
func pageText(page string) string {
	var out []string
	var header []string
	code := false
	for line := range strings.SplitSeq(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code:
			out = append(out, strings.TrimRight("    "+line, " "))
		case strings.HasPrefix(line, "<!--"):
		case strings.HasPrefix(line, "#"):
			out = append(out, strings.ToUpper(strings.TrimLeft(line, "# ")))
		case strings.HasPrefix(line, "|"):
			cells := tableCells(line)
			switch {
			case header == nil:
				header = cells
			case strings.Trim(cells[0], "-: ") != "" || len(cells) > 1 && strings.Trim(cells[1], "-: ") != "":
				out = append(out, rowText(header, cells)...)
			}
		default:
			header = nil
			out = append(out, linkTarget.ReplaceAllString(line, "$1"))
		}
	}
	return strings.Join(out, "\n")
}

// tableCells splits a line of a table. A cell may hold a bar between backquotes.
func tableCells(line string) []string {
	var cells []string
	for part := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
		if n := len(cells); n > 0 && strings.Count(cells[n-1], "`")%2 == 1 {
			cells[n-1] += "|" + part
			continue
		}
		cells = append(cells, part)
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(linkTarget.ReplaceAllString(cells[i], "$1"))
	}
	return cells
}

// rowText writes a row of a table: its first cell, and the others below it.
func rowText(header, cells []string) []string {
	lines := term.Wrap(cells[0], 80)
	for i, cell := range cells[1:] {
		if cell == "" {
			continue
		}
		if name := header[min(i+1, len(header)-1)]; name != "" && len(cells) > 2 {
			cell = name + ": " + cell
		}
		for _, l := range term.Wrap(cell, 76) {
			lines = append(lines, "    "+l)
		}
	}
	return lines
}

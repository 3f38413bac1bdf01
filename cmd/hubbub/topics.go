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

// topics returns the pages of `hubbub help TOPIC` as text for a terminal, in
// the order in which help lists them.
func topics() []docs.Topic {
	list := docs.Topics()
	for i := range list {
		list[i].Text = pageText(list[i].Text)
		if list[i].Name == "broker" {
			list[i].Text += "\n\n" + collab.Manual()
		}
	}
	return list
}

// addTopics adds the pages to `hubbub help`. If a command has the name of a
// page, the command's own help refers to it.
func addTopics(root *cobra.Command) {
	texts := map[string]string{}
	for _, t := range topics() {
		texts[t.Name] = t.Text
		if own, _, err := root.Find([]string{t.Name}); err == nil && own != root {
			own.Long = strings.TrimSpace(own.Long) + "\n\n`hubbub help " + t.Name + "` prints the page about it."
			continue
		}
		root.AddCommand(&cobra.Command{Use: t.Name, Short: t.Summary, Long: t.Text})
	}
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic(err) // cobra has just added it
	}
	help.Args = cobra.ArbitraryArgs
	help.RunE = func(cmd *cobra.Command, args []string) error {
		if text := texts[strings.Join(args, " ")]; text != "" {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
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

// Package documentstest finds the commands in documents, for tests that parse or run them.
//
// A document shows a command as an indented line or between backquotes, where it must be more
// than the name of a program. Blocks between ``` are programs, not commands. Commands are
// returned in the order of the text.
package documentstest

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A Command is a command line in a document.
type Command struct {
	Where string   // name of the document
	Env   []string // variables set before the command
	Words []string // without sudo, and without the rest of a shell line
}

// String returns the command as one line, without its assignments.
func (c *Command) String() string { return strings.Join(c.Words, " ") }

var (
	codeBlock    = regexp.MustCompile("(?s)```.*?```")
	indentedLine = regexp.MustCompile(`(?m)^(?:    |#   )(\S.*)$`)
	quotedWords  = regexp.MustCompile("`([^`\n]*(?:\n[^`\n]+)?)`")
	assignments  = regexp.MustCompile(`^(?:[A-Z_]+=(?:\$\([^)]*\)|\S*) )+`)
	programWord  = regexp.MustCompile(`^(?:bin/)?hubbub(?:-[a-z]+)?$`)
)

// Find returns the commands of a document. Only Markdown files, and files without an extension,
// show commands as indented lines.
func Find(where, text string) []*Command {
	text = codeBlock.ReplaceAllStringFunc(text, func(block string) string { return strings.Repeat("\n", len(block)) })
	found := map[int]*Command{} // by position
	if ext := filepath.Ext(where); ext == ".md" || ext == "" {
		for _, m := range indentedLine.FindAllStringSubmatchIndex(text, -1) {
			found[m[2]] = Parse(where, text[m[2]:m[3]])
		}
	}
	for _, m := range quotedWords.FindAllStringSubmatchIndex(text, -1) {
		c := Parse(where, strings.ReplaceAll(text[m[2]:m[3]], "\n# ", " "))
		if len(c.Words) > 1 && (programWord.MatchString(c.Words[0]) || len(c.Words) == 2 && c.Words[0] == "make") {
			found[m[2]] = c
		}
	}
	var list []*Command
	for at := range len(text) {
		if c := found[at]; c != nil && len(c.Words) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// word matches a word of a command, or several in quotation marks.
var word = regexp.MustCompile(`"[^"]*"|\S+`)

// Parse splits a line into words.
func Parse(where, line string) *Command {
	for _, end := range []string{"   ", " # ", " > ", " | ", " && ", " &"} {
		line, _, _ = strings.Cut(line, end)
	}
	set := assignments.FindString(line)
	c := &Command{Where: where, Env: strings.Fields(set), Words: word.FindAllString(strings.TrimPrefix(line, set), -1)}
	if len(c.Words) > 3 && c.Words[0] == "sudo" && c.Words[1] == "-u" {
		c.Words = c.Words[3:]
	}
	if len(c.Words) > 0 && programWord.MatchString(c.Words[0]) {
		c.Words[0] = strings.TrimPrefix(c.Words[0], "bin/")
	}
	for i := range c.Words {
		c.Words[i] = strings.Trim(c.Words[i], "'")
		if strings.HasPrefix(c.Words[i], `"`) {
			c.Words[i] = strings.Trim(c.Words[i], `"`)
		}
	}
	return c
}

// Calls returns the commands in a text of examples. A line may have several commands.
func Calls(where, text string) (list []*Command) {
	for line := range strings.Lines(text) {
		for part := range strings.SplitSeq(line, " && ") {
			list = append(list, Parse(where, part))
		}
	}
	return slices.DeleteFunc(list, func(c *Command) bool { return len(c.Words) == 0 })
}

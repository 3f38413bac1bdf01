package term

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hubbub/protocol/text"

	xterm "golang.org/x/term"
)

// Printable makes foreign text safe for a terminal. The result is one line without control
// characters and without characters that change the direction of writing.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case text.IsControl(r):
			return utf8.RuneError
		default:
			return r
		}
	}, s)
}

// Lines applies Printable to each line of a text and wraps it to n columns. If n is 0 it does not
// wrap.
func Lines(s string, n int) string {
	var out []string
	for line := range strings.SplitSeq(strings.TrimRight(s, "\r\n"), "\n") {
		if line = Printable(strings.TrimSuffix(line, "\r")); n > 0 && Width(line) > n {
			words := strings.TrimLeft(line, " ")
			line = Hang(line[:len(line)-len(words)], words, n)
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// Fit cuts a line to n columns. Colours take no columns and end with the line.
func Fit(s string, n int) string {
	var columns counter
	width, colour, painted := 0, false, false
	for i, r := range s {
		switch {
		case colour:
			colour = r != 'm'
			continue
		case r == '\x1b':
			colour, painted = true, true
			continue
		}
		if width += columns.of(r); width > n {
			if painted {
				return s[:i] + "\x1b[0m"
			}
			return s[:i]
		}
	}
	return s
}

// joiner joins two emoji into one.
const joiner = '\u200d'

// Width returns the width of a text in columns. East Asian wide characters and emoji are two
// columns wide.
func Width(s string) int {
	var columns counter
	n := 0
	for _, r := range s {
		n += columns.of(r)
	}
	return n
}

// A counter counts the columns of a text, rune by rune.
type counter struct{ joined bool }

// of returns the columns that the next rune adds: none after a joiner.
func (c *counter) of(r rune) (columns int) {
	if !c.joined {
		columns = runeWidth(r)
	}
	c.joined = r == joiner
	return columns
}

func runeWidth(r rune) int {
	switch {
	case r == joiner || r >= 0xfe00 && r <= 0xfe0f || unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3,
		r >= 0xf900 && r <= 0xfaff, r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60,
		r >= 0x1f300 && r <= 0x1f64f, r >= 0x1f680 && r <= 0x1f6ff, r >= 0x1f900 && r <= 0x1f9ff:
		return 2
	default:
		return 1
	}
}

// Pad pads a text with blanks to n columns.
func Pad(s string, n int) string { return s + strings.Repeat(" ", max(n-Width(s), 0)) }

// Wrap breaks a text at white space into lines of at most n columns. It splits longer words. It
// does not break at a no-break space.
func Wrap(s string, n int) []string { return wrap(s, n, true) }

// wrap implements Wrap. Unless maySplit is true, it leaves longer words whole: a link that the
// terminal folds can still be copied.
func wrap(s string, n int, maySplit bool) []string {
	var lines []string
	var line strings.Builder
	width, joined := 0, false // of the line; whether it ends with a joiner, after which a space has no width
	end := func() {
		if line.Len() > 0 {
			lines = append(lines, line.String())
		}
		line.Reset()
	}
	blank := func(r rune) bool { return r != '\u00a0' && unicode.IsSpace(r) }
	for word := range strings.FieldsFuncSeq(s, blank) {
		own := Width(word)
		for maySplit && own > n {
			end()
			head, tail := splitWord(word, n)
			lines, word = append(lines, head), tail
			if own -= Width(head); strings.HasSuffix(head, string(joiner)) {
				first, _ := utf8.DecodeRuneInString(tail) // it counted as joined
				own += runeWidth(first)
			}
		}
		if word == "" {
			continue
		}
		if line.Len() > 0 && width+1+own <= n {
			line.WriteByte(' ')
			if width += own; !joined {
				width++
			}
		} else {
			end()
			width = own
		}
		line.WriteString(word)
		joined = strings.HasSuffix(word, string(joiner))
	}
	if end(); len(lines) == 0 {
		lines = []string{""}
	}
	return lines
}

// splitWord splits a word after n columns.
func splitWord(word string, n int) (head, tail string) {
	width := 0
	for i, r := range word {
		if width += runeWidth(r); width > n && i > 0 {
			return word[:i], word[i:]
		}
	}
	return word, ""
}

// twoColumns matches a line of two columns with at least two blanks between them.
var twoColumns = regexp.MustCompile(`^( *\S+(?: \S+)* {2,})(\S.*)$`)

// Fold wraps lines of a help text that are wider than n columns. It wraps paragraphs, also those
// indented by eight blanks, and the second column of lines with two columns. Other indented lines
// are commands or examples and stay. If n is 0 nothing is wrapped.
func Fold(text string, n int) string {
	if n <= 0 {
		return text
	}
	var out, paragraph []string
	indent := ""
	end := func() {
		if slices.ContainsFunc(paragraph, func(l string) bool { return Width(l) > n }) {
			paragraph = hang(indent, indent, strings.Join(paragraph, " "), n)
		}
		out, paragraph = append(out, paragraph...), nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.TrimLeft(line, " ")
		blank := line[:len(line)-len(words)]
		two := twoColumns.FindStringSubmatch(line)
		switch {
		case two != nil && Width(line) > n:
			end()
			out = append(out, Hang(two[1], two[2], n))
		case two == nil && words != "" && (blank == "" || len(blank) == 8 && !strings.ContainsAny(words[:1], `"{[`)):
			if blank != indent {
				end()
			}
			indent, paragraph = blank, append(paragraph, line)
		default:
			end()
			out = append(out, line)
		}
	}
	end()
	return strings.Join(out, "\n")
}

// Hang wraps a text to n columns after first, and indents its other lines by the width of first.
// If n is 0 it returns one line.
func Hang(first, text string, n int) string {
	if n <= 0 {
		return first + text
	}
	return strings.Join(hang(first, strings.Repeat(" ", Width(first)), text, n), "\n")
}

// hang wraps a text to n columns, with first before its first line and next before the others. If
// too few columns are left, the text begins below first.
func hang(first, next, text string, n int) []string {
	var lines []string
	if n-Width(next) < 20 {
		lines, first = append(lines, strings.TrimRight(first, " ")), "    "
		next = first
	}
	for i, l := range wrap(text, n-Width(next), false) {
		if i > 0 {
			first = next
		}
		lines = append(lines, first+l)
	}
	return lines
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	f, ok := stream.(interface{ Fd() uintptr })
	return ok && xterm.IsTerminal(int(f.Fd()))
}

// Columns returns the width of f if it is a terminal, otherwise 0.
func Columns(f any) int {
	file, ok := f.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	n, _, err := xterm.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return n
}

// A Colour is a text style of a terminal.
type Colour string

// The colours.
const (
	Bold    Colour = "\x1b[1m"
	Dim     Colour = "\x1b[2m"
	Red     Colour = "\x1b[31m"
	Green   Colour = "\x1b[32m"
	Yellow  Colour = "\x1b[33m"
	Blue    Colour = "\x1b[34m"
	Magenta Colour = "\x1b[35m"
	Cyan    Colour = "\x1b[36m"
)

// A Painter colours text if it is true.
type Painter bool

// NewPainter returns a painter for a stream. It colours if the stream is a terminal and the user
// has not disabled colours (see no-color.org).
func NewPainter(f any) Painter {
	return Painter(Columns(f) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// Paint colours a text, unless the colour is empty.
func (p Painter) Paint(c Colour, s string) string {
	if !p || s == "" || c == "" {
		return s
	}
	return string(c) + s + "\x1b[0m"
}

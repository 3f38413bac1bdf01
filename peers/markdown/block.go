package markdown

import (
	"slices"
	"strconv"
	"strings"
	"unicode"

	"hubbub/protocol/text"
)

// A blockKind is the kind of a block.
type blockKind int

const (
	paragraph blockKind = iota
	heading
	quote
	list
	code
	rule
	table
)

// A block is a part of a document that occupies whole lines.
type block struct {
	kind     blockKind
	text     string // of a paragraph, a heading, a rule or code
	level    int    // of a heading
	language string // of code
	blocks   []block
	items    []item
	rows     [][]string // the cells of a table, the header first
	aligns   []string   // left, center, right, or empty if not given
}

// An item is an entry of a list.
type item struct {
	mark   string // as shown: "•", "3." or "b)"
	number int    // of an ordered list
	blocks []block
}

var (
	headingLine = text.Pattern(`^ {0,3}(#{1,6})[ \t]+(\S.*)$`)
	fenceLine   = text.Pattern("^( *)(`{3,}|~{3,})[ \t]*([^`\\s]*)[ \t]*([^`]*)$")
	// ruleLine does not match more than three adjacent asterisks: a rating, or a hidden number.
	ruleLine      = text.Pattern(`^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:\*[ \t]+){3,}\*?$|^ {0,3}\*(?:[ \t]*\*){2}[ \t]*$`)
	itemLine      = text.Pattern(`^( *)([-*]|\d{1,9}[.)])( +)(\S.*)$`)
	delimiterLine = text.Pattern(`^ *\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$`)
	// quoteLine does not match a comparison such as "> 90 %".
	quoteLine = text.Pattern(`^ {0,3}>(?: *$|[ \t]*>|(?:\*\*)?\p{L}| +[^\d\s.,+−-]| +(?:-|\d{1,3}[.)]) +\D)`)
	// promptLine matches a line of an interactive program, such as that of Python.
	promptLine = text.Pattern(`^ {0,3}>>> [^>\s]`)
	outerQuote = text.Pattern(`^ {0,3}>>?(?:[^>]|$)`)
	nextQuote  = text.Pattern(`^ {0,3}>(?:[ \t]|$)`) // below a line of a quote
)

// parseBlocks divides lines into blocks. They are nested depth deep, and may be within an item of
// a list. Beyond maxDepth everything is text.
func parseBlocks(lines []string, depth int, inItem bool) []block {
	var blocks []block
	for i := 0; i < len(lines); {
		if strings.TrimSpace(lines[i]) == "" {
			i++
			continue
		}
		b, n := parseBlock(lines, i, depth, inItem)
		blocks = append(blocks, b)
		i += n
	}
	return blocks
}

// parseBlock returns the block at line i and its number of lines.
func parseBlock(lines []string, i, depth int, inItem bool) (block, int) {
	if depth > maxDepth {
		return block{text: strings.Join(lines[i:], "\n")}, len(lines) - i
	}
	rest := lines[i:]
	switch {
	case startsCode(rest):
		return parseCode(rest)
	case headingLine().MatchString(rest[0]):
		m := headingLine().FindStringSubmatch(rest[0])
		text := strings.TrimRight(m[2], " \t")
		if closed, ok := strings.CutSuffix(text, " "+m[1]); ok && len(m[1]) > 1 {
			text = strings.TrimRight(closed, " \t")
		}
		return block{kind: heading, level: len(m[1]), text: text}, 1
	case isRule(lines, i):
		return block{kind: rule, text: strings.TrimSpace(rest[0])}, 1
	case startsQuote(rest, depth):
		return parseQuote(rest, depth)
	case startsList(rest, inItem):
		return parseList(rest, depth)
	case startsTable(rest):
		return parseTable(rest)
	}
	n := 1
	for n < len(rest) && !endsParagraph(lines, i+n, depth, inItem) {
		n++
	}
	return block{text: strings.Join(rest[:n], "\n")}, n
}

// endsParagraph reports whether line i begins a new block. A line that begins with a number other
// than 1, such as a date, continues the paragraph.
func endsParagraph(lines []string, i, depth int, inItem bool) bool {
	line, rest := lines[i], lines[i:]
	if strings.TrimSpace(line) == "" || startsCode(rest) || headingLine().MatchString(line) ||
		startsQuote(rest, depth) || startsTable(rest) {
		return true
	}
	m := itemLine().FindStringSubmatch(line)
	return m != nil && startsList(rest, inItem) && (!isNumber(m[2]) || m[2][:len(m[2])-1] == "1")
}

// isRule reports whether line i is a rule. A line of dashes directly next to text is text.
func isRule(lines []string, i int) bool {
	blank := func(i int) bool { return i < 0 || i >= len(lines) || strings.TrimSpace(lines[i]) == "" }
	return ruleLine().MatchString(lines[i]) && blank(i-1) && blank(i+1)
}

// maxCode bounds the lines of a block of code that is marked by tildes, so that many of them take linear time.
const maxCode = 1000

// startsCode reports whether a block of code begins. Tildes without an end are text, and so are
// backquotes with nothing below them.
func startsCode(lines []string) bool {
	m := fenceLine().FindStringSubmatch(lines[0])
	if m == nil {
		return false
	}
	if m[2][0] == '`' {
		return nextText(lines, 1) < len(lines)
	}
	return slices.ContainsFunc(lines[1:min(len(lines), maxCode)], func(line string) bool { return isFence(line, m[2]) })
}

// isFence reports whether a line closes the block of code that a fence opened.
func isFence(line, fence string) bool {
	line = strings.TrimSpace(line)
	return len(line) >= len(fence) && strings.Trim(line, fence[:1]) == ""
}

func parseCode(lines []string) (block, int) {
	m := fenceLine().FindStringSubmatch(lines[0])
	b := block{kind: code, language: m[3]}
	var text []string
	if m[4] != "" { // more than the name of a language
		b.language, text = "", []string{m[3] + " " + m[4]}
	}
	n := 1
	for ; n < len(lines); n++ {
		if isFence(lines[n], m[2]) {
			n++
			break
		}
		line := lines[n]
		for range len(m[1]) {
			line = strings.TrimPrefix(line, " ")
		}
		text = append(text, line)
	}
	b.text = strings.TrimRight(strings.Join(text, "\n"), "\n")
	return b, n
}

// startsQuote reports whether a quote begins at a depth. Outside of quotes, ">>> x" is the prompt of a program
// unless a line with one or two signs follows, as in a mail.
func startsQuote(lines []string, depth int) bool {
	return quoteLine().MatchString(lines[0]) && (depth > 0 || !promptLine().MatchString(lines[0]) ||
		len(lines) > 1 && outerQuote().MatchString(lines[1]))
}

func parseQuote(lines []string, depth int) (block, int) {
	var inner []string
	n := 0
	for ; n < len(lines) && (nextQuote().MatchString(lines[n]) || quoteLine().MatchString(lines[n])); n++ {
		_, text, _ := strings.Cut(lines[n], ">")
		inner = append(inner, strings.TrimPrefix(text, " "))
	}
	blocks := parseBlocks(inner, depth+1, false)
	if len(blocks) == 0 { // the signs alone
		return block{text: strings.Join(lines[:n], "\n")}, n
	}
	return block{kind: quote, blocks: blocks}, n
}

// startsList reports whether a list begins. A single item is text if its mark may mean something
// else: an asterisk outside of a list may mark a footnote, and a dash before a digit may be a minus.
func startsList(lines []string, inItem bool) bool {
	m := itemLine().FindStringSubmatch(lines[0])
	if m == nil || ruleLine().MatchString(lines[0]) {
		return false
	}
	if isNumber(m[2]) || m[2] == "*" && inItem || m[2] == "-" && !unicode.IsDigit([]rune(m[4])[0]) {
		return true
	}
	for _, line := range lines[1:] {
		if next := itemLine().FindStringSubmatch(line); next != nil && len(next[1]) == len(m[1]) {
			return next[2] == m[2]
		}
		if strings.TrimSpace(line) != "" && indent(line) <= len(m[1]) {
			return false
		}
	}
	return false
}

func isNumber(mark string) bool { return mark[0] >= '0' && mark[0] <= '9' }

func parseList(lines []string, depth int) (block, int) {
	first := itemLine().FindStringSubmatch(lines[0])
	b := block{kind: list}
	same := func(line string) []string {
		m := itemLine().FindStringSubmatch(line)
		if m == nil || len(m[1]) > len(first[1])+1 || len(m[1]) < len(first[1]) || ruleLine().MatchString(line) {
			return nil
		}
		if isNumber(m[2]) != isNumber(first[2]) || m[2][len(m[2])-1] != first[2][len(first[2])-1] {
			return nil
		}
		return m
	}
	n := 0
	for n < len(lines) {
		m := same(lines[n])
		if m == nil {
			break
		}
		content := len(m[1]) + len(m[2]) + len(m[3])
		inner := []string{m[4]}
		n++
		for n < len(lines) && same(lines[n]) == nil {
			line := lines[n]
			if strings.TrimSpace(line) == "" {
				next := nextText(lines, n)
				if next == len(lines) || indent(lines[next]) < min(content, len(m[1])+2) && same(lines[next]) == nil {
					break
				}
				inner = append(inner, make([]string, next-n)...)
				n = next
				continue
			}
			if indent(line) < min(content, len(m[1])+2) {
				break
			}
			inner = append(inner, cutIndent(line, content))
			n++
		}
		it := item{mark: "•", blocks: parseBlocks(inner, depth+1, true)}
		if isNumber(m[2]) {
			it.mark = m[2]
			it.number, _ = strconv.Atoi(m[2][:len(m[2])-1]) //nolint:errcheck // it is digits, at most nine
		}
		b.items = append(b.items, it)
	}
	countLazyNumbers(b.items)
	return b, n
}

func nextText(lines []string, n int) int {
	for n < len(lines) && strings.TrimSpace(lines[n]) == "" {
		n++
	}
	return n
}

// tabWidth is the width of a tab in front of a line, in columns.
const tabWidth = 4

// indent returns the width of the spaces and tabs in front of a line.
func indent(line string) int {
	rest := strings.TrimLeft(line, " \t")
	return len(line) - len(rest) + (tabWidth-1)*strings.Count(line[:len(line)-len(rest)], "\t")
}

// cutIndent removes up to n columns of spaces and tabs from the beginning of a line.
func cutIndent(line string, n int) string {
	for n > 0 && line != "" && (line[0] == ' ' || line[0] == '\t') {
		if n--; line[0] == '\t' {
			n -= tabWidth - 1
		}
		line = line[1:]
	}
	return line
}

// startsTable reports whether a table begins: a line of cells above a line with as many dashes.
func startsTable(lines []string) bool {
	return len(lines) > 1 && strings.Contains(lines[0], "|") && strings.Contains(lines[1], "-") &&
		delimiterLine().MatchString(lines[1]) && len(splitCells(lines[0])) == len(splitCells(lines[1]))
}

func parseTable(lines []string) (block, int) {
	b := block{kind: table, rows: [][]string{splitCells(lines[0])}}
	for _, d := range splitCells(lines[1]) {
		left, right := strings.HasPrefix(d, ":"), strings.HasSuffix(d, ":")
		b.aligns = append(b.aligns, map[[2]bool]string{{true, true}: "center", {true, false}: "left",
			{false, true}: "right"}[[2]bool{left, right}])
	}
	n := 2
	for ; n < len(lines) && strings.Contains(lines[n], "|"); n++ {
		row := splitCells(lines[n])
		for len(b.aligns) < len(row) { // a row may have more cells than the header
			b.aligns = append(b.aligns, "")
		}
		b.rows = append(b.rows, row)
	}
	return b, n
}

// cellBreak matches the line breaks of HTML, the only ones that a cell can have, with words after them.
var cellBreak = text.Pattern(`^((?i:<br ?/?> *){1,8})[^|\s]`)

// splitCells returns the cells of a line of a table. A bar in code or after a backslash is text.
func splitCells(line string) []string {
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(line, "|")
	var cells []string
	var cell strings.Builder
	ticks := strings.Count(line, "`")%2 == 0
	inCode, closed := false, false
	for i := 0; i < len(line); i++ {
		c := line[i]
		closed = false
		switch {
		case c == '\\' && i+1 < len(line) && line[i+1] == '|':
			cell.WriteByte('|')
			i++
		case c == '|' && !inCode:
			cells = append(cells, strings.TrimSpace(cell.String()))
			cell.Reset()
			closed = true
		case c == '<' && !inCode && strings.TrimSpace(cell.String()) != "" && cellBreak().MatchString(line[i:]):
			cell.WriteByte('\n')
			i += len(cellBreak().FindStringSubmatch(line[i:])[1]) - 1
		default:
			inCode = inCode != (c == '`' && ticks)
			cell.WriteByte(c)
		}
	}
	if !closed || len(cells) == 0 {
		cells = append(cells, strings.TrimSpace(cell.String()))
	}
	return cells
}

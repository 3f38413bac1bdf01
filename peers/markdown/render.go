package markdown

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"hubbub/protocol/text"
)

// maxDepth bounds the nesting of quotes and lists. Deeper ones remain as written.
const maxDepth = 16

// Render converts Markdown to a text with entities, and to its rich form if it has a table.
func Render(source string) Text {
	source = clean(source)
	if tooDeep(source) {
		return Plain(source)
	}
	doc := parseBlocks(strings.Split(source, "\n"), 0, false)
	t := textOf(doc)
	if hasTable(doc) {
		if rich := richBlocks(doc); fits(rich) {
			t.Rich = rich
		}
	}
	return t
}

// clean returns a source with valid characters and line ends.
func clean(source string) string {
	source = strings.ToValidUTF8(strings.ReplaceAll(source, "\x00", ""), string(utf8.RuneError))
	return withoutEscapes(strings.ReplaceAll(source, "\r\n", "\n"))
}

// Some models escape each sign that a parse mode of Telegram reserves, as in "Hello\! It costs 5\.00".
var (
	escapedSign   = text.Pattern(`\\([.!\-()=+{}|>#])`)
	escapedProse  = text.Pattern(`(?m)[^\s\\]\\[.!](?:[\s"'”»\p{Lo}]|$)|(?:^|\s)\\-\s|[\pL\pN]{2}\\-[\pL\pN]|\\-\\-`)
	escapedStart  = text.Pattern(`(?m)^( *\d*)\\([->#.)] )`)
	otherEscape   = text.Pattern("\\\\(?:[^.!\\-()=+{}|>#*_\\[\\]~]|$)|:\\\\|[`$]")
	addressOrItem = text.Pattern(`\]\([^\s)]*\)|(?i:https?://|www\.)\S+|(?m:^ *(?:-|\d+[.)]) )`)
)

// withoutEscapes returns a source without these escapes. They must be the only ones, in a text of
// words whose every period, exclamation mark, hyphen and parenthesis is escaped. One of them must end a
// sentence or join words, unlike in a path or an expression: foo\.bar
func withoutEscapes(source string) string {
	plain := addressOrItem().ReplaceAllString(source, " ")
	if len(escapedSign().FindAllString(plain, 2)) < 2 || !escapedProse().MatchString(plain) || otherEscape().MatchString(plain) ||
		!strings.Contains(plain, " ") || strings.ContainsAny(escapedSign().ReplaceAllString(plain, ""), ".!-()") {
		return source
	}
	return escapedSign().ReplaceAllString(escapedStart().ReplaceAllString(source, `$1\\$2`), "$1")
}

// textOf returns blocks as a text with entities.
func textOf(blocks []block) Text {
	w := &writer{}
	w.blocks(blocks, style{}, "", false)
	return assemble(w.runs)
}

// tooDeep reports whether a text is nested more deeply than anyone writes by hand.
func tooDeep(source string) bool {
	for line := range strings.Lines(source) {
		marks := 0
		for _, c := range line {
			if c == '>' || c == '-' || c == '*' || c == '+' {
				marks++
			} else if c != ' ' && c != '\t' {
				break
			}
		}
		if marks > maxDepth && strings.Trim(line, "-* \t\r\n") != "" {
			return true
		}
	}
	return strings.Count(source, "[") > 2000
}

// A writer collects the runs of a document.
type writer struct {
	runs []run
}

func (w *writer) put(s string, st style) {
	if s != "" {
		w.runs = append(w.runs, run{s, st})
	}
}

// blocks writes blocks separated by blank lines, with indent before each line. In an item, a list
// follows without a blank line.
func (w *writer) blocks(blocks []block, st style, indent string, inItem bool) {
	for i, b := range blocks {
		if i > 0 {
			w.put(map[bool]string{true: "\n", false: "\n\n"}[inItem && b.kind == list], st)
			if inItem && b.kind != list && b.kind != code && b.kind != table {
				w.put(indent, st)
			}
		}
		w.block(b, st, indent)
	}
}

func (w *writer) block(b block, st style, indent string) {
	switch b.kind {
	case heading:
		st.bold = true
		w.inline(b.text, st, indent)
	case quote:
		st.quote = true
		w.blocks(b.blocks, st, indent, false)
	case list:
		for i, it := range b.items {
			if i > 0 {
				w.put("\n", st)
			}
			w.put(indent+it.mark+" ", st)
			w.task(it.blocks, st, indent+"  ")
		}
	case code:
		w.put(b.text, style{pre: true, language: b.language})
	case rule:
		w.put("———", st)
	case table:
		st.pre, st.quote = true, false
		w.put(tableText(b), st)
	default:
		w.inline(b.text, st, indent)
	}
}

// task writes the blocks of an item. The checkbox of a task becomes a symbol.
func (w *writer) task(blocks []block, st style, indent string) {
	if box, rest := taskBox(blocks); box != "" {
		w.put(box, st)
		blocks = rest
	}
	w.blocks(blocks, st, indent, true)
}

// taskBox returns the checkbox of an item, and the item without it.
func taskBox(blocks []block) (box string, rest []block) {
	if len(blocks) == 0 || blocks[0].kind != paragraph {
		return "", blocks
	}
	for mark, shown := range map[string]string{"[ ] ": "☐ ", "[x] ": "☑ ", "[X] ": "☑ "} {
		if text, ok := strings.CutPrefix(blocks[0].text, mark); ok {
			rest := append([]block(nil), blocks...)
			rest[0].text = text
			return shown, rest
		}
	}
	return "", blocks
}

func (w *writer) inline(text string, st style, indent string) {
	for _, s := range parseInline(text, st) {
		if indent != "" && !s.code {
			s.text = strings.ReplaceAll(s.text, "\n", "\n"+indent)
		}
		w.put(s.text, s.style)
	}
}

// tableText formats a table in columns for a fixed-width font.
func tableText(b block) string {
	width := make([]int, len(b.aligns))
	rows := make([][][]string, len(b.rows)) // the lines of the cells
	for i, row := range b.rows {
		for column, cell := range row {
			words := strings.Split(wordsOf(cell), "\n")
			for _, line := range words {
				width[column] = max(width[column], utf8.RuneCountInString(line))
			}
			rows[i] = append(rows[i], words)
		}
	}
	var lines []string
	for i, cells := range rows {
		height := 1
		for _, words := range cells {
			height = max(height, len(words))
		}
		for n := range height {
			line := make([]string, len(cells))
			for column, words := range cells {
				if n < len(words) {
					line[column] = words[n]
				}
				line[column] = fmt.Sprintf("%-*s", width[column], line[column])
			}
			lines = append(lines, strings.TrimRight(strings.Join(line, " | "), " "))
		}
		if i == 0 {
			dashes := make([]string, len(width))
			for column := range width {
				dashes[column] = strings.Repeat("-", width[column])
			}
			lines = append(lines, strings.Join(dashes, "-+-"))
		}
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// wordsOf returns an inline text without styles. Struck words keep their marks, since without them
// they would seem to be valid. Links keep their addresses.
func wordsOf(text string) string {
	var b strings.Builder
	for _, r := range spellLinks(runsOf(text)) {
		if r.strike && strings.TrimSpace(r.text) != "" {
			r.text = "~~" + r.text + "~~"
		}
		b.WriteString(r.text)
	}
	return strings.ReplaceAll(b.String(), "~~~~", "")
}

// spellLinks adds the address of each link after its words, unless the words are the address.
func spellLinks(runs []run) (all []run) {
	var words strings.Builder // of the link
	for i, r := range runs {
		all = append(all, r)
		if r.link == "" {
			continue
		}
		words.WriteString(r.text)
		if i+1 == len(runs) || runs[i+1].link != r.link {
			if words.String() != r.link {
				all = append(all, run{text: " (" + r.link + ")"})
			}
			words.Reset()
		}
	}
	return all
}

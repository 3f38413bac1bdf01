package markdown

import (
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// maxDepth bounds how deep quotes and lists are followed; what is deeper is
// shown as it was written.
const maxDepth = 16

var grammar = goldmark.New(goldmark.WithExtensions(extension.Strikethrough, extension.Table, extension.TaskList)).Parser()

// Render turns Markdown into a text with entities, and with its rich form if it has a table.
func Render(source string) Text {
	source = strings.ToValidUTF8(strings.ReplaceAll(source, "\x00", ""), string(utf8.RuneError))
	if tooDeep(source) {
		return Plain(source)
	}
	w := &writer{source: []byte(source)}
	doc := grammar.Parse(text.NewReader(w.source), parser.WithContext(parser.NewContext()))
	w.blocks(doc, style{}, "")
	t := assemble(w.runs)
	if hasTable(doc) {
		if rich := w.richBlocks(doc); fits(rich) {
			t.Rich = rich
		}
	}
	return t
}

// tooDeep finds nesting that nobody writes by hand and that costs time.
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

// A writer collects runs while it walks over a document.
type writer struct {
	source []byte
	runs   []run
}

func (w *writer) put(s string, st style) {
	if s != "" {
		w.runs = append(w.runs, run{s, st})
	}
}

// blocks writes the blocks inside a node, with blank lines between them where
// the source has paragraphs, and indent before each of their lines.
func (w *writer) blocks(parent ast.Node, st style, indent string) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if n != parent.FirstChild() {
			w.put(gap(n), st)
		}
		w.block(n, st, indent)
	}
}

// gap is what stands between a block and the one before it.
func gap(n ast.Node) string {
	_, list := n.(*ast.List)
	_, inItem := n.Parent().(*ast.ListItem)
	_, tight := n.(*ast.TextBlock)
	if tight || list && inItem {
		return "\n"
	}
	return "\n\n"
}

func (w *writer) block(n ast.Node, st style, indent string) {
	switch n := n.(type) {
	case *ast.Heading:
		st.bold = true
		w.inlines(n, st, indent)
	case *ast.Blockquote:
		st.quote = true
		w.blocks(n, st, indent)
	case *ast.List:
		w.list(n, st, indent)
	case *ast.FencedCodeBlock:
		w.put(w.lines(n), style{pre: true, language: string(n.Language(w.source))})
	case *ast.CodeBlock:
		w.put(w.lines(n), style{pre: true})
	case *ast.HTMLBlock:
		w.put(w.html(n), st)
	case *ast.ThematicBreak:
		w.put("———", st)
	case *extast.Table:
		st.pre, st.quote = true, false
		w.put(w.table(n), st)
	default:
		w.inlines(n, st, indent)
	}
}

func (w *writer) list(list *ast.List, st style, indent string) {
	number := list.Start
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		if item != list.FirstChild() {
			w.put("\n", st)
		}
		mark := "• "
		if list.IsOrdered() {
			mark = fmt.Sprintf("%d%c ", number, list.Marker)
			number++
		}
		w.put(indent+mark, st)
		w.blocks(item, st, indent+strings.Repeat(" ", 2))
	}
}

func (w *writer) lines(n ast.Node) string {
	return strings.TrimRight(string(n.Lines().Value(w.source)), "\n")
}

// table lays a table out in columns, to be shown in a fixed-width font.
func (w *writer) table(n *extast.Table) string {
	var rows [][]string
	rule := make([]string, len(n.Alignments)) // as wide as each column
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			words := w.words(cell)
			if width := utf8.RuneCountInString(words); width > len(rule[len(cells)]) {
				rule[len(cells)] = strings.Repeat("-", width)
			}
			cells = append(cells, words)
		}
		rows = append(rows, cells)
	}
	var lines []string
	for i, cells := range rows {
		for column := range cells {
			cells[column] = fmt.Sprintf("%-*s", len(rule[column]), cells[column])
		}
		lines = append(lines, strings.TrimRight(strings.Join(cells, " | "), " "))
		if i == 0 {
			lines = append(lines, strings.Join(rule, "-+-"))
		}
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// inlines writes the text inside a block or an inline node.
func (w *writer) inlines(parent ast.Node, st style, indent string) {
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		w.inline(n, st, indent)
	}
}

func (w *writer) inline(n ast.Node, st style, indent string) {
	switch n := n.(type) {
	case *ast.Text:
		w.put(string(resolve(n.Segment.Value(w.source))), st)
		if n.HardLineBreak() || n.SoftLineBreak() {
			w.put("\n"+indent, st)
		}
	case *ast.String:
		w.put(string(n.Value), st)
	case *ast.CodeSpan:
		st.code = true
		w.put(w.raw(n), st)
	case *ast.Emphasis:
		st.bold, st.italic = st.bold || n.Level >= 2, st.italic || n.Level < 2
		w.inlines(n, st, indent)
	case *extast.Strikethrough:
		st.strike = true
		w.inlines(n, st, indent)
	case *extast.TaskCheckBox:
		w.put(map[bool]string{true: "☑ ", false: "☐ "}[n.IsChecked], st)
	case *ast.Link:
		w.link(n, string(n.Destination), st, indent)
	case *ast.Image:
		w.link(n, string(n.Destination), st, indent)
	case *ast.AutoLink:
		w.put(string(n.Label(w.source)), st)
	case *ast.RawHTML:
		w.put(string(n.Segments.Value(w.source)), st)
	default:
		w.inlines(n, st, indent)
	}
}

// raw returns the text inside a code span.
func (w *writer) raw(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(w.source))
		}
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// link writes a link, or its words and its address where Telegram would not
// open it.
func (w *writer) link(n ast.Node, address string, st style, indent string) {
	before := len(w.runs)
	if linkable(address) {
		st.link = address
		w.inlines(n, st, indent)
		if len(w.runs) == before {
			w.put(address, st)
		}
		return
	}
	w.inlines(n, st, indent)
	if address != "" {
		w.put(" ("+address+")", st)
	}
}

func linkable(address string) bool {
	u, err := url.Parse(address)
	return err == nil && len(address) <= 2048 &&
		(u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") || u.Scheme == "tg" || u.Scheme == "mailto")
}

// words returns the text inside a node without any style.
func (w *writer) words(n ast.Node) string {
	inner := &writer{source: w.source}
	inner.inlines(n, style{}, "")
	var b strings.Builder
	for _, r := range inner.runs {
		b.WriteString(r.text)
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// resolve replaces backslash escapes and character references.
func resolve(b []byte) []byte {
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(b)))
}

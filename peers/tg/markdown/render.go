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
)

// maxDepth bounds how deep quotes and lists are followed; what is deeper is
// shown as it was written.
const maxDepth = 16

var grammar = goldmark.New(goldmark.WithExtensions(extension.Strikethrough, extension.Table, extension.TaskList)).Parser()

// Render turns Markdown into a text with entities.
func Render(source string) Text {
	source = strings.ToValidUTF8(strings.ReplaceAll(source, "\x00", ""), string(utf8.RuneError))
	if tooDeep(source) {
		return Plain(source)
	}
	w := &writer{source: []byte(source)}
	doc := grammar.Parse(text.NewReader(w.source), parser.WithContext(parser.NewContext()))
	w.blocks(doc, style{}, "")
	return assemble(w.runs)
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
	first := true
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if !first {
			w.put(gap(n), st)
		}
		first = false
		w.block(n, st, indent)
	}
}

// gap is what stands between a block and the one before it.
func gap(n ast.Node) string {
	_, item := n.(*ast.ListItem)
	_, list := n.(*ast.List)
	if _, inItem := n.Parent().(*ast.ListItem); item || list && inItem {
		return "\n"
	}
	if _, tight := n.(*ast.TextBlock); tight {
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
		w.code(n, string(n.Language(w.source)))
	case *ast.CodeBlock:
		w.code(n, "")
	case *ast.HTMLBlock:
		lines := w.lines(n)
		if n.HasClosure() {
			lines += string(n.ClosureLine.Value(w.source))
		}
		w.put(strings.TrimRight(lines, "\n"), st)
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
	first := true
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		if !first {
			w.put("\n", st)
		}
		first = false
		mark := "• "
		if list.IsOrdered() {
			mark = fmt.Sprintf("%d%c ", number, list.Marker)
			number++
		}
		w.put(indent+mark, st)
		w.blocks(item, st, indent+strings.Repeat(" ", 2))
	}
}

func (w *writer) code(n ast.Node, language string) {
	w.put(strings.TrimRight(w.lines(n), "\n"), style{pre: true, language: language})
}

func (w *writer) lines(n ast.Node) string {
	var b strings.Builder
	for i := range n.Lines().Len() {
		segment := n.Lines().At(i)
		b.Write(segment.Value(w.source))
	}
	return b.String()
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
		w.put(unescape(n.Segment.Value(w.source)), st)
		if n.HardLineBreak() || n.SoftLineBreak() {
			w.put("\n"+indent, st)
		}
	case *ast.String:
		w.put(string(n.Value), st)
	case *ast.CodeSpan:
		st.code = true
		w.put(w.raw(n), st)
	case *ast.Emphasis:
		if n.Level >= 2 {
			st.bold = true
		} else {
			st.italic = true
		}
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
		for i := range n.Segments.Len() {
			segment := n.Segments.At(i)
			w.put(string(segment.Value(w.source)), st)
		}
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
	if err != nil || len(address) > 2048 {
		return false
	}
	switch strings.ToLower(u.Scheme) {
	case "http", "https":
		return u.Host != ""
	case "tg", "mailto":
		return true
	default:
		return false
	}
}

// unescape resolves backslashes and character references as Markdown does.
func unescape(b []byte) string { return string(resolve(b)) }

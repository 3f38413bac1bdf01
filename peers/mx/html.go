package mx

import (
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"maunium.net/go/mautrix/id"
)

// maxDepth bounds the nesting of HTML that is read.
const maxDepth = 64

// marks are the marks of Markdown for elements.
var marks = map[atom.Atom]string{
	atom.Strong: "**", atom.B: "**", atom.Em: "_", atom.I: "_", atom.Del: "~~", atom.S: "~~", atom.Code: "`",
}

// markdownOf returns the HTML of a message as Markdown, so that formatting that carries meaning
// reaches the agents. The link to a user becomes a mention.
func markdownOf(source string) string {
	doc, err := html.Parse(strings.NewReader(source))
	if err != nil {
		return ""
	}
	var w htmlReader
	w.children(doc, 0)
	return strings.TrimSpace(strings.Join(w.lines(), "\n"))
}

// An htmlReader writes the text of elements.
type htmlReader struct{ strings.Builder }

// lines returns the text without runs of blank lines.
func (w *htmlReader) lines() (list []string) {
	for line := range strings.SplitSeq(w.String(), "\n") {
		if blank := strings.TrimSpace(line) == ""; !blank || len(list) > 0 && list[len(list)-1] != "" {
			if blank {
				line = ""
			}
			list = append(list, line)
		}
	}
	return list
}

func (w *htmlReader) children(n *html.Node, depth int) {
	number := 0
	if start, _ := attribute(n, "start"); n.DataAtom == atom.Ol {
		if first, err := strconv.Atoi(start); err == nil {
			number = max(first, 1) - 1
		}
	}
	for c := range n.ChildNodes() {
		if n.DataAtom == atom.Ol && c.DataAtom == atom.Li {
			number++
		}
		w.node(c, depth+1, number)
	}
}

// inside returns the text of an element's children.
func inside(n *html.Node, depth int) string {
	var w htmlReader
	w.children(n, depth)
	return strings.Trim(strings.Join(w.lines(), "\n"), "\n")
}

func (w *htmlReader) node(n *html.Node, depth, number int) {
	if depth > maxDepth {
		return
	}
	if n.Type == html.TextNode {
		w.WriteString(n.Data)
		return
	}
	switch n.DataAtom {
	case atom.Br:
		w.WriteString("\n")
	case atom.P, atom.Div, atom.Tr:
		w.WriteString(inside(n, depth) + "\n\n")
	case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
		w.WriteString(strings.Repeat("#", int(n.Data[1]-'0')) + " " + inside(n, depth) + "\n\n")
	case atom.Td, atom.Th:
		w.WriteString(inside(n, depth) + " | ")
	case atom.Blockquote:
		w.WriteString("\n> " + strings.ReplaceAll(inside(n, depth), "\n", "\n> ") + "\n\n")
	case atom.Pre:
		w.WriteString("\n```\n" + strings.Trim(rawText(n, depth), "\n") + "\n```\n")
	case atom.Li:
		mark := "- "
		if number > 0 {
			mark = fmt.Sprintf("%d. ", number)
		}
		w.WriteString("\n" + mark + strings.ReplaceAll(inside(n, depth), "\n", "\n  ") + "\n")
	case atom.A:
		w.link(n, depth)
	case atom.Img: // such as an emoji of the room
		alt, _ := attribute(n, "alt")
		w.WriteString(alt)
	case atom.Sup:
		w.WriteString("^" + inside(n, depth))
	case atom.Summary:
		w.WriteString(inside(n, depth) + "\n\n")
	case atom.Script, atom.Style, atom.Head, atom.Title:
	default:
		if n.Data == "mx-reply" { // the quoted message, for old clients
			return
		}
		mark, text := marks[n.DataAtom], inside(n, depth)
		if _, hidden := attribute(n, "data-mx-spoiler"); hidden {
			mark = "||"
		}
		if text == "" || mark == "" {
			w.children(n, depth)
			return
		}
		w.WriteString(mark + text + mark)
	}
}

// link writes a link. Its address follows its text, unless it is the text.
func (w *htmlReader) link(n *html.Node, depth int) {
	text := inside(n, depth)
	address, _ := attribute(n, "href")
	if uri, err := id.ParseMatrixURIOrMatrixToURL(address); err == nil && uri != nil && uri.UserID() != "" {
		w.WriteString("@" + localpart(uri.UserID().String()))
		return
	}
	w.WriteString(text)
	if address != "" && address != text {
		w.WriteString(" (" + address + ")")
	}
}

func attribute(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

// rawText returns the text below an element without marks.
func rawText(n *html.Node, depth int) string {
	if depth > maxDepth {
		return ""
	}
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for c := range n.ChildNodes() {
		b.WriteString(rawText(c, depth+1))
	}
	if n.DataAtom == atom.Br {
		return "\n"
	}
	return b.String()
}

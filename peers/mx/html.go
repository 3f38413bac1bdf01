package mx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"maunium.net/go/mautrix/id"
)

// maxDepth bounds the nesting of HTML that is read.
const maxDepth = 64

// formatting are the elements that a parser repeats in each paragraph until they end.
var formatting = []atom.Atom{
	atom.A, atom.B, atom.Big, atom.Code, atom.Em, atom.Font, atom.I, atom.Nobr, atom.S, atom.Small, atom.Strike,
	atom.Strong, atom.Tt, atom.U,
}

// marks are what stands before and after the text of elements in Markdown.
var marks = map[atom.Atom][2]string{
	atom.Strong: {"**", "**"}, atom.B: {"**", "**"}, atom.Em: {"_", "_"}, atom.I: {"_", "_"}, atom.Del: {"~~", "~~"},
	atom.S: {"~~", "~~"}, atom.Strike: {"~~", "~~"}, atom.Code: {"`", "`"}, atom.Sup: {"^", ""},
	atom.Hr: {"", "\n\n---\n\n"}, atom.Td: {"", " | "}, atom.Th: {"", " | "},
	atom.P: {"", "\n\n"}, atom.Div: {"", "\n\n"}, atom.Tr: {"", "\n\n"}, atom.Summary: {"", "\n\n"},
	atom.H1: {"# ", "\n\n"}, atom.H2: {"## ", "\n\n"}, atom.H3: {"### ", "\n\n"}, atom.H4: {"#### ", "\n\n"},
	atom.H5: {"##### ", "\n\n"}, atom.H6: {"###### ", "\n\n"},
}

// markdownOf returns the HTML of a message as Markdown, so that formatting that carries meaning
// reaches the agents. The link to a user becomes a mention. It returns "" if it cannot be read.
func markdownOf(source string) string {
	if isTooComplex(source) {
		return ""
	}
	doc, err := html.Parse(strings.NewReader(source))
	if err != nil {
		return ""
	}
	var w htmlReader
	w.children(doc, 0)
	return strings.TrimSpace(w.text())
}

// isTooComplex reports whether more than maxDepth elements of formatting are open at a place. In many
// paragraphs, a parser would make millions of elements of them. It also reports whether a text has more than maxDepth
// beginnings of a document, since a parser compares the attributes of each with those of all before it.
func isTooComplex(source string) bool {
	open, total, documents := map[atom.Atom]int{}, 0, 0
	for z := html.NewTokenizer(strings.NewReader(source)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			return false
		}
		name, _ := z.TagName()
		switch tag := atom.Lookup(name); {
		case tag == atom.Html || tag == atom.Body:
			if documents++; documents > maxDepth {
				return true
			}
		case !slices.Contains(formatting, tag):
		case kind == html.EndTagToken && open[tag] > 0:
			open[tag]--
			total--
		case kind == html.StartTagToken || kind == html.SelfClosingTagToken:
			open[tag]++
			if total++; total > maxDepth {
				return true
			}
		}
	}
}

// An htmlReader writes the text of elements.
type htmlReader struct {
	strings.Builder
	raw bool // without marks
}

// text returns the text without runs of blank lines, except those of code.
func (w *htmlReader) text() string {
	var lines []string
	fence, blank := "", true
	for line := range strings.SplitSeq(w.String(), "\n") {
		switch trimmed := strings.TrimSpace(line); {
		case fence != "":
			if blank = false; trimmed == fence {
				fence = ""
			}
		case trimmed == "" && blank:
			continue
		case trimmed == "":
			line, blank = "", true
		default:
			if blank = false; strings.HasPrefix(trimmed, "```") || strings.HasPrefix(trimmed, "~~~") {
				fence = trimmed[:3]
			}
		}
		lines = append(lines, line)
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

func (w *htmlReader) children(n *html.Node, depth int) {
	number := unnumbered
	if n.DataAtom == atom.Ol {
		number = numberIn(n, "start", 1) - 1
	}
	for c := range n.ChildNodes() {
		if n.DataAtom == atom.Ol && c.DataAtom == atom.Li {
			number = numberIn(c, "value", number+1)
		}
		w.node(c, depth+1, number)
	}
}

// unnumbered is the number of an item of a list without numbers.
const unnumbered = -1

// numberIn returns a number in an attribute, or the given one if there is none.
func numberIn(n *html.Node, key string, otherwise int) int {
	said, _ := attribute(n, key)
	if number, err := strconv.Atoi(said); err == nil && number >= 0 {
		return number
	}
	return otherwise
}

// inside returns the text of an element's children.
func inside(n *html.Node, depth int) string {
	var w htmlReader
	w.children(n, depth)
	return w.text()
}

func (w *htmlReader) node(n *html.Node, depth, number int) {
	switch {
	case depth > maxDepth:
		return
	case n.Type == html.TextNode:
		w.WriteString(n.Data)
		return
	case w.raw && n.DataAtom != atom.Br:
		w.children(n, depth)
		return
	}
	switch n.DataAtom {
	case atom.Br:
		w.WriteString("\n")
	case atom.Blockquote:
		w.WriteString("\n> " + strings.ReplaceAll(inside(n, depth), "\n", "\n> ") + "\n\n")
	case atom.Pre:
		code := htmlReader{raw: true}
		code.children(n, depth)
		fence := "```"
		if strings.Contains(code.String(), fence) {
			fence = "~~~"
		}
		w.WriteString("\n" + fence + languageOf(n) + "\n" + strings.Trim(code.String(), "\n") + "\n" + fence + "\n")
	case atom.Li:
		mark := "- "
		if number > unnumbered {
			mark = fmt.Sprintf("%d. ", number)
		}
		w.WriteString("\n" + mark + strings.ReplaceAll(inside(n, depth), "\n", "\n  ") + "\n")
	case atom.A:
		w.link(n, depth)
	case atom.Img: // such as an emoji of the room
		alt, _ := attribute(n, "alt")
		w.WriteString(alt)
	case atom.Script, atom.Style, atom.Head, atom.Title:
	default:
		if n.Data == "mx-reply" { // the quoted message, for old clients
			return
		}
		around, known := marks[n.DataAtom]
		if reason, hidden := attribute(n, "data-mx-spoiler"); hidden {
			around, known = [2]string{"||", "||"}, true
			if reason != "" {
				around[0] = "(" + reason + ") ||"
			}
		}
		var content htmlReader
		content.children(n, depth)
		text := content.text()
		if n.DataAtom == atom.Code && strings.Contains(text, "`") {
			around = [2]string{"`` ", " ``"}
		}
		if known && (text != "" || around[0] == "") {
			w.WriteString(around[0] + text + around[1])
			return
		}
		w.WriteString(content.String())
	}
}

// languageOf returns the language of a block of code, or "".
func languageOf(pre *html.Node) string {
	if pre.FirstChild == nil {
		return ""
	}
	class, _ := attribute(pre.FirstChild, "class")
	_, language, _ := strings.Cut(class, "language-")
	if end := strings.IndexFunc(language, unicode.IsSpace); end >= 0 {
		language = language[:end]
	}
	return strings.Trim(language, "`")
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
	if address != "" && address != text && address != "mailto:"+text {
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

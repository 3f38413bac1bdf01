package markdown

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"
)

// table lays a table out in columns, to be shown in a fixed-width font.
func (w *writer) table(n *extast.Table) string {
	var rows [][]string
	var widths []int
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			words := w.words(cell)
			if len(cells) == len(widths) {
				widths = append(widths, 0)
			}
			widths[len(cells)] = max(widths[len(cells)], len([]rune(words)))
			cells = append(cells, words)
		}
		rows = append(rows, cells)
	}
	var b strings.Builder
	for i, cells := range rows {
		line(&b, cells, widths, " ")
		if i == 0 {
			line(&b, nil, widths, "-")
		}
	}
	return strings.TrimRight(b.String(), "\n")
}

func line(b *strings.Builder, cells []string, widths []int, fill string) {
	var row strings.Builder
	for i, width := range widths {
		if i > 0 {
			row.WriteString(map[string]string{" ": " | ", "-": "-+-"}[fill])
		}
		cell := ""
		if i < len(cells) {
			cell = cells[i]
		}
		row.WriteString(cell + strings.Repeat(fill, width-len([]rune(cell))))
	}
	b.WriteString(strings.TrimRight(row.String(), " ") + "\n")
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

package markdown

import (
	"strings"

	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
)

// A Block is a block of a rich message, or a part of one, as the Bot API has it (10.2 and later).
type Block map[string]any

// Limits of a rich message. Its 32,768 characters and 50 media are out of reach for a text that fits
// into one message.
const (
	maxBlocks  = 500 // list items and rows of tables included
	maxNesting = 16  // of blocks and formats in each other
	maxColumns = 20
)

// fits reports whether the parts of a rich message keep its limits.
func fits(parts []Block) bool {
	blocks, columns, nesting := 0, 0, 0
	var look func(part any, depth int)
	look = func(part any, depth int) {
		switch part := part.(type) {
		case []Block:
			blocks += len(part)
			for _, b := range part {
				look(b, depth)
			}
		case [][]Block:
			blocks += len(part)
			for _, row := range part {
				columns = max(columns, len(row))
				for _, cell := range row {
					look(cell["text"], depth)
				}
			}
		case []any:
			for _, one := range part {
				look(one, depth)
			}
		case Block:
			nesting = max(nesting, depth+1)
			for _, key := range []string{"blocks", "items", "cells", "text"} {
				look(part[key], depth+1)
			}
		}
	}
	look(parts, 0)
	return blocks <= maxBlocks && nesting <= maxNesting && columns <= maxColumns
}

// hasTable reports whether a document has a table, the one thing that entities show badly: on a
// narrow screen the lines of its columns are folded.
func hasTable(doc ast.Node) (found bool) {
	_ = ast.Walk(doc, func(n ast.Node, _ bool) (ast.WalkStatus, error) { // the walker returns no error
		if _, found = n.(*extast.Table); found {
			return ast.WalkStop, nil
		}
		return ast.WalkContinue, nil
	})
	return found
}

// richBlocks returns the blocks inside a node.
func (w *writer) richBlocks(parent ast.Node) []Block {
	blocks := []Block{}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		blocks = append(blocks, w.richBlock(n))
	}
	return blocks
}

func (w *writer) richBlock(n ast.Node) Block {
	switch n := n.(type) {
	case *ast.Heading:
		return Block{"type": "heading", "text": w.richText(n), "size": n.Level}
	case *ast.Blockquote:
		return Block{"type": "blockquote", "blocks": w.richBlocks(n)}
	case *ast.List:
		return w.richList(n)
	case *ast.FencedCodeBlock:
		return Block{"type": "pre", "text": w.lines(n), "language": string(n.Language(w.source))}
	case *ast.CodeBlock:
		return Block{"type": "pre", "text": w.lines(n)}
	case *ast.HTMLBlock:
		return Block{"type": "paragraph", "text": w.html(n)}
	case *ast.ThematicBreak:
		return Block{"type": "divider"}
	case *extast.Table:
		return w.richTable(n)
	default:
		return Block{"type": "paragraph", "text": w.richText(n)}
	}
}

func (w *writer) richList(list *ast.List) Block {
	var items []Block
	for item := list.FirstChild(); item != nil; item = item.NextSibling() {
		b := Block{"blocks": w.richBlocks(item)}
		if list.IsOrdered() {
			b["type"], b["value"] = "1", list.Start+len(items)
		}
		items = append(items, b)
	}
	return Block{"type": "list", "items": items}
}

func (w *writer) richTable(n *extast.Table) Block {
	var rows [][]Block
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []Block
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			c := Block{"text": w.richText(cell), "align": "left", "valign": "middle"}
			if a := n.Alignments[len(cells)]; a != extast.AlignNone {
				c["align"] = a.String()
			}
			if rows == nil {
				c["is_header"] = true
			}
			cells = append(cells, c)
		}
		rows = append(rows, cells)
	}
	return Block{"type": "table", "cells": rows, "is_bordered": true}
}

// richText returns the text inside a block: a string, or a list of strings and formatted texts.
func (w *writer) richText(n ast.Node) any {
	inner := &writer{source: w.source}
	inner.inlines(n, style{}, "")
	var parts []any
	for _, r := range inner.runs {
		parts = append(parts, r.rich())
	}
	switch len(parts) {
	case 0:
		return ""
	case 1:
		return parts[0]
	}
	return parts
}

// rich returns a run as a rich text, each of its entities around the next.
func (r run) rich() any {
	var text any = r.text
	for _, e := range r.entities() {
		switch {
		case e.URL != "":
			text = Block{"type": "url", "text": text, "url": e.URL}
		case e.Type != "":
			text = Block{"type": string(e.Type), "text": text}
		}
	}
	return text
}

// html returns a block of HTML as it was written.
func (w *writer) html(n *ast.HTMLBlock) string {
	lines := n.Lines().Value(w.source)
	if n.HasClosure() {
		lines = append(lines, n.ClosureLine.Value(w.source)...)
	}
	return strings.TrimRight(string(lines), "\n")
}

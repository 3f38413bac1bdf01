package markdown

import "cmp"

// A Block is a block of a rich message, or a part of one, in the form of Bot API 10.2.
type Block map[string]any

// Limits of a rich message. A text that fits into one message cannot reach its limits of 32,768
// characters and 50 media.
const (
	maxBlocks  = 500 // including list items and rows
	maxNesting = 16  // of blocks and formats
	maxColumns = 20
)

// fits reports whether the parts of a rich message are within its limits.
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

// hasTable reports whether a document has a table. Entities show tables badly: a narrow screen
// wraps the lines.
func hasTable(blocks []block) bool {
	for _, b := range blocks {
		if b.kind == table || hasTable(b.blocks) {
			return true
		}
		for _, it := range b.items {
			if hasTable(it.blocks) {
				return true
			}
		}
	}
	return false
}

func richBlocks(blocks []block) []Block {
	list := []Block{}
	for _, b := range blocks {
		list = append(list, richBlock(b))
	}
	return list
}

func richBlock(b block) Block {
	switch b.kind {
	case heading:
		return Block{"type": "heading", "text": richText(b.text), "size": b.level}
	case quote:
		return Block{"type": "blockquote", "blocks": richBlocks(b.blocks)}
	case list:
		return richList(b)
	case code:
		pre := Block{"type": "pre", "text": b.text}
		if b.language != "" {
			pre["language"] = b.language
		}
		return pre
	case rule:
		return Block{"type": "divider"}
	case table:
		return richTable(b)
	}
	return Block{"type": "paragraph", "text": richText(b.text)}
}

func richList(b block) Block {
	var items []Block
	for _, it := range b.items {
		box, rest := taskBox(it.blocks)
		blocks := richBlocks(rest)
		if box != "" {
			blocks[0]["text"] = richTexts(append([]run{{text: box}}, runsOf(rest[0].text)...))
		}
		entry := Block{"blocks": blocks}
		if it.mark != "•" {
			entry["type"], entry["value"] = "1", it.number
		}
		items = append(items, entry)
	}
	return Block{"type": "list", "items": items}
}

func richTable(b block) Block {
	var rows [][]Block
	for i, row := range b.rows {
		var cells []Block
		for column, text := range row {
			c := Block{"text": richText(text), "align": cmp.Or(b.aligns[column], "left"), "valign": "middle"}
			if i == 0 {
				c["is_header"] = true
			}
			cells = append(cells, c)
		}
		for column := len(row); column < len(b.aligns); column++ {
			cells = append(cells, Block{"text": "", "align": cmp.Or(b.aligns[column], "left"), "valign": "middle"})
		}
		rows = append(rows, cells)
	}
	return Block{"type": "table", "cells": rows, "is_bordered": true}
}

// runsOf returns the runs of an inline text.
func runsOf(text string) []run {
	var runs []run
	for _, s := range parseInline(text, style{}) {
		if s.text != "" {
			runs = append(runs, run{s.text, s.style})
		}
	}
	return runs
}

// richText returns an inline text as a string, or as a list of strings and formatted texts.
func richText(text string) any { return richTexts(runsOf(text)) }

func richTexts(runs []run) any {
	var parts []any
	for _, r := range runs {
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

// rich returns a run as rich text, with its entities nested.
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

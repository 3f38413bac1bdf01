package tgtest

import (
	"encoding/json"
	"slices"
	"strings"
)

// Limits of a rich message.
const (
	maxRich      = 32768 // characters
	maxRichParts = 500   // including list items and rows
	maxRichDepth = 16    // of blocks and formats
	maxColumns   = 20
)

// richFields are the required fields of each part of a rich message, by its type: first of
// blocks, then of formatted texts.
var richFields = map[string][]string{
	"paragraph": {"text"}, "heading": {"text", "size"}, "pre": {"text"}, "divider": nil,
	"blockquote": {"blocks"}, "list": {"items"}, "table": {"cells"},
	"bold": {"text"}, "italic": {"text"}, "strikethrough": {"text"}, "code": {"text"}, "url": {"text", "url"},
}

// readRich returns the text of a call's rich message.
func readRich(req *request) (string, *apiError) {
	var m struct {
		Blocks []any `json:"blocks"`
	}
	if err := req.decode("rich_message", &m); err != nil {
		return "", err
	}
	r := richReader{}
	r.blocks(m.Blocks)
	text := strings.TrimSpace(r.words.String())
	switch {
	case r.wrong != "":
		return "", badRequest("can't parse rich message: %s", r.wrong)
	case text == "":
		return "", badRequest("message text is empty")
	case len([]rune(text)) > maxRich || r.parts > maxRichParts || r.deepest > maxRichDepth:
		return "", badRequest("message is too long")
	}
	return text, nil
}

// A richReader collects the text of a rich message.
type richReader struct {
	words          strings.Builder
	parts          int
	depth, deepest int
	wrong          string
}

func (r *richReader) blocks(list any) {
	all, ok := list.([]any)
	if !ok {
		r.wrong = "no list of blocks"
	}
	for _, one := range all {
		b, _ := one.(map[string]any)
		if r.parts++; !r.check(b) {
			return
		}
		r.within(func() {
			switch b["type"] {
			case "blockquote":
				r.blocks(b["blocks"])
			case "list":
				items, _ := b["items"].([]any)
				for _, item := range items {
					i, _ := item.(map[string]any)
					r.parts++
					r.within(func() { r.blocks(i["blocks"]) })
				}
			case "table":
				r.table(b["cells"])
			case "divider":
			default:
				r.text(b["text"])
			}
		})
		r.words.WriteByte('\n')
	}
}

// within reads the inside of a part.
func (r *richReader) within(read func()) {
	r.depth++
	r.deepest = max(r.deepest, r.depth)
	read()
	r.depth--
}

// check reports whether a part has the fields that its type requires.
func (r *richReader) check(part map[string]any) bool {
	kind, _ := part["type"].(string)
	fields, known := richFields[kind]
	if !known {
		r.wrong = "unknown type " + kind
	}
	for _, f := range fields {
		if part[f] == nil {
			r.wrong = kind + " without " + f
		}
	}
	return r.wrong == ""
}

func (r *richReader) table(cells any) {
	rows, _ := cells.([]any)
	for _, row := range rows {
		r.parts++
		columns, _ := row.([]any)
		if len(columns) > maxColumns {
			r.wrong = "too many columns"
		}
		for _, cell := range columns {
			c, _ := cell.(map[string]any)
			if !slices.Contains([]any{"left", "center", "right"}, c["align"]) ||
				!slices.Contains([]any{"top", "middle", "bottom"}, c["valign"]) {
				r.wrong = "a cell without its alignment"
			}
			r.text(c["text"])
			r.words.WriteByte(' ')
		}
		r.words.WriteByte('\n')
	}
}

func (r *richReader) text(part any) {
	switch part := part.(type) {
	case string:
		r.words.WriteString(part)
	case []any:
		for _, one := range part {
			r.text(one)
		}
	case map[string]any:
		if r.check(part) {
			r.within(func() { r.text(part["text"]) })
		}
	default:
		r.wrong = "no text"
	}
}

// richText returns the text of a call's rich message, or "".
func richText(params map[string]json.RawMessage) string {
	text, _ := readRich(&request{params: params}) // an invalid one has been refused
	return text
}

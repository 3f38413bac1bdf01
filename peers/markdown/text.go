package markdown

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Limits of a Telegram message.
const (
	MaxUnits    = 4096 // UTF-16 code units of a text
	maxEntities = 100
)

// A Text is the text of a message with its entities.
type Text struct {
	Text     string   `json:"text"`
	Entities []Entity `json:"entities,omitempty"`
	Rich     []Block  `json:"rich,omitempty"` // the rich form, if it shows the text better
}

// Units returns the number of UTF-16 code units of a text.
func Units(s string) int {
	n := 0
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// A style is the formatting of a run. It is comparable.
type style struct {
	bold, italic, strike, code, quote bool
	pre                               bool
	language                          string // of pre
	link                              string
}

// A run is a stretch of text in one style.
type run struct {
	text string
	style
}

// assemble joins runs into a text without surrounding white space. Each stretch of equal style
// gets its entity.
func assemble(runs []run) Text {
	runs = trim(runs)
	var text strings.Builder
	var starts []int
	at := 0
	for _, r := range runs {
		starts = append(starts, at)
		text.WriteString(r.text)
		at += Units(r.text)
	}
	starts = append(starts, at)
	var out []Entity
	for kind := range (style{}).entities() {
		for i := 0; i < len(runs); {
			from, e := i, runs[i].entities()[kind]
			for i < len(runs) && runs[i].entities()[kind] == e {
				i++
			}
			if e.Offset, e.Length = starts[from], starts[i]-starts[from]; e.Type != "" {
				out = append(out, e)
			}
		}
	}
	slices.SortStableFunc(out, func(a, b Entity) int {
		return cmp.Or(a.Offset-b.Offset, b.Length-a.Length) // the outer one first
	})
	return Text{Text: text.String(), Entities: out}
}

// entities returns the entities of a style, by kind. Those that the style lacks are empty.
func (s style) entities() (all [7]Entity) {
	words := !s.code && !s.pre
	for i, kind := range []struct {
		on     bool
		entity Entity
	}{
		{s.quote, Entity{Type: Blockquote}},
		{s.pre, Entity{Type: Pre, Language: s.language}},
		{s.code && !s.pre, Entity{Type: Code}},
		{words && s.link != "", Entity{Type: TextLink, URL: s.link}},
		{words && s.bold, Entity{Type: Bold}},
		{words && s.italic, Entity{Type: Italic}},
		{words && s.strike, Entity{Type: Strikethrough}},
	} {
		if kind.on {
			all[i] = kind.entity
		}
	}
	return all
}

const space = " \n\t\r"

// trim removes empty runs and the surrounding white space.
func trim(runs []run) []run {
	for i := range runs {
		blank := space
		if runs[i].pre {
			blank = "\n\r" // in code, the indentation of the first line stays
		}
		if runs[i].text = strings.TrimLeft(runs[i].text, blank); runs[i].text != "" {
			break
		}
	}
	for i := range slices.Backward(runs) {
		if runs[i].text = strings.TrimRight(runs[i].text, space); runs[i].text != "" {
			break
		}
	}
	return slices.DeleteFunc(runs, func(r run) bool { return r.text == "" })
}

// Plain returns a text without formatting.
func Plain(s string) Text {
	return Text{Text: strings.TrimSpace(strings.ToValidUTF8(s, string(utf8.RuneError)))}
}

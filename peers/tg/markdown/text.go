package markdown

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-telegram/bot/models"
)

// Limits of a Telegram message.
const (
	MaxUnits    = 4096 // UTF-16 code units of a text
	maxEntities = 100
)

// A Text is one message's text with its entities.
type Text struct {
	Text     string                 `json:"text"`
	Entities []models.MessageEntity `json:"entities,omitempty"`
}

// Units counts the UTF-16 code units of a text.
func Units(s string) int {
	n := 0
	for _, r := range s {
		n += runeUnits(r)
	}
	return n
}

func runeUnits(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}

// A style is how a run of text looks. It is comparable.
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

// assemble joins runs into a text without white space around it, and gives each
// stretch of equal style its entity.
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
	var out []models.MessageEntity
	for _, kind := range kinds {
		for i := 0; i < len(runs); i++ {
			e, on := kind(runs[i].style)
			if !on {
				continue
			}
			j := i + 1
			for ; j < len(runs); j++ {
				if next, on := kind(runs[j].style); !on || next != e {
					break
				}
			}
			e.Offset, e.Length = starts[i], starts[j]-starts[i]
			out = append(out, e)
			i = j - 1
		}
	}
	slices.SortStableFunc(out, func(a, b models.MessageEntity) int {
		if a.Offset != b.Offset {
			return a.Offset - b.Offset
		}
		return b.Length - a.Length // the outer one first
	})
	return Text{Text: text.String(), Entities: out}
}

// kinds tells which entity a style asks for, one function an entity type.
var kinds = []func(style) (models.MessageEntity, bool){
	func(s style) (models.MessageEntity, bool) {
		return models.MessageEntity{Type: models.MessageEntityTypeBlockquote}, s.quote
	},
	func(s style) (models.MessageEntity, bool) {
		return models.MessageEntity{Type: models.MessageEntityTypePre, Language: s.language}, s.pre
	},
	func(s style) (models.MessageEntity, bool) {
		return models.MessageEntity{Type: models.MessageEntityTypeCode}, s.code && !s.pre
	},
	func(s style) (models.MessageEntity, bool) {
		return models.MessageEntity{Type: models.MessageEntityTypeTextLink, URL: s.link}, s.link != "" && !s.code && !s.pre
	},
	func(s style) (models.MessageEntity, bool) {
		return models.MessageEntity{Type: models.MessageEntityTypeBold}, s.bold && !s.code && !s.pre
	},
	func(s style) (models.MessageEntity, bool) {
		return models.MessageEntity{Type: models.MessageEntityTypeItalic}, s.italic && !s.code && !s.pre
	},
	func(s style) (models.MessageEntity, bool) {
		return models.MessageEntity{Type: models.MessageEntityTypeStrikethrough}, s.strike && !s.code && !s.pre
	},
}

const space = " \n\t\r"

// trim drops empty runs and the white space around the whole.
func trim(runs []run) []run {
	for len(runs) > 0 {
		runs[0].text = strings.TrimLeft(runs[0].text, "\n\r")
		if !runs[0].pre {
			runs[0].text = strings.TrimLeft(runs[0].text, space)
		}
		if runs[0].text != "" {
			break
		}
		runs = runs[1:]
	}
	for len(runs) > 0 {
		last := len(runs) - 1
		runs[last].text = strings.TrimRight(runs[last].text, space)
		if runs[last].text != "" {
			break
		}
		runs = runs[:last]
	}
	return slices.DeleteFunc(runs, func(r run) bool { return r.text == "" })
}

// Plain is a text without any formatting.
func Plain(s string) Text {
	return Text{Text: strings.TrimSpace(strings.ToValidUTF8(s, string(utf8.RuneError)))}
}

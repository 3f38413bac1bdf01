package markdown

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"hubbub/protocol/text"
)

// Split splits a text into parts of at most limit units; a limit below 2 counts as 2. Text that
// is only white space has no parts. A single part keeps the rich form.
func Split(t Text, limit int) []Text {
	limit = max(limit, 2)
	var parts []Text
	offset := 0 // of the rest, in units
	rest := t.Text
	for {
		trimmed := rest
		if parts != nil && !inPre(t.Entities, offset) || strings.TrimSpace(rest) == "" {
			trimmed = strings.TrimLeftFunc(rest, unicode.IsSpace)
		} else if parts != nil { // in code, the indentation of the first line stays
			trimmed = strings.TrimLeft(rest, "\r\n")
		}
		offset += Units(rest[:len(rest)-len(trimmed)])
		if rest = trimmed; rest == "" {
			if len(parts) == 1 {
				parts[0].Rich = t.Rich
			}
			return parts
		}
		n := cutAt(rest, limit)
		if all := within(t.Entities, offset, Units(rest[:n])); len(all) > maxEntities {
			n = cutAt(rest, max(all[maxEntities].Offset, 2)) // addresses of links must not be lost
		}
		piece := strings.TrimRightFunc(rest[:n], unicode.IsSpace)
		if piece != "" {
			parts = append(parts, Text{Text: piece, Entities: within(t.Entities, offset, Units(piece))})
		}
		offset += Units(rest[:n])
		rest = rest[n:]
	}
}

func inPre(entities []Entity, offset int) bool {
	return slices.ContainsFunc(entities, func(e Entity) bool {
		return e.Type == Pre && e.Offset <= offset && offset < e.Offset+e.Length
	})
}

// cutAt returns the length in bytes of the next part of s.
func cutAt(s string, limit int) int {
	window := Prefix(s, limit)
	if window == len(s) {
		return window
	}
	least := Prefix(s, limit/4) // a shorter part is not worth a better boundary
	head := s[:window]
	if i := strings.LastIndex(head, "\n\n"); i > least {
		return i
	}
	if strings.HasPrefix(s[window:], "\n") {
		return window
	}
	if i := strings.LastIndexByte(head, '\n'); i > least {
		return i
	}
	if i := sentencesEnd(head, s[window:]); i > least {
		return i
	}
	if r, _ := utf8.DecodeRuneInString(s[window:]); unicode.IsSpace(r) {
		return window
	}
	if i := strings.LastIndexFunc(head, unicode.IsSpace); i > least {
		return i
	}
	return characterEnd(s, window)
}

// sentence matches the end of a sentence, with the space after it in scripts that have one. A
// period after one or two letters may belong to an abbreviation.
var sentence = text.Pattern(`(?:[\pL\pM\pN)\]]{3}[.]|[!?…؟।])["'”’»)\]]*\s|[。！？][」』”’）]*`)

// sentencesEnd returns the length of the whole sentences at the beginning of a text, or 0. rest is
// what follows the text.
func sentencesEnd(text, rest string) int {
	if r, size := utf8.DecodeRuneInString(rest); unicode.IsSpace(r) {
		text += rest[:size]
	}
	for _, end := range slices.Backward(sentence().FindAllStringIndex(text, -1)) {
		if r, _ := utf8.DecodeRuneInString(text[end[1]:]); !unicode.IsLower(r) {
			return len(strings.TrimRightFunc(text[:end[1]], unicode.IsSpace))
		}
	}
	return 0
}

// Prefix returns the length in bytes of the longest prefix of at most n units.
func Prefix(s string, n int) int {
	for i, r := range s {
		if n -= utf16.RuneLen(r); n < 0 {
			return i
		}
	}
	return len(s)
}

// joiner joins two characters into one.
const joiner = '\u200d'

// characterEnd moves a cut backwards so that it does not split a character: before a combining
// mark, a variation selector or a tag, next to a joiner, or within a flag.
func characterEnd(s string, at int) int {
	const longest = 64 // maximal bytes of one visible character
	for i := at; i > 0 && at-i < longest; {
		next, _ := utf8.DecodeRuneInString(s[i:])
		last, size := utf8.DecodeLastRuneInString(s[:i])
		modifier := next >= 0x1F3FB && next <= 0x1F3FF || next >= 0xE0020 && next <= 0xE007F
		if !unicode.Is(unicode.M, next) && next != joiner && last != joiner && !modifier &&
			!(isRegional(next) && regionals(s[:i])%2 == 1) {
			return i
		}
		i -= size
	}
	return at
}

// within returns the entities inside a part of the text, with offsets relative to the part.
func within(entities []Entity, offset, length int) []Entity {
	var out []Entity
	for _, e := range entities {
		from, to := max(e.Offset, offset), min(e.Offset+e.Length, offset+length)
		if from >= to {
			continue
		}
		e.Offset, e.Length = from-offset, to-from
		out = append(out, e)
	}
	return out
}

// isRegional reports whether a rune is a letter of a flag. Two of them are one character.
func isRegional(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }

// regionals returns the number of letters of flags at the end of a text.
func regionals(s string) int {
	rest := strings.TrimRightFunc(s, isRegional)
	return utf8.RuneCountInString(s[len(rest):])
}

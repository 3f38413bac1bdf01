package markdown

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"hubbub/protocol/text"
)

const maxFace = 24 // bytes

// These match the rest of a face before or after a backquote that is one of its eyes: (´∀`).
var (
	accentBefore = text.Pattern(`´[^\s\x00-\x5E\x60-\x7F´]{1,5}$`)
	accentAfter  = text.Pattern(`^[^\s\x00-\x5E\x60-\x7F´]{1,5}´`)
)

// isFace reports whether the text between the marks at j and i is a face, as in (*'▽'*): two equal eyes
// around a few other signs.
func (p *inlineParser) isFace(j, i int) bool {
	text := ""
	for _, s := range p.spans[j+1 : i] {
		if text += s.text; len(text) > maxFace {
			return false
		}
	}
	face := []rune(strings.ToLower(text))
	face = slices.DeleteFunc(face, func(r rune) bool { return unicode.Is(unicode.Mn, r) }) // brows: (*•̀ᴗ•́*)
	if len(face) < 3 || face[0] != face[len(face)-1] || strings.ContainsFunc(text, isNoFace) {
		return false
	}
	eye, mouth := face[0], face[1:len(face)-1]
	letters := len(slices.DeleteFunc(slices.Clone(mouth), func(r rune) bool { return !isLetter(r) }))
	if !strings.ContainsRune("(（", p.spans[j].mark.before) || !strings.ContainsRune(")）", p.spans[i].mark.next) {
		return p.spans[j].mark.n == 1 && letters == 0 && !isLetter(eye) && !isQuotation(eye) && mouth[0] != eye
	}
	if isLetter(eye) {
		return len(mouth) == 1 && letters == 0 && (mouth[0] >= utf8.RuneSelf || strings.ContainsRune("_.-", mouth[0]))
	}
	return letters <= 1 && mouth[0] != eye
}

// isNoFace reports whether a character is no part of a face: a space, a digit or a picture.
func isNoFace(r rune) bool { return isSpace(r) || unicode.IsDigit(r) || r >= 0x1F000 }

// isLetter reports whether a character is a letter that is no usual mouth or cheek of a face.
func isLetter(r rune) bool { return unicode.IsLetter(r) && !unicode.Is(unicode.Lm, r) && r != 'ω' }

// areEyes reports whether a mark between two characters is the mouth of a face: (●_●).
func areEyes(before, next rune) bool {
	shape := func(r rune) bool { return r >= 0x25A0 && r <= 0x25FF }
	return before == next && unicode.Is(unicode.So, before) || shape(before) && shape(next)
}

// isModifier reports whether a character changes how the one before it looks, as in *️⃣.
func isModifier(r rune) bool { return unicode.In(r, unicode.Variation_Selector, unicode.Me) }

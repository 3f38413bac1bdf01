// Package text shortens texts for people, and finds the characters that people cannot
// see. No function here cuts a character in two.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clip returns s in at most n characters, but at least one. If something was cut off,
// the last of them is an ellipsis.
func Clip(s string, n int) string {
	n = max(n, 1)
	if len(s) <= n {
		return s
	}
	count, last := 0, 0 // last is where the n-th character begins
	for i := range s {
		if count++; count == n {
			last = i
		}
		if count > n {
			return s[:last] + "…"
		}
	}
	return s
}

// Prefix returns the longest beginning of s that has at most n bytes.
func Prefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(n, 0)]
}

// Cut returns s if it has at most n bytes, and otherwise its longest beginning that
// has, followed by three dots.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Prefix(s, n) + "..."
}

// OneLine returns s in one line: each run of white space is one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Counted returns a number with its noun, in the plural unless it is 1.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// IsControl reports whether a character is a control character, ends a line, or changes the
// direction of a text. The joiners that make up emoji and some scripts are not hidden.
func IsControl(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

// IsInvisible reports whether a character cannot stand in a name or an id: it is hidden, or
// takes no room of its own. So no two names look alike that differ by such characters
// alone. In a text they may well be right.
func IsInvisible(r rune) bool {
	return IsControl(r) || unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// StripInvisible returns s without unseen characters: a name of what is shown as s.
func StripInvisible(s string) string {
	return strings.Map(func(r rune) rune {
		if IsInvisible(r) {
			return -1
		}
		return r
	}, s)
}

// EscapeInvisible returns s in one line with its unseen characters, and blanks that are no space,
// written out like \u202e: whoever decides by it sees all that is there.
func EscapeInvisible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r > 0xffff && IsInvisible(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		case IsInvisible(r), r != ' ' && unicode.IsSpace(r), r == '\u2800':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// IsCleanName reports whether s can be a name or an id: it is valid UTF-8 without unseen characters.
func IsCleanName[T string | []byte](s T) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			t := string(s)
			return utf8.ValidString(t) && !strings.ContainsFunc(t, IsInvisible)
		}
	}
	return true
}

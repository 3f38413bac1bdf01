package text

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clip shortens s to at most n characters, but at least one. A shortened text ends with an
// ellipsis.
func Clip(s string, n int) string {
	n = max(n, 1)
	if len(s) <= n {
		return s
	}
	count, last := 0, 0 // last is the start of the n-th character
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

// Prefix returns the longest prefix of s with at most n bytes.
func Prefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:max(n, 0)]
}

// Cut returns s if it has at most n bytes, and otherwise its longest prefix of at most n bytes,
// followed by three dots.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Prefix(s, n) + "..."
}

// OneLine replaces each run of white space in s with one space.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Fence returns the shortest run of at least three backquotes that s does not contain.
func Fence(s string) string {
	longest, run := 2, 0
	for i := range len(s) {
		if run++; s[i] != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	return strings.Repeat("`", longest+1)
}

// Counted returns a number with its noun, which is plural unless the number is 1.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// IsControl reports whether a character is a control character, ends a line, or changes the
// direction of text. The joiners of emoji and some scripts are allowed.
func IsControl(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

// IsInvisible reports whether a character must not occur in a name or an id, because it is a
// control character or has no width. Two different names then never look alike because of such
// characters. They are allowed in other texts.
func IsInvisible(r rune) bool {
	return IsControl(r) || unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point,
		unicode.Variation_Selector)
}

// CleanName converts s to a name: it removes characters that names must not have, and replaces
// blanks with spaces. The result may be empty.
func CleanName(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError, IsInvisible(r):
			return -1
		case isBlank(r):
			return ' '
		}
		return r
	}, s)
}

// EscapeInvisible returns s in one line. It escapes invisible characters, and blanks other than
// the space, such as \u202e, so that readers see everything on which they decide.
func EscapeInvisible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r > 0xffff && IsInvisible(r):
			fmt.Fprintf(&b, `\U%08x`, r)
		case IsInvisible(r), isBlank(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// isBlank reports whether a character looks like a space but is another character.
func isBlank(r rune) bool {
	return r != ' ' && (unicode.IsSpace(r) || strings.ContainsRune("\u2800\U00013441\U00013442\U0001d159", r))
}

// NameRule describes the rule of IsCleanName, for errors: "messageId must be " + NameRule.
const NameRule = "valid Unicode without control or invisible characters, and without blanks other than the space"

// IsCleanName reports whether s can be a name or an id: valid UTF-8 without invisible characters,
// and without blanks other than the space. So names with different blanks do not look alike.
func IsCleanName[T string | []byte](s T) bool { return isClean(s, isBlank) }

// IsCleanLine reports whether s is valid UTF-8 without invisible characters. It may have blanks
// that do not end a line, as in names of files and labels. The replacement character U+FFFD is
// also refused, because a JSON decoder replaces every unpaired surrogate with it, so that
// different names would become equal.
func IsCleanLine(s string) bool { return isClean(s, func(rune) bool { return false }) }

func isClean[T string | []byte](s T, refused func(rune) bool) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] >= 0x7f {
			t := string(s)
			return !strings.ContainsFunc(t, func(r rune) bool {
				return r == utf8.RuneError || IsInvisible(r) || refused(r)
			})
		}
	}
	return true
}

package attention

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHeaderRunes bounds one header value.
const maxHeaderRunes = 200

// HeaderValue makes one line of any string: control characters, line
// separators, bidirectional and other invisible format characters, and bytes
// that are not UTF-8 are written as escapes, and what is longer than 200
// characters is cut. Backslashes are doubled, so that an escape cannot be
// mistaken for what somebody typed. An empty value becomes "-".
func HeaderValue(s string) string {
	if s == "" {
		return "-"
	}
	var b strings.Builder
	count := 0
	for i, r := range s {
		if count++; count > maxHeaderRunes {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case visible(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// visible reports whether a character may stand in a header as it is.
func visible(r rune) bool { return r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// BodyText makes a body that shows what it holds: line ends become "\n", and
// control and bidirectional characters are escaped; everything else, line
// breaks and tabs included, stays.
func BodyText(s string) string {
	s = strings.ReplaceAll(strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\r\n", "\n"), "\r", "\n")
	if strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// hidden reports whether a character is a control character, or turns the direction of
// a text. The joiners that make up emoji and some scripts are not hidden.
func hidden(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	}
	return unicode.Is(unicode.Bidi_Control, r)
}

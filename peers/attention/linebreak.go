package attention

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// WithLineBreaks replaces each \n in a text with a line break, for a model that escaped line breaks
// twice. It does not change a text with a line break, code, a path or an expression, nor one in which
// a \n is where no line would end: C:\new, or a sentence about \n.
func WithLineBreaks(text string) string {
	if !strings.Contains(text, `\n`) || strings.ContainsAny(text, "\n`") || strings.HasPrefix(text, "{") ||
		strings.HasPrefix(text, "[") {
		return text
	}
	escaped := strings.ReplaceAll(text, `\r\n`, `\n`)
	if otherBackslash().MatchString(escaped) {
		return text
	}
	parts := strings.Split(strings.TrimSuffix(escaped, `\n`), `\n`)
	quoted := false
	for i := 1; i < len(parts); i++ {
		quoted = quoted != (strings.Count(strings.ReplaceAll(parts[i-1], `\"`, ""), `"`)%2 == 1)
		if quoted || !endsLine(parts[i-1], parts[i], i > 1) {
			return text
		}
	}
	if len(parts) < 3 && !alone().MatchString(text) { // one may be part of a path or an expression
		return text
	}
	return strings.ReplaceAll(strings.Join(parts, "\n"), `\"`, `"`)
}

// endsLine reports whether a line may end between two texts. An empty one is a line between paragraphs.
func endsLine(before, after string, inside bool) bool {
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	switch {
	case before == "":
		return inside && after != ""
	case after == "":
		return !unicode.IsSpace(last)
	case strings.ContainsRune(".!?…;,)*。！？：；，", last), listItem().MatchString(after):
		return true
	}
	return unicode.IsLetter(last) && (unicode.IsUpper(first) || first >= utf8.RuneSelf)
}

// otherBackslash matches a backslash of a path, a formula or a regular expression: \Users, f(x)\neq 0, .*\n
var otherBackslash = compiled(`\\[A-Za-mo-z]|[.)\]]\*\\n|\\n(?:abla|eq?|eg|ot|otin|u|exists|leq|geq|mid)(?:\PL|$)`)

// alone matches a line break that cannot be anything else: between two sentences.
var alone = compiled(`[\pL\d][.!?…。！？]\\n(?:\p{Lu}|\p{Lo})`)

// listItem matches the beginning of an item of a list, or of a heading.
var listItem = begins(`\s*(?:[-*•]|\d{1,3}[.)]|#{1,6}) `)

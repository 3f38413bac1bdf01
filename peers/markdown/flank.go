package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// opens reports whether a run of n marks can begin an emphasis, given the characters around it.
//
// A mark between letters or digits is text. So is a mark on the inner side of a bracket, a slash
// or an arithmetic sign, and a mark that is quoted: 5*4*3, (*), src/**/x, *.txt, "*". In scripts
// that join words, a double mark may stand between letters.
func opens(char byte, n int, before, next rune) bool {
	double := char != '_' && n >= 2
	if isSpace(next) || next == '/' || next == '\\' || isQuotation(before) && isQuotation(next) ||
		isClosing(next) && !isQuotation(next) && !strings.ContainsRune(beforeWords, next) && !(double && next == '.') {
		return false
	}
	if !double && !isWord(next) && !isOpening(next) && !isQuotation(next) && !isSymbol(next) &&
		!strings.ContainsRune("#@`"+beforeWords, next) {
		return false
	}
	switch {
	case isSpace(before), isOpening(before), isQuotation(before), isCJKPunctuation(before),
		unicode.Is(unicode.Pd, before), isEmoji(before):
		return true
	case double:
		return joinsWords(before) || joinsWords(next) && !isWord(before) ||
			strings.ContainsRune(".,;:!?…·•/#&%", before) || unicode.Is(unicode.S, before)
	}
	return false
}

// ends reports whether a run of n marks can end an emphasis.
func ends(char byte, n int, before, next rune) bool {
	if isSpace(before) || before == '/' || before == '\\' || isQuotation(before) && isQuotation(next) ||
		isOpening(before) && !isQuotation(before) ||
		n == 1 && next == '.' && strings.ContainsRune(",;:、，；：", before) {
		return false
	}
	switch {
	case isSpace(next), isClosing(next), isQuotation(next), isCJKPunctuation(next), unicode.Is(unicode.Pd, next),
		isEmoji(next), char == '*' && strings.ContainsRune("%‰°", next):
		return true
	case char != '_' && n >= 2:
		return joinsWords(next) || joinsWords(before) && !isASCIIWord(next) || isClosing(before) && before != '"' && before != '\'' && isWord(next) ||
			strings.ContainsRune("(/[#&", next) || unicode.In(next, unicode.S, unicode.No)
	}
	return false
}

// isIdentifier reports whether the underscores at a position belong to an identifier, such as
// __init__ or _snake_case_. Its word must consist of letters, digits and underscores, and must
// not be a single word between single underscores. Very long words are identifiers.
func isIdentifier(source string, at int, char byte) bool {
	if char != '_' {
		return false
	}
	from, to := at, at
	part := func(r rune) bool { return r == '_' || isWord(r) }
	for from > 0 && at-from < maxWord {
		r, n := utf8.DecodeLastRuneInString(source[:from])
		if !part(r) {
			break
		}
		from -= n
	}
	for to < len(source) && to-at < maxWord {
		r, n := utf8.DecodeRuneInString(source[to:])
		if !part(r) {
			break
		}
		to += n
	}
	word := source[from:to]
	inner := strings.Trim(word, "_")
	if inner == "" {
		return len(word) > 2 // a blank to fill in
	}
	if max(at-from, to-at) >= maxWord {
		return true
	}
	begins, finishes := strings.HasPrefix(word, "_"), strings.HasSuffix(word, "_")
	if strings.Contains(inner, "_") {
		return begins && finishes || !begins && !finishes
	}
	return begins && finishes && strings.HasPrefix(word, "__")
}

// beforeWords are the punctuation marks that stand before words: § 5, …and.
const beforeWords = "§¶…†‡•·・※‼⁉"

// isWord reports whether a character is part of a word.
func isWord(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.M) }

func isASCIIWord(r rune) bool { return r < utf8.RuneSelf && isWord(r) }

// joinsWords reports whether a character belongs to a script without spaces between words, or to
// one that joins "and" or "the" to the next word.
func joinsWords(r rune) bool {
	return isCJKPunctuation(r) || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul,
		unicode.Bopomofo, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tibetan,
		unicode.Arabic, unicode.Hebrew)
}

func isCJKPunctuation(r rune) bool {
	return r >= 0x3000 && r <= 0x303F || r >= 0xFF00 && r <= 0xFF65 && !unicode.In(r, unicode.L, unicode.N)
}

func isOpening(r rune) bool { return unicode.In(r, unicode.Ps, unicode.Pi) || r == '¿' || r == '¡' }

// isClosing reports whether a character ends or follows words.
func isClosing(r rune) bool {
	return unicode.In(r, unicode.Pe, unicode.Pf) || unicode.Is(unicode.Po, r) && !strings.ContainsRune(`¿¡#@&%*/\`, r)
}

// breaksQuotations reports whether an emphasis would begin in one quotation and end in another, as
// in "*a" or "b*". It takes the characters around the emphasis and the words in it.
func breaksQuotations(before, next rune, words string) bool {
	if !isQuotation(before) || !isQuotation(next) {
		return false
	}
	for i, r := range words {
		if r != before && r != next {
			continue
		}
		last, _ := utf8.DecodeLastRuneInString(words[:i])
		first, _ := utf8.DecodeRuneInString(words[i+utf8.RuneLen(r):])
		if !isWord(last) || !isWord(first) { // no apostrophe
			return true
		}
	}
	return false
}

// keepsMarks reports whether the marks at j and i are text although they could surround an emphasis.
// words are the texts between them, the last one first.
func (p *inlineParser) keepsMarks(j, i int, words string) bool {
	first, last := p.spans[j].mark, p.spans[i].mark
	if strings.Trim(words, "*_~ \n") == "" || first.n == 1 && strings.Contains(words, "\n") ||
		breaksQuotations(first.before, last.next, words) || first.n == 1 && p.hasUnderscore(j+1, i-1) {
		return true
	}
	head, tail := p.textAt(j+1), p.textAt(i-1)
	return breaksBrackets(first.before, last.next, head, tail) || joinsOperator(last.next, tail, words)
}

// hasUnderscore reports whether exactly one of two spans, the first and the last of an emphasis, has a single
// underscore at the outer side. Such words are a pattern, as in '*_a*' '*_b*'.
func (p *inlineParser) hasUnderscore(first, last int) bool {
	text := func(i int) string {
		if m := p.spans[i].mark; m != nil && m.n == 0 { // it is used
			return ""
		}
		return p.textAt(i)
	}
	head, tail := text(first), text(last)
	begins := strings.HasPrefix(head, "_") && !strings.HasPrefix(head, "__")
	return begins != (strings.HasSuffix(tail, "_") && !strings.HasSuffix(tail, "__"))
}

const brackets = "()（）"

// breaksBrackets reports whether an emphasis would begin in parentheses and end outside of them, or the
// other way round: (*required) 5*. It takes the characters around the emphasis and the texts at its ends.
func breaksBrackets(before, next rune, head, tail string) bool {
	leaves, enters := false, false
	if at := strings.IndexAny(head, brackets); at >= 0 && strings.ContainsRune("(（", before) {
		leaves = strings.HasPrefix(head[at:], ")") || strings.HasPrefix(head[at:], "）")
	}
	ended := strings.ContainsRune(")）", next)
	if at := strings.LastIndexAny(tail, brackets); at >= 0 && ended {
		enters = strings.HasPrefix(tail[at:], "(") || strings.HasPrefix(tail[at:], "（")
	}
	return enters || leaves && !ended
}

// joinsOperator reports whether a mark before =, > or & may be part of an expression that does not begin
// with the emphasis: **kw) x**=2. It takes the text before the mark and all words of the emphasis.
func joinsOperator(next rune, tail, words string) bool {
	last, _ := utf8.DecodeLastRuneInString(tail)
	return strings.ContainsRune("=>&", next) && isASCIIWord(last) && strings.ContainsAny(words, " \n")
}

func isQuotation(r rune) bool { return unicode.Is(unicode.Quotation_Mark, r) }

// isSymbol reports whether a character may begin words: an emoji or a currency sign.
func isSymbol(r rune) bool { return unicode.In(r, unicode.So, unicode.Sc) }

// keycap is the end of 1️⃣.
const keycap = 0x20E3

// isEmoji reports whether a character is a picture or the end of one. Signs such as ° and © are not.
func isEmoji(r rune) bool {
	return r >= 0x2190 && unicode.Is(unicode.So, r) || r == 0xFE0F || r == keycap
}

package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"hubbub/protocol/text"
)

// isMaskSign reports whether a character divides data whose digits or letters may be hidden by
// asterisks: ***-**-1234.
func isMaskSign(r rune) bool { return unicode.Is(unicode.Pd, r) || strings.ContainsRune(".@/:,", r) }

// hiddenRest matches what follows the first asterisks of data: ***-**-1234, ***.456.789-**.
var hiddenRest = text.Pattern(`^(?:(?:-\*{1,3}-|\.\*{1,3}\.)[\d*]|\.\d{3}\.\d{3})`)

// isMask reports whether marks hide the first part of data, or one between two equal signs. It takes the
// texts around the marks. In **-**-Taste and **-9**-**-5** they hide nothing.
func isMask(before, after string) bool {
	sign, n := utf8.DecodeLastRuneInString(before)
	if (before == "" || isSpace(sign) || isOpening(sign)) && hiddenRest().MatchString(after) {
		return true
	}
	next, m := utf8.DecodeRuneInString(after)
	if sign != next || !isMaskSign(sign) {
		return false
	}
	before = before[:len(before)-n]
	first, _ := utf8.DecodeLastRuneInString(before)
	last, _ := utf8.DecodeRuneInString(after[m:])
	if word, _ := utf8.DecodeLastRuneInString(strings.TrimRight(before, "*")); first == '*' && isWord(word) {
		return false
	}
	return (first == '*' || isWord(first)) && (last == '*' || isWord(last)) && (first != '*' || !unicode.IsLetter(last))
}

// masks reports whether marks around signs hide parts of data, as in ***-12-***, ***.456.789-** and
// 12**-**34. A period at the end of -5. ends a sentence.
func (p *inlineParser) masks(j, i int) bool {
	first, head, tail := p.spans[j].mark, p.textAt(j+1), p.textAt(i-1)
	if j >= 2 && p.spans[j-2].mark != nil && p.spans[j-2].mark.n > 0 && !p.spans[j-2].mark.opens {
		if r, n := utf8.DecodeRuneInString(p.spans[j-1].text); n == len(p.spans[j-1].text) && isMaskSign(r) {
			return true
		}
	}
	sign, n := utf8.DecodeRuneInString(head)
	last, m := utf8.DecodeLastRuneInString(tail)
	if !isMaskSign(sign) || sign != last && !unicode.Is(unicode.Pd, last) {
		return false
	}
	if j+2 == i && strings.TrimFunc(head, isMaskSign) == "" {
		return max(first.n, p.spans[i].mark.n) == 3 || first.before != '/' && isMaskSign(first.before) ||
			unicode.Is(unicode.Sc, first.before)
	}
	hidden := func(r rune) bool { return r == '*' || unicode.IsDigit(r) }
	begins, _ := utf8.DecodeRuneInString(head[n:])
	ends, _ := utf8.DecodeLastRuneInString(tail[:len(tail)-m])
	return hidden(begins) && hidden(ends)
}

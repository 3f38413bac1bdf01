package markdown

import (
	"strings"

	"hubbub/protocol/text"
)

const maxFormula = 1024 // bytes

var (
	texSign  = text.Pattern(`\\[A-Za-z]|\S\^|_\{|\b[A-Za-z]_[A-Za-z0-9]\b`)
	relation = text.Pattern(`[=<>≤≥≠≈≡∈→]`)
	longWord = text.Pattern(`\pL{2}`)
)

// formula returns the length of the formula of TeX at a position, as in \[x=\frac{1}{2}\], or 0. Other
// words between \[ and \] have escaped brackets.
func formula(source string, at int) int {
	rest := source[at:]
	end := strings.Index(rest[:min(len(rest), maxFormula)], `\]`)
	if !strings.HasPrefix(rest, `\[`) || end < 0 || strings.HasSuffix(source[:at], `\`) {
		return 0
	}
	words := rest[2:end]
	end += len(`\]`)
	behind := strings.TrimLeft(rest[end:], " .,;")
	alone := startsLine(source[:at]) && (behind == "" || behind[0] == '\n')
	padded := strings.TrimSpace(words) != "" && strings.TrimSpace(words) != words
	if padded || texSign().MatchString(words) ||
		relation().MatchString(words) && (alone || !longWord().MatchString(words)) {
		return end
	}
	return 0
}

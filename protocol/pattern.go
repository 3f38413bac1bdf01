package protocol

import (
	"fmt"
	"strings"
)

// A Pattern selects the topics of a subscription. '*' matches any run of characters, including
// none and ':'. '?' matches exactly one character. Every other character matches itself. Case
// matters.
type Pattern string

// ParsePattern returns s as a pattern, or an error that says why it is invalid.
func ParsePattern(s string) (Pattern, error) {
	if err := checkName("topic pattern", s, MaxPattern); err != nil {
		return "", err
	}
	if i := strings.IndexAny(s, `[]{}\`); i >= 0 {
		return "", fmt.Errorf("the pattern has %q: only * and ? are special, and [ ] { } \\ are not allowed", s[i:i+1])
	}
	if n := strings.Count(s, "*"); n > MaxStars {
		return "", fmt.Errorf("the pattern has %d stars; at most %d are allowed", n, MaxStars)
	}
	return Pattern(s), nil
}

// A Shape says how a pattern can be indexed.
type Shape int

// The shapes of a pattern.
const (
	ShapeExact   Shape = iota + 1 // no wildcard: matches the one topic that it equals
	ShapePrefix                   // one star, at the end
	ShapeGeneral                  // anything else
)

// Shape returns the pattern's shape and its text before the first wildcard,
// which a topic must equal (exact) or begin with (prefix and general).
func (p Pattern) Shape() (Shape, string) {
	s := string(p)
	switch i := strings.IndexAny(s, "*?"); {
	case i < 0:
		return ShapeExact, s
	case i == len(s)-1 && s[i] == '*':
		return ShapePrefix, s[:i]
	default:
		return ShapeGeneral, s[:i]
	}
}

// Matches reports whether the topic matches. For many topics and a general pattern, a
// Matcher is faster.
func (p Pattern) Matches(topic Topic) bool {
	switch shape, text := p.Shape(); shape {
	case ShapeExact:
		return string(topic) == text
	case ShapePrefix:
		return strings.HasPrefix(string(topic), text)
	default:
		return p.Matcher().Match(string(topic))
	}
}

// normal replaces every run of wildcards with its question marks and at most one star. The result
// is equivalent.
func normal(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '*' && s[i] != '?' {
			b.WriteByte(s[i])
			i++
			continue
		}
		star := false
		for ; i < len(s) && (s[i] == '*' || s[i] == '?'); i++ {
			if s[i] == '*' {
				star = true
			} else {
				b.WriteByte('?')
			}
		}
		if star {
			b.WriteByte('*')
		}
	}
	return b.String()
}

// Covers reports whether p matches every topic that other matches. It compares the texts: a star
// of other needs a star of p, and a question mark needs either wildcard. So false may be wrong,
// but true is always right.
func (p Pattern) Covers(other Pattern) bool {
	return covers([]rune(normal(string(p))), []rune(normal(string(other))))
}

// covers matches p against the text q. After a mismatch, the last star of p takes one more
// character, so it needs at most len(p)*len(q) steps.
func covers(p, q []rune) bool {
	at, star, mark := 0, -1, 0
	for i := 0; i < len(q); {
		switch {
		case at < len(p) && p[at] == '*':
			star, mark = at, i
			at++
		case at < len(p) && (p[at] == q[i] || p[at] == '?' && q[i] != '*'):
			at++
			i++
		case star >= 0:
			mark++
			i = mark
			at = star + 1
		default:
			return false
		}
	}
	for at < len(p) && p[at] == '*' {
		at++
	}
	return at == len(p)
}

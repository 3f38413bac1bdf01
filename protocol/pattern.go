package protocol

import (
	"fmt"
	"strings"

	"github.com/gobwas/glob"
)

// A Pattern is what one subscribes with: '*' matches any run of characters,
// none and ':' included, '?' exactly one, and everything else itself, in its
// own case.
type Pattern string

// ParsePattern says why s cannot be a pattern, or returns it as one.
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
	ShapeExact   Shape = iota + 1 // no wildcard: equals its one topic
	ShapePrefix                   // one star, at the end
	ShapeGeneral                  // anything else
)

// Shape returns the pattern's shape, and the text that a topic must equal
// (exact) or begin with (prefix).
func (p Pattern) Shape() (Shape, string) {
	s := string(p)
	switch i := strings.IndexAny(s, "*?"); {
	case i < 0:
		return ShapeExact, s
	case i == len(s)-1 && s[i] == '*':
		return ShapePrefix, s[:i]
	default:
		return ShapeGeneral, ""
	}
}

// Matches reports whether the topic matches. A Matcher is faster for many.
func (p Pattern) Matches(topic Topic) bool { return p.Matcher().Match(string(topic)) }

// A Matcher is a compiled pattern.
type Matcher interface{ Match(topic string) bool }

// Matcher compiles a pattern that ParsePattern accepted. Matching is linear in
// the length of the topic, whatever the pattern: those in which the glob library
// would try things twice are a walker's.
func (p Pattern) Matcher() Matcher {
	text := normal(string(p))
	stars := strings.Count(text, "*")
	if stars > 1 || stars == 1 && strings.Contains(text, "?") {
		return newWalker(text)
	}
	return glob.MustCompile(text)
}

// normal rewrites every run of wildcards as its question marks and then one
// star, which means the same and leaves nothing to try twice.
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

// Covers reports whether p matches everything that other matches. It reads
// other as a text in which a star can only be taken by a star of p, and a
// question mark by either wildcard; so it never says yes wrongly.
func (p Pattern) Covers(other Pattern) bool {
	return covers([]rune(normal(string(p))), []rune(normal(string(other))))
}

// covers matches p against the text q and, where it fails, lets the last star
// of p take one more: at most len(p)*len(q) steps.
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

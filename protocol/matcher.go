package protocol

import (
	"strings"

	"github.com/gobwas/glob"
)

// A Matcher is a compiled pattern. Match takes time linear in the topic for every pattern:
// the library glob matches the patterns for which it is linear, and a walk over the topic
// matches the others. TestMatcher_AgreesWithGlob compares the two.
type Matcher struct {
	glob *glob.Pattern // nil if the walk matches

	prefix, suffix string   // the text before the first wildcard and after the last
	parts          []string // the text between the stars, if there are at least two and no question mark

	// The walk reads the topic between prefix and suffix. Its state is the set of all n such that
	// the first n symbols of the pattern, without stars, match the text read so far.
	count     int              // number of symbols
	literals  map[rune]symbols // by character: the symbols that are this character
	questions symbols          // the symbols that are question marks
	starAfter symbols          // the symbols that a star follows
	starFirst uint64           // 1 if a star precedes the first symbol
}

// symbols is a set of symbols: bit n is set for symbol n.
type symbols [MaxPattern / 64]uint64

func (s *symbols) add(n int)     { s[n/64] |= 1 << (n % 64) }
func (s symbols) has(n int) bool { return s[n/64]>>(n%64)&1 == 1 }

// Matcher compiles a pattern that ParsePattern accepted.
func (p Pattern) Matcher() *Matcher {
	text := normal(string(p))
	if isLinearForGlob(text) {
		if g, err := glob.Compile(text); err == nil {
			return &Matcher{glob: g}
		}
	}
	return newWalk(text)
}

// isLinearForGlob reports whether glob matches a normalized pattern in linear time. For
// other patterns its time grows with the product of pattern and topic, because it returns
// to the last star after a mismatch.
func isLinearForGlob(text string) bool {
	switch strings.Count(text, "*") {
	case 0:
		return true
	case 1:
		return !strings.Contains(text, "?")
	case 2:
		return text[0] == '*' && text[len(text)-1] == '*' && !strings.Contains(text, "?")
	default:
		return false
	}
}

// newWalk makes a matcher that does not use glob. text is normalized.
func newWalk(text string) *Matcher {
	first, last := strings.IndexAny(text, "*?"), strings.LastIndexAny(text, "*?")
	if first < 0 {
		return &Matcher{prefix: text}
	}
	m := &Matcher{prefix: text[:first], suffix: text[last+1:]}
	if first < last && !strings.Contains(text, "?") {
		m.parts = strings.Split(text[first+1:last], "*")
		return m
	}
	for _, r := range text[first : last+1] {
		switch {
		case r == '*' && m.count == 0:
			m.starFirst = 1
		case r == '*':
			m.starAfter.add(m.count - 1)
		default:
			m.addSymbol(r)
		}
	}
	return m
}

func (m *Matcher) addSymbol(r rune) {
	if r == '?' {
		m.questions.add(m.count)
	} else {
		if m.literals == nil {
			m.literals = make(map[rune]symbols)
		}
		s := m.literals[r]
		s.add(m.count)
		m.literals[r] = s
	}
	m.count++
}

// containsInOrder reports whether the text contains the parts in this order. The first occurrence
// of a part leaves the most text for the others.
func containsInOrder(text string, parts []string) bool {
	for _, part := range parts {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// Match reports whether the topic matches.
func (m *Matcher) Match(topic string) bool {
	if m.glob != nil {
		return m.glob.Match(topic)
	}
	return m.walk(topic)
}

func (m *Matcher) walk(topic string) bool {
	if len(topic) < len(m.prefix)+len(m.suffix) || !strings.HasPrefix(topic, m.prefix) ||
		!strings.HasSuffix(topic, m.suffix) {
		return false
	}
	topic = topic[len(m.prefix) : len(topic)-len(m.suffix)]
	switch {
	case m.parts != nil:
		return containsInOrder(topic, m.parts)
	case m.count == 0:
		return m.starFirst == 1 || topic == ""
	}
	var now symbols
	start := uint64(1)
	for _, r := range topic {
		literals := m.literals[r]
		low, high := now[0]<<1|start, now[1]<<1|now[0]>>63
		now = symbols{
			low&(literals[0]|m.questions[0]) | now[0]&m.starAfter[0],
			high&(literals[1]|m.questions[1]) | now[1]&m.starAfter[1],
		}
		start &= m.starFirst
		if start == 0 && now == (symbols{}) {
			return false
		}
	}
	return now.has(m.count - 1)
}

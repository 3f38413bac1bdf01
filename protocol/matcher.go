package protocol

import "strings"

// A Matcher is a compiled pattern. It compares the literal text at both ends
// first, and then walks once over the rest of the topic, whatever the pattern.
// The state of the walk is the set of all n for which the first n symbols between
// the two ends, stars apart, match what was read.
type Matcher struct {
	prefix, suffix string           // the text before the first wildcard and after the last
	count          int              // between them, stars apart
	takes          map[rune]symbols // those that are this character
	any            symbols          // those that are question marks
	stays          symbols          // those with a star behind them
	open           uint64           // 1 if a star precedes the first symbol
	parts          []string         // what is between the stars, if there are only stars and more than one
}

// symbols is a set of symbols by their places: bit n is symbol n, and in the
// state of a walk it says that the symbols up to n match.
type symbols [MaxPattern / 64]uint64

func (s *symbols) add(n int)     { s[n/64] |= 1 << (n % 64) }
func (s symbols) has(n int) bool { return s[n/64]>>(n%64)&1 == 1 }

// Matcher compiles a pattern that ParsePattern accepted.
func (p Pattern) Matcher() *Matcher {
	text := normal(string(p))
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
			m.open = 1
		case r == '*':
			m.stays.add(m.count - 1)
		default:
			m.addSymbol(r)
		}
	}
	return m
}

func (m *Matcher) addSymbol(r rune) {
	if r == '?' {
		m.any.add(m.count)
	} else {
		if m.takes == nil {
			m.takes = make(map[rune]symbols)
		}
		s := m.takes[r]
		s.add(m.count)
		m.takes[r] = s
	}
	m.count++
}

// inOrder reports whether the parts follow each other in a text. The first place of a part
// leaves the most room for the next ones.
func inOrder(text string, parts []string) bool {
	for _, part := range parts {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// Match reports whether the topic matches, in time linear in its length.
func (m *Matcher) Match(topic string) bool {
	if len(topic) < len(m.prefix)+len(m.suffix) || !strings.HasPrefix(topic, m.prefix) || !strings.HasSuffix(topic, m.suffix) {
		return false
	}
	topic = topic[len(m.prefix) : len(topic)-len(m.suffix)]
	switch {
	case m.parts != nil:
		return inOrder(topic, m.parts)
	case m.count == 0:
		return m.open == 1 || topic == ""
	}
	var now symbols
	start := uint64(1)
	for _, r := range topic {
		takes := m.takes[r]
		low, high := now[0]<<1|start, now[1]<<1|now[0]>>63
		now = symbols{low&(takes[0]|m.any[0]) | now[0]&m.stays[0], high&(takes[1]|m.any[1]) | now[1]&m.stays[1]}
		start &= m.open
		if start == 0 && now == (symbols{}) {
			return false
		}
	}
	return now.has(m.count - 1)
}

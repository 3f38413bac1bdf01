package protocol

// A walker matches a pattern with stars in one walk over the topic,
// whatever the pattern. Its state is the set of those numbers i for which the
// first i symbols of the pattern, stars apart, match what was read.
type walker struct {
	takes map[rune]states // states whose next symbol is this character
	any   states          // states whose next symbol is a question mark
	stays states          // states with a star before the next symbol
	last  int             // number of symbols
}

// states is a set of the numbers 0 to 127. MaxPattern is 128, so the symbols of a
// pattern with a star are at most 127.
type states [2]uint64

func (s *states) add(i int)     { s[i/64] |= 1 << (i % 64) }
func (s states) has(i int) bool { return s[i/64]>>(i%64)&1 == 1 }

func newWalker(pattern string) *walker {
	w := &walker{takes: map[rune]states{}}
	for _, r := range pattern {
		switch r {
		case '*':
			w.stays.add(w.last)
			continue
		case '?':
			w.any.add(w.last)
		default:
			s := w.takes[r]
			s.add(w.last)
			w.takes[r] = s
		}
		w.last++
	}
	return w
}

// Match implements Matcher.
func (w *walker) Match(topic string) bool {
	now := states{1}
	for _, r := range topic {
		takes := w.takes[r]
		low, high := now[0]&(takes[0]|w.any[0]), now[1]&(takes[1]|w.any[1])
		now = states{low<<1 | now[0]&w.stays[0], high<<1 | low>>63 | now[1]&w.stays[1]}
		if now == (states{}) {
			return false
		}
	}
	return now.has(w.last)
}

package jsonrpc

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

// MaxDepth is the maximum depth of nested arrays and objects; the outermost has depth 1.
const MaxDepth = 64

// A SyntaxError describes why a text is not JSON.
type SyntaxError struct {
	Offset int
	Reason string
}

// Error returns the reason and the byte offset.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("malformed JSON at byte %d: %s", e.Offset, e.Reason)
}

// A scanner reads a text once, without recursion, and notes where the members of its
// outer objects are. The open containers are a stack of bits: 1 for an object and 0 for
// an array.
type scanner struct {
	text    []byte
	start   int // offset of the value
	at      int
	depth   int
	deepest int
	low     uint64   // containers 1 to 64
	high    []uint64 // deeper ones, only in refused texts

	members []member          // of objects that are at most outlined deep, in the order of the text
	last    [outlined + 1]int // by depth: index of the last member that began
}

// outlined is the maximum depth of objects whose members are noted: a frame's envelope, its
// params, and the payload in them.
const outlined = 3

// A member is one member of an object. All positions are offsets in the text.
type member struct {
	depth       int // depth of its object; the outermost container has depth 1
	key, keyEnd int // begin and end of its key
	value, end  int // begin and end of its value
}

// keptMembers is the largest capacity of the list of members that is kept for the next text.
const keptMembers = 64

// scan reports whether text is one JSON value (RFC 8259).
func (s *scanner) scan(text []byte) error {
	s.text, s.at, s.depth, s.deepest, s.high = text, 0, 0, 0, nil
	if s.members = s.members[:0]; cap(s.members) > keptMembers {
		s.members = nil
	}
	s.space()
	s.start = s.at
	if err := s.value(); err != nil {
		return err
	}
	s.space()
	if s.at < len(text) {
		return s.fail("more than one value")
	}
	return nil
}

func (s *scanner) fail(reason string) error { return &SyntaxError{Offset: s.at, Reason: reason} }

// space skips white space, which is rare.
func (s *scanner) space() {
	if s.at < len(s.text) && s.text[s.at] <= ' ' {
		s.skipSpace()
	}
}

func (s *scanner) skipSpace() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// value reads one value of any kind, a container up to its end.
func (s *scanner) value() error {
	for {
		opened, err := s.scalarOrOpen()
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		done, err := s.afterValue()
		if err != nil || done {
			return err
		}
	}
}

// scalarOrOpen reads a scalar, an empty container, or the beginning of a container up
// to its first value. opened reports the last case: a value must follow.
func (s *scanner) scalarOrOpen() (opened bool, err error) {
	if s.at >= len(s.text) {
		return false, s.fail("a value is missing")
	}
	switch c := s.text[s.at]; c {
	case '{':
		s.push(true)
		s.at++
		s.space()
		if s.peek() == '}' {
			s.pop()
			return false, nil
		}
		return true, s.key()
	case '[':
		s.push(false)
		s.at++
		s.space()
		if s.peek() == ']' {
			s.pop()
			return false, nil
		}
		return true, nil
	case '"':
		return false, s.str()
	case 't':
		return false, s.literal("true")
	case 'f':
		return false, s.literal("false")
	case 'n':
		return false, s.literal("null")
	default:
		return false, s.number()
	}
}

// afterValue reads what may follow a value: the ends of containers, then a comma and, in
// an object, the next key. done reports whether the outermost value has ended.
func (s *scanner) afterValue() (done bool, err error) {
	for s.depth > 0 {
		inObject := s.inObject()
		if inObject && s.depth <= outlined {
			s.members[s.last[s.depth]].end = s.at
		}
		s.space()
		switch c := s.peek(); {
		case c == ',' && inObject:
			s.at++
			s.space()
			return false, s.key()
		case c == ',':
			s.at++
			s.space()
			return false, nil
		case c == '}' && inObject, c == ']' && !inObject:
			s.pop()
		case inObject:
			return false, s.fail("',' or '}' is missing")
		default:
			return false, s.fail("',' or ']' is missing")
		}
	}
	return true, nil
}

func (s *scanner) peek() byte {
	if s.at < len(s.text) {
		return s.text[s.at]
	}
	return 0
}

func (s *scanner) push(object bool) {
	word, bit := &s.low, s.depth&63
	if n := s.depth >> 6; n > 0 {
		if len(s.high) < n {
			s.high = append(s.high, 0)
		}
		word = &s.high[n-1]
	}
	*word &^= 1 << bit
	if object {
		*word |= 1 << bit
	}
	s.depth++
	s.deepest = max(s.deepest, s.depth)
}

func (s *scanner) pop() {
	s.at++
	s.depth--
}

func (s *scanner) inObject() bool {
	at := s.depth - 1
	if n := at >> 6; n > 0 {
		return s.high[n-1]>>(at&63)&1 == 1
	}
	return s.low>>at&1 == 1
}

// key reads a member's name and colon.
func (s *scanner) key() error {
	if s.peek() != '"' {
		return s.fail("a key is missing")
	}
	key := s.at
	if err := s.str(); err != nil {
		return err
	}
	keyEnd := s.at
	s.space()
	if s.peek() != ':' {
		return s.fail("':' is missing")
	}
	s.at++
	s.space()
	if s.depth <= outlined {
		s.begin(key, keyEnd)
	}
	return nil
}

// begin notes a member whose value is next. It sets the fields in the list one by one,
// which is faster than copying a whole member.
func (s *scanner) begin(key, keyEnd int) {
	n := len(s.members)
	s.last[s.depth] = n
	if n == cap(s.members) {
		s.members = slices.Grow(s.members, n+16)
	}
	s.members = s.members[:n+1]
	m := &s.members[n]
	m.depth, m.key, m.keyEnd, m.value, m.end = s.depth, key, keyEnd, s.at, 0
}

// plain marks the bytes that a string may contain unescaped.
var plain = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return table
}()

// str reads a string. It finds the end of short, plain strings, the most frequent ones, and
// leaves all others to restOfString.
func (s *scanner) str() error {
	text := s.text
	i := s.at + 1
	for ; i+8 <= len(text); i += 8 {
		if found := special(binary.LittleEndian.Uint64(text[i:])); found != 0 {
			if i += bits.TrailingZeros64(found) / 8; text[i] == '"' {
				s.at = i + 1
				return nil
			}
			return s.restOfString(i)
		}
	}
	return s.restOfString(i)
}

// restOfString reads the rest of a string, from i.
func (s *scanner) restOfString(i int) error {
	text := s.text
	for {
		i += plainRun(text[i:])
		if i >= len(text) {
			s.at = len(text)
			return s.fail("a string does not end")
		}
		switch text[i] {
		case '"':
			s.at = i + 1
			return nil
		case '\\':
			n := escape(text[i:])
			if n == 0 {
				s.at = i
				return s.fail("unknown escape in a string")
			}
			i += n
		default:
			s.at = i
			return s.fail("control character in a string")
		}
	}
}

// special finds bytes below 0x20, quotes and backslashes among 8 bytes of a string. In
// the result, the lowest byte whose top bit is set is the first of them. Each of the
// three terms finds one kind.
func special(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, backslash := w^(ones*'"'), w^(ones*'\\')
	return ((w-ones*0x20)&^w | (quote-ones)&^quote | (backslash-ones)&^backslash) & tops
}

// plainRun returns how many bytes at the beginning of text are plain.
func plainRun(text []byte) int {
	i := 0
	for ; i+8 <= len(text); i += 8 {
		if found := special(binary.LittleEndian.Uint64(text[i:])); found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(text) && plain[text[i]] {
		i++
	}
	return i
}

// escape returns the length of the escape sequence at the beginning of text, or 0 if
// there is none.
func escape(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(text) < 6 {
			return 0
		}
		for _, c := range text[2:6] {
			if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
				return 0
			}
		}
		return 6
	}
	return 0
}

func (s *scanner) literal(word string) error {
	end := s.at + len(word)
	if end > len(s.text) || string(s.text[s.at:end]) != word {
		return s.fail("unknown word")
	}
	s.at = end
	return nil
}

func (s *scanner) number() error {
	if s.peek() == '-' {
		s.at++
	}
	switch c := s.peek(); {
	case c == '0':
		s.at++
	case c >= '1' && c <= '9':
		s.digits()
	default:
		return s.fail("a value is missing")
	}
	if s.peek() == '.' {
		s.at++
		if s.digits() == 0 {
			return s.fail("digits are missing")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.at++
		if c := s.peek(); c == '+' || c == '-' {
			s.at++
		}
		if s.digits() == 0 {
			return s.fail("digits are missing")
		}
	}
	return nil
}

func (s *scanner) digits() int {
	start := s.at
	for s.at < len(s.text) && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
		s.at++
	}
	return s.at - start
}

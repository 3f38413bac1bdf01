package jsonrpc

import "fmt"

// MaxDepth is how deep arrays and objects may nest, the outermost being 1.
const MaxDepth = 64

// A SyntaxError says where a text stops being JSON.
type SyntaxError struct {
	Offset int
	Reason string
}

// Error gives the reason and the byte offset.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("malformed JSON at byte %d: %s", e.Offset, e.Reason)
}

// Check reports whether text is one JSON value (RFC 8259) and how deep it
// nests. It reads the text once and does not recurse.
func Check(text []byte) (depth int, err error) {
	s := scanner{text: text}
	s.space()
	if err := s.value(); err != nil {
		return s.deepest, err
	}
	s.space()
	if s.at < len(text) {
		return s.deepest, s.fail("more than one value")
	}
	return s.deepest, nil
}

// A scanner walks one text. The open containers are a stack of bits, one for
// an object and zero for an array.
type scanner struct {
	text    []byte
	at      int
	depth   int
	deepest int
	low     uint64   // containers 1 to 64
	high    []uint64 // deeper ones, only for texts that will be refused
}

func (s *scanner) fail(reason string) error { return &SyntaxError{Offset: s.at, Reason: reason} }

func (s *scanner) space() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return
		}
	}
}

// value reads one value of any kind, containers to their end.
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

// scalarOrOpen reads a scalar, an empty container, or the opening of a
// container up to its first value; opened says that a value must follow.
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
			return false, nil
		}
		return true, s.key()
	case '[':
		s.push(false)
		s.at++
		s.space()
		return s.peek() != ']', nil
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

// afterValue reads what may follow a value: the ends of containers, then a
// comma and what it announces. done says that the outermost value has ended.
func (s *scanner) afterValue() (done bool, err error) {
	for s.depth > 0 {
		s.space()
		inObject := s.inObject()
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
			s.at++
			s.depth--
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
	if err := s.str(); err != nil {
		return err
	}
	s.space()
	if s.peek() != ':' {
		return s.fail("':' is missing")
	}
	s.at++
	s.space()
	return nil
}

// plain marks the bytes that a string holds as they are.
var plain = func() (table [256]bool) {
	for c := range table {
		table[c] = c >= 0x20 && c != '"' && c != '\\'
	}
	return table
}()

func (s *scanner) str() error {
	text := s.text
	i := s.at + 1
	for {
		for i < len(text) && plain[text[i]] {
			i++
		}
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

// escape returns the length of the escape sequence that text begins with, or 0.
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

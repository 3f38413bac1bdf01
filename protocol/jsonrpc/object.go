package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Object sets into[i] to the value of known[i], or to nil if there is none. The object must be a
// span of the frame that p parsed last, at most 3 deep in it; the values are also spans. Object
// returns an error if the object repeats a key, or has a key that differs from a known one only
// by case, because readers could then interpret it differently. It still fills into; the first
// value of a repeated key counts.
func (p *Parser) Object(object []byte, known []string, into [][]byte) (refusal error) {
	s := &p.scanner
	p.unknown.clear()
	clear(into)
	next := 0 // index of the expected key: most objects have their keys in the order of known
	i, depth := s.membersOf(object)
	for ; i < len(s.members) && s.members[i].depth >= depth; i++ {
		m := &s.members[i]
		if m.depth > depth {
			continue
		}
		slot := next
		if next >= len(known) || into[next] != nil || string(s.text[m.key+1:m.keyEnd-1]) != known[next] {
			var err error
			if slot, err = p.place(UnquoteBytes(s.text[m.key:m.keyEnd]), known, into); err != nil && refusal == nil {
				refusal = err
			}
			if slot < 0 {
				continue
			}
		}
		into[slot] = s.text[m.value:m.end]
		next = slot + 1
	}
	return refusal
}

// place returns the index in into for the value of a key, or -1 if the value is not needed.
func (p *Parser) place(key []byte, known []string, into [][]byte) (slot int, err error) {
	slot, err = knownKey(key, known)
	switch {
	case err != nil:
	case slot < 0 && !p.unknown.add(key), slot >= 0 && into[slot] != nil:
		return -1, repeated(key)
	}
	return slot, err
}

// membersOf returns the index of an object's first member in s.members, and the depth of its
// members. The object is a span of the text. Both slices end at the end of the same array, so
// their capacities give the object's position.
func (s *scanner) membersOf(object []byte) (first, depth int) {
	at := cap(s.text) - cap(object)
	if at == s.start {
		return 0, 1
	}
	for i := range s.members {
		if s.members[i].value == at {
			return i + 1, s.members[i].depth + 1
		}
	}
	return len(s.members), 0
}

func repeated(key []byte) error { return fmt.Errorf("the key %.64q is repeated", key) }

// knownKey returns the index of key in known, or -1.
func knownKey(key []byte, known []string) (int, error) {
	for i, k := range known {
		if string(key) == k {
			return i, nil
		}
	}
	for _, k := range known {
		if strings.EqualFold(string(key), k) {
			return -1, fmt.Errorf("the key %q differs from %q only by case", key, k)
		}
	}
	return -1, nil
}

// A keySet holds the unknown keys of one object: the first few in an array, and the others in a
// map.
type keySet struct {
	few  [8][]byte
	n    int
	many map[string]struct{}
}

func (s *keySet) clear() { s.n, s.many = 0, nil }

// add adds a key and reports whether it was new.
func (s *keySet) add(key []byte) bool {
	for _, k := range s.few[:min(s.n, len(s.few))] {
		if bytes.Equal(k, key) {
			return false
		}
	}
	if s.n < len(s.few) {
		s.few[s.n] = key
		s.n++
		return true
	}
	if s.many == nil {
		s.many = make(map[string]struct{})
	}
	if _, ok := s.many[string(key)]; ok {
		return false
	}
	s.many[string(key)] = struct{}{}
	return true
}

// Unquote returns the text of a JSON string that Parse accepted, or "" for any other value.
func Unquote(quoted []byte) string { return string(UnquoteBytes(quoted)) }

// UnquoteBytes is like Unquote, but returns a span of the string if it has no escapes.
func UnquoteBytes(quoted []byte) []byte {
	if len(quoted) < 2 || quoted[0] != '"' {
		return nil
	}
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil
	}
	return []byte(s)
}

// IsString reports whether v is a JSON string.
func IsString(v []byte) bool { return len(v) > 0 && v[0] == '"' }

// IsObject reports whether v is a JSON object.
func IsObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }

package jsonrpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Object walks the members of an object in a text that Check accepted, and
// puts the value of known[i] into into[i] (nil where it is absent). It reports
// an object that repeats a key, or that has a key which equals a known one but
// for case: two readers could take such an object for different things. It reads
// on after such a key, so that into is whole; of a repeated key the first value
// counts.
func Object(object []byte, known []string, into [][]byte) (refusal error) {
	var unknown keySet
	for i := range into {
		into[i] = nil
	}
	at := skipSpace(object, 0) + 1 // behind '{'
	for {
		at = skipSpace(object, at)
		if object[at] == '}' {
			return refusal
		}
		if object[at] == ',' {
			at = skipSpace(object, at+1)
		}
		end := skipString(object, at)
		key := unquoteKey(object[at:end])
		at = skipSpace(object, skipSpace(object, end)+1) // behind ':'
		end = skipValue(object, at)
		slot, err := knownKey(key, known)
		switch {
		case err != nil:
		case slot < 0:
			if !unknown.add(key) {
				err = repeated(key)
			}
		case into[slot] != nil:
			err = repeated(key)
		default:
			into[slot] = object[at:end]
		}
		if refusal == nil {
			refusal = err
		}
		at = end
	}
}

func repeated(key []byte) error { return fmt.Errorf("the key %q is repeated", clip(key)) }

// clip shortens what goes into an error message.
func clip(b []byte) []byte {
	if len(b) > 64 {
		return b[:64]
	}
	return b
}

// knownKey returns the index of key among known, or -1.
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

// A keySet holds the unknown keys of one object: a few in place, more in a map.
type keySet struct {
	few  [8][]byte
	n    int
	many map[string]struct{}
}

// add reports whether key was new.
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

func unquoteKey(quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	return []byte(Unquote(quoted))
}

// Unquote returns the text of a JSON string that Check accepted; any other
// value gives "".
func Unquote(quoted []byte) string {
	if len(quoted) < 2 || quoted[0] != '"' {
		return ""
	}
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return ""
	}
	return s
}

// IsString, IsObject and IsNull tell the kind of a value's text.
func IsString(v []byte) bool { return len(v) > 0 && v[0] == '"' }

// IsObject reports whether v is the text of an object.
func IsObject(v []byte) bool { return len(v) > 0 && v[0] == '{' }

// IsNull reports whether v is the text null.
func IsNull(v []byte) bool { return string(v) == "null" }

// The walkers below run on text that Check accepted.

func skipSpace(b []byte, at int) int {
	for b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r' {
		at++
	}
	return at
}

func skipString(b []byte, at int) int {
	at++
	for {
		for plain[b[at]] {
			at++
		}
		if b[at] == '"' {
			return at + 1
		}
		at += 2 // an escape
	}
}

func skipValue(b []byte, at int) int {
	switch b[at] {
	case '"':
		return skipString(b, at)
	case '{', '[':
		return skipContainer(b, at)
	default:
		for at < len(b) && !endsScalar(b[at]) {
			at++
		}
		return at
	}
}

// structural marks the bytes that matter to where a container ends.
var structural = [256]bool{'"': true, '{': true, '[': true, '}': true, ']': true}

func skipContainer(b []byte, at int) int {
	depth := 0
	for {
		for !structural[b[at]] {
			at++
		}
		switch b[at] {
		case '"':
			at = skipString(b, at)
			continue
		case '{', '[':
			depth++
		default:
			depth--
		}
		at++
		if depth == 0 {
			return at
		}
	}
}

func endsScalar(c byte) bool {
	switch c {
	case ',', '}', ']', ' ', '\n', '\t', '\r':
		return true
	}
	return false
}

package text

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Decode decodes a file written by an editor or a shell of any system: UTF-8 with or without a
// byte order mark, or UTF-16 with one. It returns false for other bytes, and for NUL.
func Decode(file []byte) (s string, ok bool) {
	switch {
	case bytes.HasPrefix(file, []byte{0xff, 0xfe}):
		return decodeUTF16(file[2:], 0, 1)
	case bytes.HasPrefix(file, []byte{0xfe, 0xff}):
		return decodeUTF16(file[2:], 1, 0)
	}
	file = bytes.TrimPrefix(file, []byte("\ufeff"))
	return string(file), utf8.Valid(file) && bytes.IndexByte(file, 0) < 0
}

// decodeUTF16 decodes UTF-16. low and high are the offsets of the two bytes in each pair.
func decodeUTF16(file []byte, low, high int) (s string, ok bool) {
	units := make([]uint16, len(file)/2)
	for i := range units {
		units[i] = uint16(file[2*i+low]) | uint16(file[2*i+high])<<8
	}
	s = string(utf16.Decode(units))
	return s, len(file)%2 == 0 && !strings.ContainsAny(s, "\x00\ufffd")
}

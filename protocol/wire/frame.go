package wire

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Frames as defined in RFC 6455, section 5.2. This file writes messages as single
// frames, and reads those frames that are complete in the input. The library does all
// else: the handshake, control frames, fragments, broken frames.

const (
	wholeText   = 0x81 // the first byte of a text message in one frame
	wholeBinary = 0x82
	closeFrame  = 0x88

	maskBit  = 0x80
	length16 = 126 // the next 2 bytes are the length
	length64 = 127 // the next 8 bytes are the length
)

// appendFrame appends a message as one frame. The frames of a client are masked with an
// unpredictable key.
func appendFrame(dst []byte, first byte, payload []byte, masked bool) []byte {
	bit := byte(0)
	if masked {
		bit = maskBit
	}
	dst = append(dst, first)
	switch n := len(payload); {
	case n < length16:
		dst = append(dst, bit|byte(n))
	case n <= math.MaxUint16:
		dst = binary.BigEndian.AppendUint16(append(dst, bit|length16), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, bit|length64), uint64(n))
	}
	if !masked {
		return append(dst, payload...)
	}
	key := rand.Uint32()
	dst = binary.LittleEndian.AppendUint32(dst, key)
	at := len(dst)
	dst = append(dst, payload...)
	mask(dst[at:], key)
	return dst
}

// frameSize returns the size of the frame at the beginning of b, which must be written by
// a server.
func frameSize(b []byte) int {
	switch n := int(b[1]); n {
	case length16:
		return 4 + int(binary.BigEndian.Uint16(b[2:]))
	case length64:
		return 10 + int(binary.BigEndian.Uint64(b[2:]))
	default:
		return 2 + n
	}
}

// maskedText returns the masked payload, the key and the frame size of the text message
// at the beginning of b. The size is 0 if b does not begin with a complete masked text
// message.
func maskedText(b []byte) (payload []byte, key uint32, size int) {
	if len(b) < 6 || b[0] != wholeText || b[1] < maskBit {
		return nil, 0, 0
	}
	n, head := int(b[1]&^maskBit), 2
	switch n {
	case length16:
		n, head = int(binary.BigEndian.Uint16(b[2:])), 4
	case length64:
		return nil, 0, 0
	}
	if size = head + 4 + n; len(b) < size {
		return nil, 0, 0
	}
	return b[head+4 : size], binary.LittleEndian.Uint32(b[head:]), size
}

// mask masks or unmasks a payload.
func mask(b []byte, key uint32) {
	wide := uint64(key)<<32 | uint64(key)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, binary.LittleEndian.Uint64(b)^wide)
		b = b[8:]
	}
	for i := range b {
		b[i] ^= byte(key >> (8 * i & 31))
	}
}

package wire

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Frames as RFC 6455 section 5.2 lays them out. Whole messages are made here,
// and those that lie whole in the input are taken here. All else is the
// library's: the handshake, control frames, fragments, broken frames.

const (
	wholeText   = 0x81 // the first byte of a text message in one frame
	wholeBinary = 0x82
	closeFrame  = 0x88

	maskBit  = 0x80
	length16 = 126 // the length stands in the next 2 bytes
	length64 = 127 // the length stands in the next 8 bytes
)

// appendFrame appends a message as one frame. A client's frames are masked with
// a key that nobody can foresee.
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

// frameSize returns the size of the frame that b begins with, one that a server
// has written.
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

// maskedText finds a masked text message that lies whole at the beginning of b:
// its masked payload, its key, and the size of its frame, which is 0 where b
// begins with anything else.
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

// mask applies a key to a payload, or takes it away.
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

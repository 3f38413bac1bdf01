package wire

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
)

// Frames are defined in RFC 6455, section 5.2. This file writes messages as single frames, and
// reads frames that are complete in the input. The library handles the handshake, control frames,
// fragments, and invalid frames.

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

// frameSize returns the size of the frame at the beginning of b, which must be a server's.
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

// A frameParser follows the frames in the input of a connection, to detect a message larger than
// max by its headers.
type frameParser struct {
	max      int    // limit of a message in bytes; 0 for none
	head     []byte // the part of a header that has been read
	payload  uint64 // unread bytes of the frame
	message  uint64 // bytes of the message's frames so far
	exceeded bool   // a header announced more than max
}

// follow parses input and returns how much of it may be passed on: all of it, or up to the end of
// a header that exceeds max.
func (f *frameParser) follow(b []byte) (pass int) {
	for pass < len(b) && f.max > 0 && !f.exceeded {
		if f.payload > 0 {
			n := min(f.payload, uint64(len(b)-pass))
			f.payload -= n
			pass += int(n)
			continue
		}
		f.head = append(f.head, b[pass])
		pass++
		if size, ok := payloadSize(f.head); ok {
			f.begin(f.head[0]&0x0f, size)
			f.head = f.head[:0]
		}
	}
	if f.max <= 0 {
		return len(b)
	}
	return pass
}

// begin counts a frame with that opcode and size.
func (f *frameParser) begin(opcode byte, size uint64) {
	f.payload = size
	switch {
	case opcode >= 8 || size > math.MaxInt64: // a control frame, or a size that the library refuses
		return
	case opcode > 0: // the first frame of a message
		f.message = 0
	}
	f.message += size
	f.exceeded = f.message > uint64(f.max)
}

// payloadSize returns the size in a header. It returns false while the header is incomplete.
func payloadSize(head []byte) (size uint64, ok bool) {
	if len(head) < 2 {
		return 0, false
	}
	rest := head[2:]
	if head[1]&maskBit != 0 {
		if len(rest) < 4 {
			return 0, false
		}
		rest = rest[:len(rest)-4]
	}
	switch n := head[1] &^ maskBit; {
	case n == length16 && len(rest) == 2:
		return uint64(binary.BigEndian.Uint16(rest)), true
	case n == length64 && len(rest) == 8:
		return binary.BigEndian.Uint64(rest), true
	default:
		return uint64(n), n < length16
	}
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

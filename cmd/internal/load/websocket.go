package load

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"hubbub/protocol/wire"
)

// dialWebSocket opens a WebSocket whose frames have the given kind.
func dialWebSocket(ctx context.Context, address, token string, kind opcode) (*link, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("dialing %s: %w", address, err)
	}
	early, err := upgrade(conn, u, token)
	if err != nil {
		conn.Close() //nolint:errcheck // the upgrade's error says more
		return nil, err
	}
	return newLink(conn, webSocketFrames{kind}, early), nil
}

func dial(ctx context.Context, u *url.URL) (net.Conn, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if u.Scheme == "wss" {
		return (&tls.Dialer{NetDialer: dialer}).DialContext(ctx, "tcp",
			net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443")))
	}
	return dialer.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")))
}

// upgrade makes the handshake and returns the bytes that came after it.
func upgrade(conn net.Conn, u *url.URL, token string) (early []byte, err error) {
	const patience = 30 * time.Second
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	path := *u
	path.Scheme, path.Host = "", ""
	request := "GET " + (&url.URL{Path: "/"}).ResolveReference(&path).RequestURI() + " HTTP/1.1\r\nHost: " + u.Host +
		"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " +
		"aHViYnViIGJlbmNobWFyaw==\r\n"
	if token != "" {
		request += "Authorization: Bearer " + token + "\r\n"
	}
	if _, err := conn.Write([]byte(request + "\r\n")); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	response, err := http.ReadResponse(r, nil) //nolint:bodyclose // a 101 has no body
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusSwitchingProtocols {
		return nil, &wire.StatusError{Code: response.StatusCode, URL: u.String()}
	}
	early, err = r.Peek(r.Buffered())
	if err != nil {
		return nil, err
	}
	return early, conn.SetDeadline(time.Time{})
}

// An opcode is the kind of a WebSocket frame.
type opcode byte

const (
	textFrame   opcode = 1
	binaryFrame opcode = 2
	closeFrame  opcode = 8
	pingFrame   opcode = 9
	pongFrame   opcode = 10
)

const (
	finBit   = 0x80
	maskBit  = 0x80
	maxFrame = 16 << 20 // maximum length of a frame from the server
)

// webSocketFrames is the client side of RFC 6455 without extensions. Each frame must be a whole
// message, as it is with a bus. It shares no code with protocol/wire: the measurement of a bus
// must not share its faults or its costs, and it is used for other systems, too.
type webSocketFrames struct{ kind opcode }

func (w webSocketFrames) append(dst, frame []byte) []byte { return appendFrame(dst, w.kind, frame) }

// appendFrame adds a masked frame. The mask is zero, which is as expensive for a server as any
// other and free for the driver.
func appendFrame(dst []byte, kind opcode, payload []byte) []byte {
	dst = append(dst, finBit|byte(kind))
	switch n := len(payload); {
	case n < 126:
		dst = append(dst, maskBit|byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, maskBit|126), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint64(append(dst, maskBit|127), uint64(n))
	}
	dst = append(dst, 0, 0, 0, 0)
	return append(dst, payload...)
}

func (w webSocketFrames) next(in []byte, out *[]byte) (frame []byte, used int, err error) {
	kind, payload, used, err := cutFrame(in)
	if err != nil || used == 0 {
		return nil, 0, err
	}
	switch kind {
	case w.kind:
		return payload, used, nil
	case pingFrame:
		*out = appendFrame(*out, pongFrame, payload)
		return nil, used, nil
	case pongFrame:
		return nil, used, nil
	case closeFrame:
		if len(payload) < 2 {
			return nil, 0, &wire.CloseError{Code: wire.CloseNormal}
		}
		return nil, 0, &wire.CloseError{Code: int(binary.BigEndian.Uint16(payload)), Reason: string(payload[2:])}
	default:
		return nil, 0, fmt.Errorf("a frame of kind %d, where %d was expected", kind, w.kind)
	}
}

// cutFrame cuts the first frame off in. used is 0 if the frame is not complete.
func cutFrame(in []byte) (kind opcode, payload []byte, used int, err error) {
	if len(in) < 2 {
		return 0, nil, 0, nil
	}
	if in[0]&0xf0 != finBit || in[1]&maskBit != 0 {
		return 0, nil, 0, fmt.Errorf("a frame that begins with %x: it is a part of a message, compressed, or masked",
			in[:2])
	}
	size, header := uint64(in[1]), 2
	switch size {
	case 126:
		header = 4
		if len(in) < header {
			return 0, nil, 0, nil
		}
		size = uint64(binary.BigEndian.Uint16(in[2:]))
	case 127:
		header = 10
		if len(in) < header {
			return 0, nil, 0, nil
		}
		size = binary.BigEndian.Uint64(in[2:])
	}
	if size > maxFrame {
		return 0, nil, 0, fmt.Errorf("a frame of %d bytes; at most %d are expected", size, maxFrame)
	}
	end := header + int(size)
	if len(in) < end {
		return 0, nil, 0, nil
	}
	return opcode(in[0] & 0x0f), in[header:end], end, nil
}

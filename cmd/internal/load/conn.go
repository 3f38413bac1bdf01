package load

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// A Target is where the bus is.
type Target struct {
	URL   string
	Token string
	HTTP  string // base URL of the bus's HTTP side
}

// dial opens a connection and initializes it.
func (t Target) dial(ctx context.Context, id string, patterns ...string) (*wire.WebSocket, error) {
	s, err := wire.Dial(ctx, t.URL, &wire.DialOptions{Token: t.Token})
	if err != nil {
		return nil, err
	}
	if err := request(s, "initialize", `{"clientId":"`+id+`"}`); err != nil {
		s.Close(wire.CloseNormal, "")
		return nil, err
	}
	for _, p := range patterns {
		if err := request(s, "subscribe", `{"topic":"`+p+`"}`); err != nil {
			s.Close(wire.CloseNormal, "")
			return nil, err
		}
	}
	return s, nil
}

func request(s *wire.WebSocket, method, params string) error {
	if err := s.Write(jsonrpc.AppendRequestText(nil, "1", method, params)); err != nil {
		return err
	}
	frame, err := s.Read()
	if err != nil {
		return err
	}
	m, err := jsonrpc.Parse(frame)
	if err != nil {
		return err
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error)
	}
	return nil
}

var (
	requestHead = []byte(`{"jsonrpc":"2.0","id":`)
	okTail      = []byte(`,"result":{"processed":true}}`)
)

// frameID returns the id of a frame. The usual form is read without a parser,
// so that the driver costs little beside the bus.
func frameID(frame []byte) []byte {
	if rest, ok := bytes.CutPrefix(frame, requestHead); ok {
		if i := bytes.IndexByte(rest, ','); i > 0 {
			return rest[:i]
		}
	}
	m, err := jsonrpc.Parse(frame)
	if err != nil {
		return nil
	}
	return m.ID
}

// answerLoop answers every delivery until the connection ends.
func answerLoop(s *wire.WebSocket) {
	var out []byte
	for {
		frame, err := s.Read()
		if err != nil {
			return
		}
		if id := frameID(frame); id != nil {
			out = append(append(append(out[:0], requestHead...), id...), okTail...)
			if s.Write(out) != nil {
				return
			}
		}
	}
}

// A message composes sendMessage frames that differ in id and messageId.
type message struct {
	prefix, middle, suffix string
}

func newMessage(topic, from string, size int) message {
	text := bytes.Repeat([]byte("x"), size)
	return message{
		prefix: `{"jsonrpc":"2.0","id":`,
		middle: `,"method":"sendMessage","params":{"topic":"` + topic + `","payload":{"messageId":"msg_`,
		suffix: `","type":"agent_event","from":"` + from + `","timestamp":"2026-02-17T12:00:00Z","content":{"text":"` + string(text) + `"}}}}`,
	}
}

func (m *message) append(dst []byte, run int64, n int) []byte {
	dst = append(dst, m.prefix...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, m.middle...)
	dst = fmt.Appendf(dst, "%013X%013d", run, n) // sorts by time, as a ULID does
	return append(dst, m.suffix...)
}

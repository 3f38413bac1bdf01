package load

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"

	"hubbub/protocol/jsonrpc"
)

// A Bus is a running bus, ours or another's, that speaks the protocol.
type Bus struct {
	URL   string
	Token string
	HTTP  string // base URL of its HTTP side
}

// dial opens a connection, initializes it and subscribes.
func (b Bus) dial(ctx context.Context, id string, patterns ...string) (*link, error) {
	l, err := dialWebSocket(ctx, b.URL, b.Token, textFrame)
	if err != nil {
		return nil, err
	}
	l.send(jsonrpc.AppendRequestText(nil, "0", "initialize", `{"clientId":"`+id+`"}`))
	for _, p := range patterns {
		l.send(jsonrpc.AppendRequestText(nil, "0", "subscribe", `{"topic":"`+p+`"}`))
	}
	for range 1 + len(patterns) {
		if err := accepted(l); err != nil {
			l.Close() //nolint:errcheck // the refusal says more
			return nil, fmt.Errorf("connecting as %s: %w", id, err)
		}
	}
	return l, nil
}

func accepted(l *link) error {
	frame, err := l.next()
	if err != nil {
		return err
	}
	m, err := jsonrpc.Parse(frame)
	if err != nil {
		return err
	}
	if m.Error != nil {
		return fmt.Errorf("refused: %s", m.Error)
	}
	return nil
}

// rig connects a workload. Each sender has a topic of its own with Targets subscribers. The other
// subscriptions are spread over 100 connections.
func (b Bus) rig(ctx context.Context, w Workload, run int64) (_ *rig, err error) {
	r := newRig(ctx)
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	receive := func(id string, patterns ...string) error {
		l, err := b.dial(ctx, id, patterns...)
		if err == nil {
			r.answer(l, answerDelivery)
		}
		return err
	}
	for i := range w.Senders {
		topic := fmt.Sprintf("bench:%d:%d", run, i)
		for j := range w.Targets {
			if err := receive(fmt.Sprintf("cli:bench-%d-r%d-%d", run, i, j), topic); err != nil {
				return nil, err
			}
		}
		id := fmt.Sprintf("cli:bench-%d-s%d", run, i)
		l, err := b.dial(ctx, id)
		if err != nil {
			return nil, err
		}
		m := newMessage(topic, id, w.Size)
		wanted := fmt.Appendf(nil, `"deliveredTo":%d}}`, w.Targets)
		r.senders = append(r.senders, &sender{
			l,
			m.append,
			func(answer []byte) (int, error) { return delivered(answer, wanted) },
		})
	}
	const holders = 100
	for i := 0; w.Subscriptions > 0 && i < holders; i++ {
		patterns := make([]string, 0, w.Subscriptions/holders)
		for j := range w.Subscriptions / holders {
			patterns = append(patterns, fmt.Sprintf("bench-%d:*:%d", i, j))
		}
		if err := receive(fmt.Sprintf("cli:bench-%d-h%d", run, i), patterns...); err != nil {
			return nil, err
		}
	}
	for i := range w.Idle {
		if err := receive(fmt.Sprintf("cli:bench-%d-i%d", run, i)); err != nil {
			return nil, err
		}
	}
	r.pause()
	return r, nil
}

var (
	requestHead = []byte(`{"jsonrpc":"2.0","id":`)
	okTail      = []byte(`,"result":{"processed":true}}`)
)

// frameID returns the id of a frame. It reads the usual form without a parser, which keeps the
// driver cheap.
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

// answerDelivery composes the answer to a processMessage request.
func answerDelivery(dst, frame []byte) []byte {
	id := frameID(frame)
	if id == nil {
		return dst
	}
	return append(append(append(dst, requestHead...), id...), okTail...)
}

// delivered returns the number of the message that a bus answers. It fails unless every
// subscriber has processed it.
func delivered(answer, wanted []byte) (int, error) {
	if !bytes.HasSuffix(answer, wanted) && !sameCount(answer, wanted) {
		return 0, fmt.Errorf("the answer to a message does not hold %s: %.300s", bytes.TrimRight(wanted, "}"), answer)
	}
	return strconv.Atoi(string(frameID(answer)))
}

// sameCount compares counts if a bus writes its answer in another form.
func sameCount(answer, wanted []byte) bool {
	var a struct{ Result struct{ DeliveredTo int } }
	_, count, _ := bytes.Cut(bytes.TrimRight(wanted, "}"), []byte(":"))
	return json.Unmarshal(answer, &a) == nil && strconv.Itoa(a.Result.DeliveredTo) == string(count)
}

// A message composes sendMessage frames that differ in id and messageId. The ids are random, as
// in most programs, so the log cannot profit from their order.
type message struct {
	prefix, middle, suffix string
	random                 *rand.ChaCha8
}

func newMessage(topic, from string, size int) *message {
	text := bytes.Repeat([]byte("x"), size)
	var seed [32]byte
	cryptorand.Read(seed[:]) //nolint:errcheck // it never fails
	return &message{
		prefix: `{"jsonrpc":"2.0","id":`,
		middle: `,"method":"sendMessage","params":{"topic":"` + topic + `","payload":{"messageId":"msg_`,
		suffix: `","type":"agent_event","from":"` + from + `","timestamp":"2026-02-17T12:00:00Z","content":{"text":"` +
			string(text) + `"}}}}`,
		random: rand.NewChaCha8(seed),
	}
}

func (m *message) append(dst []byte, n int) []byte {
	dst = append(dst, m.prefix...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, m.middle...)
	var id [16]byte
	m.random.Read(id[:]) //nolint:errcheck // it never fails
	dst = hex.AppendEncode(dst, id[:])
	return append(dst, m.suffix...)
}

package load

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog/audit"
	"hubbub/activitylog/read"
	"hubbub/protocol/wire"
)

// TestServers_CarryThePattern runs real servers, each in a process of its own. The driver fails
// if an answer is missing or wrong, or if a subscriber did not process the message.
func TestServers_CarryThePattern(t *testing.T) {
	unicast := fourPairs(400)
	fanOut := Workload{Name: "fan-out", Senders: 1, Depth: 1, Messages: 20, Targets: 7, Subscriptions: 200, Idle: 3, Size: 10}
	for _, kind := range []string{"echo", "tcp", "naive", "nats", "jetstream", "jetstream-synced", "hubbub", "hubbub-nolog"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			messages := int64(0)
			t.Run("drive", func(t *testing.T) {
				s := serverIn(t, kind, folder)
				list := []Workload{unicast, fanOut}
				for i, w := range list {
					r, err := s.rig(t.Context(), w, int64(i))
					if err != nil {
						t.Fatal(err)
					}
					for range 2 {
						m, err := w.measure(t.Context(), s, r)
						if err != nil {
							t.Fatalf("%s: %v", w.Name, err)
						}
						if m.Messages != w.Messages || m.P50 <= 0 || m.P50 > m.P999 || m.RSS <= 0 {
							t.Errorf("%s: %+v", w.Name, m)
						}
						messages += int64(m.Messages)
					}
					r.close()
				}
			})
			if kind == "naive" {
				n, err := countNaive(t.Context(), filepath.Join(folder, "activity.db"))
				if err != nil || n != messages {
					t.Errorf("the naive log has %d of %d messages: %v", n, messages, err)
				}
			}
			if kind == "hubbub" { // the log is whole: four rows and more for each message
				v, err := audit.Verify(t.Context(), read.Open(filepath.Join(folder, "activity.db")), nil)
				if err != nil {
					t.Fatal(err)
				}
				if !v.OK() || v.Complete != messages || len(v.Gaps) > 0 {
					t.Errorf("the log of %d messages: %+v", messages, v)
				}
			}
		})
	}
}

func TestCompare_ReturnsTheMedian(t *testing.T) {
	bus := startServer(t, "hubbub-nolog")
	w := fourPairs(400)
	r, err := w.Compare(t.Context(), bus, startServer(t, "echo"), startServer(t, "tcp"), 3)
	if err != nil {
		t.Fatal(err)
	}
	if r.Workload != w.Name || r.PerSecond <= 0 || r.Echo.PerSecond <= 0 || r.TCP.PerSecond <= 0 || r.OfEcho <= 0 || r.OfTCP <= 0 {
		t.Errorf("%+v", r)
	}
	if r, err = w.Compare(t.Context(), bus, startServer(t, "echo"), startServer(t, "tcp"), 1); err != nil {
		t.Fatal(err)
	}
	if r.OfTCP != r.PerSecond/r.TCP.PerSecond || r.OfEcho != r.PerSecond/r.Echo.PerSecond {
		t.Errorf("the ratios are not those of the rates: %+v", r)
	}
}

func TestBus_UsesOneGoroutineForAnIdleConnection(t *testing.T) {
	const connections, others = 1000, 50 // the bus has a few others, such as those that gather metrics
	r, err := Idle(t.Context(), startServer(t, "hubbub").(Bus), connections, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if more := math.Abs(r.Goroutines-1) * connections; r.Connections != connections || more > others || r.Bytes <= 0 {
		t.Errorf("%+v", r)
	}
}

// TestTCPFloor_AnswersAfterAllReceivers looks at the frames themselves.
func TestTCPFloor_AnswersAfterAllReceivers(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- ServeTCP(ctx, listener) }()
	join := func(hello string) *link {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		l := newLink(conn, lengthFrames{}, nil)
		l.send([]byte(hello))
		want(t, l, hello)
		return l
	}
	first, second, sender, stranger := join("rgroup"), join("rgroup"), join("sgroup"), join("rother")
	for _, text := range []string{"one", "", strings.Repeat("three", 100_000)} {
		sender.send([]byte("message " + text))
		if err := sender.flush(); err != nil {
			t.Fatal(err)
		}
		want(t, first, "message "+text)
		want(t, second, "message "+text)
		for i, l := range []*link{second, first} {
			l.send(fmt.Appendf(nil, "answer %d %s", i, text))
			if err := l.flush(); err != nil {
				t.Fatal(err)
			}
		}
		frame, err := sender.next()
		if err != nil || !slices.Contains([]string{"answer 0 " + text, "answer 1 " + text}, string(frame)) {
			t.Fatalf("the sender got %.50q, %v", frame, err)
		}
	}
	cancel()
	if frame, err := stranger.next(); err == nil {
		t.Errorf("another group got %q", frame)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func want(t *testing.T, l *link, text string) {
	t.Helper()
	if frame, err := l.next(); err != nil || string(frame) != text {
		t.Fatalf("got %.50q, %v; want %.50q", frame, err, text)
	}
}

// TestFraming_HandlesEverySize sends them through a server that is not ours.
func TestFraming_HandlesEverySize(t *testing.T) {
	l, err := dialWebSocket(t.Context(), startServer(t, "echo").(EchoFloor).Address, "", textFrame)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, size := range []int{0, 1, 125, 126, 127, smallestRead, 65535, 65536, largestRead * 3, 1} {
		text := strings.Repeat("x", size)
		l.send([]byte(text))
		l.send([]byte("and " + text))
		want(t, l, text)
		want(t, l, "and "+text)
	}
	l.send(bytes.Repeat([]byte("x"), 2<<20)) // above the server's limit
	var closed *wire.CloseError
	if _, err := l.next(); !errors.As(err, &closed) || closed.Code != wire.CloseTooLarge {
		t.Errorf("a frame that is too large gives %v", err)
	}
}

func TestFraming_AnswersControlFrames(t *testing.T) {
	frames := webSocketFrames{textFrame}
	var out []byte
	ping := []byte("\x89\x02hi\x81\x04text")
	frame, used, err := frames.next(ping, &out)
	if frame != nil || used != 4 || err != nil || string(out) != "\x8a\x82\x00\x00\x00\x00hi" {
		t.Errorf("a ping gives %q, %d, %v and is answered with %q", frame, used, err, out)
	}
	for n := range len(ping[4:]) {
		if frame, used, err := frames.next(ping[4:4+n], &out); frame != nil || used != 0 || err != nil {
			t.Errorf("%d bytes of a frame give %q, %d, %v", n, frame, used, err)
		}
	}
	for name, in := range map[string]string{
		"masked": "\x81\x81", "a part": "\x01\x04text", "compressed": "\xc1\x04text", "binary": "\x82\x04text",
		"too large": "\x81\x7f\x00\x00\x00\x00\xff\xff\xff\xff", "a close": "\x88\x02\x03\xe8", "an empty close": "\x88\x00",
	} {
		if _, _, err := frames.next([]byte(in), &out); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestBus_CountsAnAnswerOnlyWhenAllProcessed(t *testing.T) {
	wanted := []byte(`"deliveredTo":2}}`)
	for answer, ok := range map[string]bool{
		`{"jsonrpc":"2.0","id":41,"result":{"accepted":true,"messageId":"m","deliveredTo":2}}`:                      true,
		`{"id":41,"result":{"deliveredTo": 2, "accepted":true,"messageId":"m"},"jsonrpc":"2.0"}`:                    true,
		`{"jsonrpc":"2.0","id":41,"result":{"accepted":true,"messageId":"m","deliveredTo":1}}`:                      false,
		`{"jsonrpc":"2.0","id":41,"result":{"accepted":true,"messageId":"m","deliveredTo":12}}`:                     false,
		`{"jsonrpc":"2.0","id":41,"error":{"code":-32602,"message":"no"}}`:                                          false,
		`{"jsonrpc":"2.0","id":null,"result":{"accepted":true,"messageId":"m","deliveredTo":2}}`:                    false,
		`{"jsonrpc":"2.0","id":41,"result":{"accepted":true,"messageId":"m","deliveredTo":0,"failures":[{"x":1}]}}`: false,
	} {
		n, err := delivered([]byte(answer), wanted)
		if ok != (err == nil) || ok && n != 41 {
			t.Errorf("%s gives %d, %v", answer, n, err)
		}
	}
}

// TestMessage_IsValid checks the parts on which the log's speed depends.
func TestMessage_IsValid(t *testing.T) {
	m := newMessage("bench:1", "cli:bench", 100)
	last := ""
	for _, n := range []int{0, 1, 9, 10, 123456, 99_999_999_999} {
		var f struct {
			ID     int
			Params struct {
				Topic   string
				Payload struct {
					MessageID string
					Content   struct{ Text string }
				}
			}
		}
		if err := json.Unmarshal(m.append(nil, n), &f); err != nil {
			t.Fatal(err)
		}
		id := f.Params.Payload.MessageID
		if raw, err := hex.DecodeString(strings.TrimPrefix(id, "msg_")); err != nil || len(raw) != 16 || id == last || f.ID != n || f.Params.Topic != "bench:1" || len(f.Params.Payload.Content.Text) != 100 {
			t.Errorf("message %d after %s: %+v, %v", n, last, f, err)
		}
		last = id
	}
}

package bus_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus"
	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// A raw is a connection whose every frame the test writes itself.
type raw struct {
	t      testing.TB
	stream jsonrpc.Stream
}

// rawPeer connects in memory and subscribes.
func rawPeer(t testing.TB, b *bustest.Bus, id string, patterns ...string) *raw {
	t.Helper()
	s, err := b.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return open(t, s, id, patterns...)
}

// socketPeer connects over a real WebSocket and subscribes.
func socketPeer(t testing.TB, b *bustest.Bus, id string, patterns ...string) *raw {
	t.Helper()
	s, err := wire.Dial(t.Context(), b.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return open(t, s, id, patterns...)
}

func open(t testing.TB, s jsonrpc.Stream, id string, patterns ...string) *raw {
	t.Helper()
	r := &raw{t, s}
	t.Cleanup(func() { s.Close(wire.CloseNormal, "") })
	r.request("initialize", `{"clientId":"`+id+`"}`)
	for _, p := range patterns {
		r.request("subscribe", `{"topic":"`+p+`"}`)
	}
	return r
}

func (r *raw) write(frame string) {
	if err := r.stream.Write([]byte(frame)); err != nil {
		r.t.Errorf("writing: %v", err)
	}
	r.stream.Flush()
}

// read returns the next message; an error ends the connection.
func (r *raw) read() (jsonrpc.Message, error) {
	frame, err := r.stream.Read()
	if err != nil {
		return jsonrpc.Message{}, err
	}
	return jsonrpc.Parse([]byte(string(frame)))
}

func (r *raw) request(method, params string) jsonrpc.Message {
	r.t.Helper()
	r.write(`{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":` + params + `}`)
	m, err := r.read()
	if err != nil {
		r.t.Fatalf("%s: %v", method, err)
	}
	return m
}

func payload(id, from, text string) string {
	return `{"messageId":"` + id + `","type":"agent_event","from":"` + from +
		`","timestamp":"2026-02-17T12:00:00Z","content":{"text":"` + text + `"}}`
}

func sendFrame(n int, topic, from, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"sendMessage","params":{"topic":%q,"payload":%s}}`,
		n, topic, payload(fmt.Sprintf("m%d", n), from, text))
}

func TestWindowAndQueue_AtLimitAndPast(t *testing.T) {
	b := bustest.Start(t, &bus.Options{PeerWindow: 3, PeerQueue: 4})
	silent := rawPeer(t, b, "agent:silent", "agent:silent")
	sender := b.Join(t, "cli:op")
	type answer struct{ result protocol.SendResult }
	answers := make(chan answer, 8)
	var sending sync.WaitGroup
	send := func() {
		sending.Go(func() {
			answers <- answer{sender.Send(t, "agent:silent", protocol.TypeAgentEvent, protocol.AgentOnline{})}
		})
	}
	for range 7 { // 3 in the window and 4 in the queue
		send()
	}
	var ids []jsonrpc.ID
	for range 3 {
		m, err := silent.read()
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, append(jsonrpc.ID(nil), m.ID...))
	}
	waitFor(t, func() bool { p := b.Server().Peers(); return p[0].Unanswered == 3 && p[0].Queued == 4 })
	send() // one past
	over := <-answers
	if f := over.result.Failures; over.result.DeliveredTo != 0 || len(f) != 1 || f[0].Status != protocol.OutcomeOverflow {
		t.Errorf("the eighth delivery: %+v; want overflow", over.result)
	}
	for n := range 7 { // each answer lets one of the queue go
		silent.write(`{"jsonrpc":"2.0","id":` + string(ids[0]) + `,"result":{}}`)
		ids = ids[1:]
		if a := <-answers; a.result.DeliveredTo != 1 {
			t.Errorf("a queued delivery: %+v; want it delivered", a.result)
		}
		if n < 4 {
			m, err := silent.read()
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, append(jsonrpc.ID(nil), m.ID...))
		}
	}
	sending.Wait()
}

// waitFor waits until another goroutine makes a condition true.
func waitFor(t testing.TB, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !condition() {
		select {
		case <-ctx.Done():
			t.Fatal("the condition never came true")
		case <-time.After(time.Millisecond):
		}
	}
}

func TestDelivery_TimeoutIncludesQueueTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, &bus.Options{PeerWindow: 1, DeliveryTimeout: 30 * time.Second})
		rawPeer(t, b, "agent:silent", "agent:silent")
		sender := b.Join(t, "cli:op")
		start := time.Now()
		var sending sync.WaitGroup
		for range 2 { // the second waits in the queue all the while
			sending.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r, err := sender.Peer.Send(ctx, "agent:silent", protocol.NewMessage(protocol.TypeAgentEvent, "cli:op", protocol.AgentOnline{}))
				if err != nil || len(r.Failures) != 1 || r.Failures[0].Status != protocol.OutcomeTimeout {
					t.Errorf("result %+v, %v; want a timeout", r, err)
				}
			})
		}
		sending.Wait()
		if took := time.Since(start); took < 30*time.Second || took > 31*time.Second {
			t.Errorf("the timeout came after %s; want 30s", took)
		}
	})
}

func TestInitialize_TimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		s, err := b.Dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = s.Read()
		if code := wire.CloseCode(err); code != wire.ClosePolicy {
			t.Errorf("closed with %d (%v); want 1008", code, err)
		}
		if took := time.Since(start); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("closed after %s; want 5s", took)
		}
	})
}

func TestFrame_AtLimitAndPast(t *testing.T) {
	b := bustest.Start(t, &bus.Options{MaxFrame: 4096})
	ear := socketPeer(t, b, "agent:ear", "agent:ear")
	sender := socketPeer(t, b, "cli:op")
	frame := sendFrame(1, "agent:ear", "cli:op", "")
	pad := 4096 - len(frame)
	exact := sendFrame(1, "agent:ear", "cli:op", strings.Repeat("x", pad))
	sender.write(exact)
	m, err := ear.read()
	if err != nil || string(m.Method) != protocol.MethodProcessMessage {
		t.Fatalf("a frame of exactly the limit did not arrive: %v", err)
	}
	ear.write(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{}}`)
	if m, err := sender.read(); err != nil || m.Error != nil {
		t.Fatalf("its answer: %s, %v", m.Error, err)
	}
	sender.write(exact + " ")
	if _, err := sender.read(); wire.CloseCode(err) != wire.CloseTooLarge {
		t.Errorf("one byte more: %v; want close code 1009", err)
	}
}

// A frame that breaks WebSocket itself is answered with 1002.
func TestFrame_UnmaskedOneClosesWith1002(t *testing.T) {
	b := bustest.Start(t, nil)
	host := strings.TrimPrefix(b.URL(), "ws://")
	conn, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n\x81\x02{}", host)
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	if _, frames, ok := strings.Cut(string(all), "\r\n\r\n"); !ok || !strings.HasPrefix(frames[min(2, len(frames)):], "\x03\xea") {
		t.Errorf("the bus sent %q; want a close frame with 1002", all)
	}
}

func TestFrame_InvalidUTF8ClosesWith1007(t *testing.T) {
	b := bustest.Start(t, nil)
	p := socketPeer(t, b, "cli:op")
	p.write("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}")
	if _, err := p.read(); wire.CloseCode(err) != wire.CloseNotUTF8 {
		t.Errorf("%v; want close code 1007", err)
	}
}

func TestSubscriptions_AtLimitAndPast(t *testing.T) {
	b := bustest.Start(t, &bus.Options{MaxSubscriptions: 3})
	p := rawPeer(t, b, "agent:x", "a", "b", "c", "a")
	if m := p.request("subscribe", `{"topic":"d"}`); !strings.Contains(string(m.Error), "-32602") {
		t.Errorf("the fourth subscription: %s %s; want -32602", m.Result, m.Error)
	}
	p.request("unsubscribe", `{"topic":"a"}`)
	if m := p.request("subscribe", `{"topic":"d"}`); m.Error != nil {
		t.Errorf("after an unsubscribe there is room, but: %s", m.Error)
	}
}

func TestSessions_AtLimitAndPast(t *testing.T) {
	b := bustest.Start(t, &bus.Options{MaxSessions: 2})
	socketPeer(t, b, "cli:a")
	second := socketPeer(t, b, "cli:b")
	third, err := wire.Dial(t.Context(), b.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close(wire.CloseNormal, "")
	if _, err := third.Read(); wire.CloseCode(err) != wire.CloseTryLater {
		t.Errorf("the third connection: %v; want close code 1013", err)
	}
	second.stream.Close(wire.CloseNormal, "")
	waitFor(t, func() bool { return b.Server().Counters().Sessions == 1 })
	socketPeer(t, b, "cli:c")
}

// TestSessions_CountSlowPeersThatAreBeingClosed uses a peer that reads nothing: while the
// bus waits for it to read its close frame, its connection takes a place.
func TestSessions_CountSlowPeersThatAreBeingClosed(t *testing.T) {
	b := bustest.Start(t, &bus.Options{MaxSessions: 2, WriteTimeout: time.Second, PeerBuffer: 1 << 20})
	stuck := socketPeer(t, b, "agent:stuck", "news")
	sender := socketPeer(t, b, "cli:op")
	text := strings.Repeat("x", 1<<19)
	for n := 0; len(b.Server().Peers()) == 2; n++ {
		sender.write(sendFrame(n, "news", "cli:op", text))
	}
	third, err := wire.Dial(t.Context(), b.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer third.Close(wire.CloseNormal, "")
	if _, err := third.Read(); wire.CloseCode(err) != wire.CloseTryLater {
		t.Errorf("a third connection beside one that is being closed: %v; want close code 1013", err)
	}
	for err = nil; err == nil; {
		_, err = stuck.stream.Read()
	}
	if wire.CloseCode(err) != wire.ClosePolicy {
		t.Errorf("the slow peer reads again and gets %v; want 1008", err)
	}
	stuck.stream.Close(wire.CloseNormal, "")
	waitFor(t, func() bool { return b.Server().Counters().Sessions == 1 })
	socketPeer(t, b, "cli:next")
}

// TestPeer_ThatNeverReadsIsClosed sends more than kernel buffers hide to a peer that
// reads nothing: it is closed as a slow consumer, and the others never notice.
func TestPeer_ThatNeverReadsIsClosed(t *testing.T) {
	b := bustest.Start(t, &bus.Options{WriteTimeout: time.Second, PeerQueue: 64, PeerBuffer: 1 << 20})
	stuck := socketPeer(t, b, "agent:stuck", "news")
	ear := b.Join(t, "agent:ear", "other")
	sender := b.Join(t, "cli:op")
	text := strings.Repeat("x", 512<<10)
	var sending sync.WaitGroup
	results := make(chan protocol.SendResult, 64)
	for range 24 { // 12 MiB
		sending.Go(func() {
			results <- sender.Send(t, "news", protocol.TypeAgentEvent, map[string]string{"text": text})
		})
	}
	for range 20 {
		if r := sender.Send(t, "other", protocol.TypeAgentEvent, protocol.AgentOnline{}); r.DeliveredTo != 1 {
			t.Fatalf("a healthy peer got nothing: %+v", r)
		}
		ear.Next(t)
	}
	sending.Wait()
	close(results)
	for r := range results {
		if r.DeliveredTo != 0 { // offline, overflow, or nobody once it is closed
			t.Fatalf("result %+v; want it not delivered", r)
		}
	}
	var err error
	for err == nil {
		_, err = stuck.stream.Read()
	}
	if wire.CloseCode(err) != wire.ClosePolicy {
		t.Errorf("the peer reads again and gets %v; want 1008", err)
	}
}

// TestPing_EndsSilentSession keeps the TCP connection but answers no ping.
func TestPing_EndsSilentSession(t *testing.T) {
	b := bustest.Start(t, &bus.Options{PingInterval: 50 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimPrefix(b.URL(), "ws://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	hello := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"clientId":"agent:mute"}}`
	frame := append([]byte{0x81, byte(0x80 | len(hello)), 0, 0, 0, 0}, hello...) // masked with zeros
	if _, err := conn.Write(frame); err != nil {
		t.Fatal(err)
	}
	received := bufio.NewReader(conn)
	resp, err := http.ReadResponse(received, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("upgrading: %v, %v", resp, err)
	}
	if _, err := received.ReadString('}'); err != nil { // the answer: the session has begun
		t.Fatal(err)
	}
	waitFor(t, func() bool { return len(b.Server().Peers()) == 0 })
}

func TestStop_AnswersInFlightMessages(t *testing.T) {
	b := bustest.Start(t, nil)
	worker := b.Join(t, "agent:worker", "agent:worker")
	started, finish := make(chan struct{}), make(chan struct{})
	worker.Refuse(func(*bustest.Delivery) error {
		close(started)
		<-finish
		return nil
	})
	sender := b.Join(t, "cli:op")
	result := make(chan protocol.SendResult, 1)
	go func() { result <- sender.Send(t, "agent:worker", protocol.TypeAgentEvent, protocol.AgentOnline{}) }()
	<-started
	stopped := make(chan struct{})
	go func() { b.Stop(); close(stopped) }()
	waitFor(t, func() bool {
		_, err := net.DialTimeout("tcp", strings.TrimPrefix(b.URL(), "ws://"), time.Second)
		return err != nil // the bus takes no new connection any more
	})
	close(finish)
	if r := <-result; r.DeliveredTo != 1 {
		t.Errorf("result %+v; want the message answered before the bus ended", r)
	}
	<-stopped
}

func TestTakeover_ReplacedPeerStaysAway(t *testing.T) {
	b := bustest.Start(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := peer.New("agent:x", &peer.Options{Buses: []string{b.URL()}})
	ended := make(chan error, 1)
	go func() { ended <- first.Run(ctx) }()
	if err := first.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	b.Join(t, "agent:x")
	if err := <-ended; !errors.Is(err, peer.ErrReplaced) {
		t.Errorf("Run = %v; want ErrReplaced", err)
	}
}

package peer_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/timetest"

	"github.com/rs/zerolog"
)

func TestRefusal_HasItsErrorCode(t *testing.T) {
	b := bustest.Start(t, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	p := peer.New("agent:x", &peer.Options{Buses: []string{b.URL()}})
	if err := p.Subscribe(ctx, "bad[pattern]"); err != nil {
		t.Fatal(err) // not connected yet
	}
	if err := p.Run(ctx); !errors.Is(err, peer.ErrRefused) {
		t.Errorf("Run with a bad pattern: %v; want ErrRefused", err)
	}
	if err := p.Ready(ctx); !errors.Is(err, peer.ErrStopped) || !errors.Is(err, peer.ErrRefused) {
		t.Errorf("Ready after that: %v; want ErrStopped, and why", err)
	}
	q := peer.New("agent:y", &peer.Options{Buses: []string{b.URL()}})
	run(t, q)
	var refusal *jsonrpc.Error
	if _, err := q.Send(ctx, "tg:1", q.NewMessage(protocol.TypeConfigure, note{})); !errors.As(err, &refusal) || refusal.Code != protocol.CodeInvalidParams {
		t.Errorf("a type that the role may not send: %v; want -32602", err)
	}
	if err := q.Subscribe(ctx, "bad[pattern]"); !errors.As(err, &refusal) {
		t.Errorf("Subscribe: %v; want the bus's refusal", err)
	}
}

// A watched stream calls a function before each frame that it sends.
type watched struct {
	jsonrpc.Stream
	before func(frame string)
}

func (w watched) Write(frame []byte) error {
	w.before(string(frame))
	return w.Stream.Write(frame)
}

// TestSubscribe_DuringConnect adds one pattern and removes
// another when the peer has begun to subscribe and is not connected yet, as a
// program does that starts Run first.
func TestSubscribe_DuringConnect(t *testing.T) {
	b := bustest.StartInMemory(t, nil)
	var p *peer.Peer
	var once sync.Once
	p = peer.New("agent:x", &peer.Options{Dial: func(ctx context.Context) (jsonrpc.Stream, error) {
		s, err := b.Dial(ctx)
		return watched{s, func(frame string) {
			if strings.Contains(frame, "agent:last") {
				once.Do(func() {
					if err := errors.Join(p.Subscribe(ctx, "agent:late"), p.Unsubscribe(ctx, "agent:first")); err != nil {
						t.Error(err)
					}
				})
			}
		}}, err
	}})
	if err := p.Subscribe(t.Context(), "agent:first", "agent:last"); err != nil {
		t.Fatal(err)
	}
	run(t, p)
	for topic, want := range map[protocol.Topic]int{"agent:late": 1, "agent:last": 1, "agent:first": 0} {
		r, err := p.Send(t.Context(), topic, p.NewMessage(protocol.TypeAgentEvent, note{}))
		if err != nil || r.DeliveredTo != want {
			t.Errorf("%s: %+v, %v; want it delivered to %d", topic, r, err, want)
		}
	}
}

// TestSend_AtTheSizeLimitAndOnePast sends the largest message that the bus accepts, and one that
// is a byte larger. No connection ends.
func TestSend_AtTheSizeLimitAndOnePast(t *testing.T) {
	b := bustest.Start(t, &bustest.Options{MaxFrame: 4096})
	drops := make(chan error, 1)
	p := peer.New("cli:s", &peer.Options{Buses: []string{b.URL()}, OnDisconnect: func(err error) { drops <- err }})
	run(t, p)
	send := func(size int) error {
		m := p.NewMessage(protocol.TypeAgentEvent, map[string]string{"text": strings.Repeat("x", size)})
		_, err := p.Send(t.Context(), "agent:x", m)
		return err
	}
	var large *peer.TooLargeError
	var refused *jsonrpc.Error
	err := send(4096)
	if !errors.As(err, &large) || large.Limit != 4096 || !errors.As(err, &refused) || !strings.Contains(err.Error(), "--max-frame") {
		t.Fatalf("a message of more than the limit: %v; want a TooLargeError that says what to do", err)
	}
	most := 4096 - (large.Size - large.Limit)
	if err := send(most); err != nil {
		t.Errorf("a frame of exactly the limit: %v", err)
	}
	if err := send(most + 1); !errors.As(err, &large) || large.Size != 4097 {
		t.Errorf("one byte more: %v; want a TooLargeError of 4097 bytes", err)
	}
	select {
	case err := <-drops:
		t.Errorf("the connection was lost: %v", err)
	default:
	}
}

// TestHandlerError_IsCut makes a handler return an error that is larger than a frame.
func TestHandlerError_IsCut(t *testing.T) {
	b := bustest.Start(t, nil)
	p := peer.New("agent:x", &peer.Options{Buses: []string{b.URL()}})
	long := strings.Repeat("x", 1<<20) // the bus's largest frame
	p.Handle(protocol.TypeAgentEvent, func(context.Context, *peer.Delivery) error { return peer.Reject(long) })
	p.Handle(protocol.TypeConfigure, func(context.Context, *peer.Delivery) error { return errors.New(long) })
	if err := p.Subscribe(t.Context(), "agent:x"); err != nil {
		t.Fatal(err)
	}
	run(t, p)
	sender := b.Join(t, "cli:s")
	for kind, want := range map[protocol.MessageType]protocol.Outcome{
		protocol.TypeAgentEvent: protocol.OutcomeRejected, protocol.TypeConfigure: protocol.OutcomeError,
	} {
		if r := sender.Send(t, "agent:x", kind, note{}); len(r.Failures) != 1 || r.Failures[0].Status != want {
			t.Errorf("%s: %+v; want %s", kind, r, want)
		}
	}
}

// TestStop_KeepsItsTimeout uses a handler that ends only when its
// context does.
func TestStop_KeepsItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		p, started := newUnstoppable(t, b, 3*time.Second)
		stop := run(t, p)
		sender := b.Join(t, "cli:s")
		results := make(chan protocol.SendResult, 1)
		go func() { results <- sender.Send(t, "agent:x", protocol.TypeAgentEvent, note{}) }()
		<-started
		at := time.Now()
		if err := stop(); err != nil {
			t.Errorf("Run = %v", err)
		}
		if took := time.Since(at); took < 3*time.Second || took > 4*time.Second { // and the close handshake
			t.Errorf("the stop took %s; want 3s", took)
		}
		if r := <-results; len(r.Failures) != 1 || r.Failures[0].Status != protocol.OutcomeOffline {
			t.Errorf("the sender got %+v; want offline", r)
		}
	})
}

// TestHungHandler_StopsTheHeartbeat blocks a handler, as in a deadlock: the heartbeat stops, and
// continues when the handler returns.
func TestHungHandler_StopsTheHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		var pulses atomic.Int64
		p := peer.New("agent:x", &peer.Options{Dial: b.Dial, Heartbeat: func() { pulses.Add(1) }})
		goOn := make(chan struct{})
		p.Handle(protocol.TypeConfigure, func(context.Context, *peer.Delivery) error { <-goOn; return nil })
		if err := p.Subscribe(t.Context(), "agent:x"); err != nil {
			t.Fatal(err)
		}
		run(t, p)
		during := func(d time.Duration) int64 {
			before := pulses.Load()
			timetest.Advance(d)
			return pulses.Load() - before
		}
		if n := during(10 * time.Second); n != 10 {
			t.Errorf("%d pulses in 10s of a sound peer", n)
		}
		sender := peer.New("tg:1", &peer.Options{Dial: b.Dial})
		run(t, sender)
		sent := make(chan error, 1)
		go func() {
			_, err := sender.Send(t.Context(), "agent:x", sender.NewMessage(protocol.TypeConfigure, note{}))
			sent <- err
		}()
		synctest.Wait()
		if n := during(time.Minute); n != 60 {
			t.Errorf("%d pulses in the first minute of a handler, which may take it", n)
		}
		if n := during(time.Minute); n != 0 {
			t.Errorf("%d pulses in the second minute of a handler", n)
		}
		close(goOn)
		if n := during(10 * time.Second); n != 10 {
			t.Errorf("%d pulses in 10s after the handler went on", n)
		}
		if err := <-sent; err != nil {
			t.Error(err)
		}
	})
}

// answerSlowly subscribes a peer to its own identity. Its handler takes a second and a half.
func answerSlowly(t *testing.T, p *peer.Peer) {
	t.Helper()
	p.HandleAny(func(context.Context, *peer.Delivery) error {
		time.Sleep(1500 * time.Millisecond) // free: the bubble's clock
		return nil
	})
	if err := p.Subscribe(t.Context(), protocol.Pattern(p.ID())); err != nil {
		t.Fatal(err)
	}
}

// checkReplaced lets some time pass, and checks that a peer's Run has then ended with ErrReplaced,
// and that the newer session gets messages.
func checkReplaced(t *testing.T, ended <-chan error, sender, newer *bustest.Scripted) {
	t.Helper()
	timetest.Advance(5 * time.Second)
	select {
	case err := <-ended:
		if !errors.Is(err, peer.ErrReplaced) {
			t.Errorf("Run = %v; want ErrReplaced", err)
		}
	default:
		t.Error("the replaced peer still runs")
	}
	r := sender.Send(t, "agent:x", protocol.TypeAgentEvent, note{2})
	if r.DeliveredTo != 1 || newer.Pending() != 1 {
		t.Errorf("a later message: %+v; the newer session has %d, want 1", r, newer.Pending())
	}
}

// TestReplaced_PingIsRefused makes the first ping of a peer fall into the grace in which it may
// still answer its delivery after another session has replaced it.
func TestReplaced_PingIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		p := peer.New("agent:x", &peer.Options{Dial: b.Dial})
		answerSlowly(t, p)
		ended := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { ended <- p.Run(ctx) }()
		sender := b.Join(t, "cli:s")
		timetest.Advance(19 * time.Second)
		results := make(chan protocol.SendResult, 1)
		go func() { results <- sender.Send(t, "agent:x", protocol.TypeAgentEvent, note{1}) }()
		timetest.Advance(500 * time.Millisecond)
		newer := b.Join(t, "agent:x", "agent:x")
		checkReplaced(t, ended, sender, newer)
		if r := <-results; r.DeliveredTo != 1 {
			t.Errorf("the delivery that the peer held: %+v; want its answer", r)
		}
	})
}

// TestReplaced_SubscribeIsRefused replaces a peer that holds a delivery and is not done with its
// subscriptions.
func TestReplaced_SubscribeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		sender := b.Join(t, "cli:s")
		var p *peer.Peer
		var newer *bustest.Scripted
		var initialized, replaced sync.Once
		p = peer.New("agent:x", &peer.Options{Dial: func(ctx context.Context) (jsonrpc.Stream, error) {
			s, err := b.Dial(ctx)
			return watched{s, func(frame string) {
				if strings.Contains(frame, protocol.MethodInitialize) {
					initialized.Do(func() {
						if err := p.Subscribe(ctx, "agent:late"); err != nil {
							t.Error(err)
						}
					})
				} else if strings.Contains(frame, "agent:late") {
					replaced.Do(func() {
						go sender.Send(t, "agent:x", protocol.TypeAgentEvent, note{1})
						time.Sleep(time.Second) // free: the bubble's clock; it holds the delivery now
						newer = b.Join(t, "agent:x", "agent:x")
					})
				}
			}}, err
		}})
		answerSlowly(t, p)
		ended := make(chan error, 1)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() { ended <- p.Run(ctx) }()
		timetest.Advance(2 * time.Second)
		checkReplaced(t, ended, sender, newer)
	})
}

// countConnections runs a peer for a minute, with connections of the given duration, and returns the
// number of connections, and of those that were later than the shortest delay.
func countConnections(t *testing.T, lasts time.Duration) (connects, late int) {
	t.Helper()
	b := bustest.StartInMemory(t, nil)
	var stream jsonrpc.Stream
	var ended time.Time
	p := peer.New("agent:x", &peer.Options{
		Dial: func(ctx context.Context) (s jsonrpc.Stream, err error) {
			stream, err = b.Dial(ctx)
			return stream, err
		},
		OnConnect: func(context.Context) {
			connects++
			if connects > 1 && time.Since(ended) > 75*time.Millisecond {
				late++
			}
			time.Sleep(lasts) // free: the bubble's clock
			ended = time.Now()
			stream.Close(1001, "dropped")
		},
	})
	// This does not use run, which waits until the peer is ready: a connection that is dropped at
	// once may be gone before that is seen, and the minute would begin later.
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := p.Run(ctx); err != nil {
		t.Errorf("Run = %v", err)
	}
	return connects, late
}

// TestReconnect_BacksOffIfDroppedAtOnce counts the connections of a peer to a bus that accepts
// and drops them, like a broken proxy, and measures the delay after a connection that lasted.
func TestReconnect_BacksOffIfDroppedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if connects, _ := countConnections(t, 0); connects < 40 || connects > 140 {
			t.Errorf("%d connections in a minute to a bus that drops each at once; want about one a second", connects)
		}
		if connects, late := countConnections(t, 2*time.Second); connects < 25 || late > 0 {
			t.Errorf("%d connections of 2s in a minute, %d of them late; want a quick return from each", connects, late)
		}
	})
}

// A firstLineSignal calls ring at the first line of a log.
type firstLineSignal struct {
	once sync.Once
	ring func()
}

func (b *firstLineSignal) Write(p []byte) (int, error) {
	b.once.Do(b.ring)
	return len(p), nil
}

// sendUnconnected makes a peer try to send until it has failed to connect, and
// returns the error of Send.
func sendUnconnected(t *testing.T, o *peer.Options) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	waiting, give := context.WithCancel(ctx)
	log := zerolog.New(&firstLineSignal{ring: give})
	o.Log = &log
	p := peer.New("cli:s", o)
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	_, err := p.Send(waiting, "agent:x", protocol.Message{})
	if !errors.Is(err, peer.ErrNotConnected) || !errors.Is(err, context.Canceled) {
		t.Errorf("Send without a bus: %v; want ErrNotConnected and the end of its context", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	return err
}

func TestConnectError_NamesTheCause(t *testing.T) {
	err := sendUnconnected(t, &peer.Options{Buses: []string{"ws://127.0.0.1:1"}})
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("Send without a bus: %v; want it to say why", err)
	}
}

// TestWSS_ChecksTheCertificate connects to a bus that shows a certificate which the system does not know.
func TestWSS_ChecksTheCertificate(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	b := bustest.Start(t, &bustest.Options{TLS: &tls.Config{Certificates: web.TLS.Certificates, NextProtos: []string{"http/1.1"}}})
	buses := []string{strings.Replace(b.URL(), "ws:", "wss:", 1)}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	var unknown x509.UnknownAuthorityError
	if err := sendUnconnected(t, &peer.Options{Buses: buses}); !errors.As(err, &unknown) {
		t.Errorf("Send without the authority: %v; want it named as unknown", err)
	}

	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	p := peer.New("agent:echo", &peer.Options{Buses: buses, TLS: &tls.Config{RootCAs: roots}})
	got := make(chan int, 1)
	p.HandleAny(func(_ context.Context, d *peer.Delivery) error {
		var n note
		err := d.Decode(&n)
		got <- n.N
		return err
	})
	if err := p.Subscribe(ctx, "agent:echo"); err != nil {
		t.Fatal(err)
	}
	run(t, p)
	if r, err := p.Send(ctx, "agent:echo", p.NewMessage(protocol.TypeAgentEvent, note{7})); err != nil || r.DeliveredTo != 1 || <-got != 7 {
		t.Errorf("over TLS: %+v, %v", r, err)
	}
}

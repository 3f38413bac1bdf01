package peer_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type note struct {
	N int `json:"n"`
}

// run starts a peer and waits until it is ready; stop ends it and gives Run's
// result.
func run(t *testing.T, p *peer.Peer) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	if err := p.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	var result error
	stop = func() error {
		once.Do(func() { cancel(); result = <-ended })
		return result
	}
	t.Cleanup(func() { stop() }) //nolint:errcheck // the test looked, if it cared
	return stop
}

// newUnstoppable returns agent:x, whose handler ends only when its context does.
func newUnstoppable(t *testing.T, b *bustest.Bus, stopTimeout time.Duration) (p *peer.Peer, started chan struct{}) {
	t.Helper()
	p = peer.New("agent:x", &peer.Options{Dial: b.Dial, StopTimeout: stopTimeout})
	started = make(chan struct{})
	p.HandleAny(func(ctx context.Context, _ *peer.Delivery) error {
		close(started)
		<-ctx.Done()
		return ctx.Err()
	})
	if err := p.Subscribe(t.Context(), "agent:x"); err != nil {
		t.Fatal(err)
	}
	return p, started
}

func TestHandlers_KeepTheOrderOfEachSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		p := peer.New("agent:x", &peer.Options{Dial: b.Dial, Concurrency: 2})
		var mu sync.Mutex
		got := map[protocol.PeerID][]int{}
		var running, most int
		p.HandleAny(func(_ context.Context, d *peer.Delivery) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second) // free: the bubble's clock
			var n note
			if err := d.Decode(&n); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			running--
			got[d.Message.From] = append(got[d.Message.From], n.N)
			return nil
		})
		if err := p.Subscribe(t.Context(), "agent:x"); err != nil {
			t.Fatal(err)
		}
		run(t, p)
		var senders []*bustest.Scripted
		for s := range 3 {
			senders = append(senders, b.Join(t, protocol.PeerID(fmt.Sprint("cli:", s))))
		}
		var sending sync.WaitGroup
		for n := range 4 {
			for _, sender := range senders {
				sending.Go(func() { sender.Send(t, "agent:x", protocol.TypeAgentEvent, note{n}) })
			}
			synctest.Wait() // these are on their way before the next
		}
		sending.Wait()
		if most != 2 {
			t.Errorf("%d handlers ran at once; the bound is 2", most)
		}
		for from, order := range got {
			if fmt.Sprint(order) != "[0 1 2 3]" {
				t.Errorf("from %s: %v", from, order)
			}
		}
	})
}

// TestNext_LetsTheNextDeliveryBegin lets the first of three handlers return last. The third waits
// for the second.
func TestNext_LetsTheNextDeliveryBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		p := peer.New("agent:x", &peer.Options{Dial: b.Dial})
		var begun atomic.Int32
		var goOn [3]chan struct{}
		for n := range goOn {
			goOn[n] = make(chan struct{})
		}
		returns := make(chan struct{})
		p.HandleAny(func(_ context.Context, d *peer.Delivery) error {
			n := begun.Add(1) - 1
			if <-goOn[n]; n == 0 {
				d.Next()
				d.Next() // changes nothing
				<-returns
			}
			return nil
		})
		if err := p.Subscribe(t.Context(), "agent:x"); err != nil {
			t.Fatal(err)
		}
		run(t, p)
		sender := b.Join(t, "cli:s")
		var sending sync.WaitGroup
		for n := range goOn {
			sending.Go(func() {
				if r := sender.Send(t, "agent:x", protocol.TypeAgentEvent, note{n}); r.DeliveredTo != 1 {
					t.Errorf("delivery %d: %+v", n, r)
				}
			})
		}
		for n := range goOn {
			if synctest.Wait(); begun.Load() != int32(n+1) {
				t.Errorf("%d handlers have begun, want %d", begun.Load(), n+1)
			}
			close(goOn[n])
		}
		close(returns)
		sending.Wait()
	})
}

func TestFullQueue_RefusesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		p := peer.New("agent:x", &peer.Options{Dial: b.Dial, Queue: 2})
		p.HandleAny(func(ctx context.Context, _ *peer.Delivery) error {
			time.Sleep(time.Second)
			return nil
		})
		if err := p.Subscribe(t.Context(), "agent:x"); err != nil {
			t.Fatal(err)
		}
		run(t, p)
		sender := b.Join(t, "cli:s")
		var sending sync.WaitGroup
		var ok, busy atomic.Int32
		for n := range 5 { // one runs, two wait, two are one too many
			sending.Go(func() {
				r := sender.Send(t, "agent:x", protocol.TypeAgentEvent, note{n})
				if r.DeliveredTo == 1 {
					ok.Add(1)
				} else if r.Failures[0].Status == protocol.OutcomeError {
					busy.Add(1)
				}
			})
			synctest.Wait()
		}
		sending.Wait()
		if ok.Load() != 3 || busy.Load() != 2 {
			t.Errorf("%d handled, %d refused; want 3 and 2", ok.Load(), busy.Load())
		}
	})
}

// TestHandler_MayEndItsGoroutine does so with more deliveries from its sender waiting, as t.Fatal
// in a handler does.
func TestHandler_MayEndItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bustest.StartInMemory(t, nil)
		p := peer.New("agent:x", &peer.Options{Dial: b.Dial, Concurrency: 1})
		goOn := make(chan struct{})
		p.HandleAny(func(_ context.Context, d *peer.Delivery) error {
			var n note
			if err := d.Decode(&n); err != nil || n.N > 0 {
				return err
			}
			<-goOn
			runtime.Goexit()
			return nil
		})
		if err := p.Subscribe(t.Context(), "agent:x"); err != nil {
			t.Fatal(err)
		}
		run(t, p)
		sender := b.Join(t, "cli:s")
		var results [3]protocol.SendResult
		var sending sync.WaitGroup
		for n := range results {
			sending.Go(func() { results[n] = sender.Send(t, "agent:x", protocol.TypeAgentEvent, note{n}) })
			synctest.Wait()
		}
		close(goOn)
		sending.Wait()
		if f := results[0].Failures; len(f) != 1 || f[0].Status != protocol.OutcomeError || !strings.Contains(f[0].Error, "Goexit") {
			t.Errorf("its sender got %+v; want an error that says why", results[0])
		}
		if results[1].DeliveredTo != 1 || results[2].DeliveredTo != 1 {
			t.Errorf("what came after it: %+v", results[1:])
		}
	})
}

func TestAnswer_CarriesTheHandlersResult(t *testing.T) {
	b := bustest.Start(t, nil)
	p := peer.New("agent:x", &peer.Options{Buses: []string{b.URL()}})
	p.Handle(protocol.TypeAgentEvent, func(context.Context, *peer.Delivery) error { return peer.Reject("not today") })
	p.Handle(protocol.TypeConfigure, func(context.Context, *peer.Delivery) error { return errors.New("disk full") })
	p.Handle(protocol.TypeTGMessage, func(context.Context, *peer.Delivery) error { panic("oh") })
	if err := p.Subscribe(t.Context(), "agent:x"); err != nil {
		t.Fatal(err)
	}
	run(t, p)
	sender := b.Join(t, "cli:s")
	for kind, want := range map[protocol.MessageType]protocol.Outcome{
		protocol.TypeAgentEvent: protocol.OutcomeRejected, protocol.TypeConfigure: protocol.OutcomeError,
		protocol.TypeTGMessage: protocol.OutcomeError, protocol.TypeTGReply: "",
	} {
		r := sender.Send(t, "agent:x", kind, note{})
		switch {
		case want == "" && r.DeliveredTo != 1:
			t.Errorf("%s, which has no handler: %+v; want it processed", kind, r)
		case want != "" && (len(r.Failures) != 1 || r.Failures[0].Status != want):
			t.Errorf("%s: %+v; want %s", kind, r, want)
		}
	}
}

// TestSendOnce_IsDeduplicated sends a message again, and then without once.
func TestSendOnce_IsDeduplicated(t *testing.T) {
	b := bustest.Start(t, nil)
	ear, sender := b.Join(t, "agent:x", "agent:x"), b.Join(t, "cli:s").Peer
	m := protocol.NewMessage(protocol.TypeAgentEvent, sender.ID(), note{})
	for range 2 {
		if r, err := sender.SendOnce(t.Context(), "agent:x", m); err != nil || r.DeliveredTo != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if ear.Next(t); ear.Pending() != 0 {
		t.Errorf("%d deliveries of a repeat", ear.Pending())
	}
	for range 2 {
		if r, err := sender.Send(t.Context(), "agent:x", m); err != nil || r.DeliveredTo != 1 {
			t.Errorf("%+v, %v", r, err)
		}
		ear.Next(t)
	}
}

func TestSend_InsideAHandler(t *testing.T) {
	b := bustest.Start(t, nil)
	p := peer.New("agent:echo", &peer.Options{Buses: []string{b.URL()}})
	p.Handle(protocol.TypeTGMessage, func(ctx context.Context, d *peer.Delivery) error {
		_, err := p.Send(ctx, d.Message.From.Topic(), p.NewMessage(protocol.TypeTGReply, protocol.ChatReply{Text: "hello"}))
		return err
	})
	if err := p.Subscribe(t.Context(), "agent:echo"); err != nil {
		t.Fatal(err)
	}
	run(t, p)
	chat := b.Join(t, "tg:1", "tg:1")
	chat.Send(t, "agent:echo", protocol.TypeTGMessage, protocol.ChatMessage{Text: "hi"})
	if d := chat.Next(t); d.Message.Type != protocol.TypeTGReply {
		t.Errorf("got %s", d.Message.Type)
	}
}

func TestReconnect_SubscribesAgain(t *testing.T) {
	b := bustest.Start(t, nil)
	connects := make(chan struct{}, 10)
	p := peer.New("agent:x", &peer.Options{
		Buses: []string{"ws://127.0.0.1:1", b.URL()}, OnConnect: func(context.Context) { connects <- struct{}{} },
	})
	got := make(chan int, 10)
	p.HandleAny(func(_ context.Context, d *peer.Delivery) error {
		var n note
		err := d.Decode(&n)
		got <- n.N
		return err
	})
	if err := p.Subscribe(t.Context(), "agent:x"); err != nil {
		t.Fatal(err)
	}
	run(t, p)
	if err := p.Subscribe(t.Context(), "later:*"); err != nil { // while connected
		t.Fatal(err)
	}
	<-connects
	b.Restart(t)
	<-connects
	sender := b.Join(t, "cli:s")
	sender.Send(t, "later:1", protocol.TypeAgentEvent, note{7})
	if n := <-got; n != 7 {
		t.Errorf("got %d", n)
	}
	if err := p.Unsubscribe(t.Context(), "later:*"); err != nil {
		t.Fatal(err)
	}
	if r := sender.Send(t, "later:1", protocol.TypeAgentEvent, note{8}); r.DeliveredTo != 0 {
		t.Errorf("after Unsubscribe: %+v", r)
	}
}

func TestSend_ReportsALostAnswer(t *testing.T) {
	b := bustest.Start(t, nil)
	worker := b.Join(t, "agent:x", "agent:x")
	started, finish := make(chan struct{}), make(chan struct{})
	worker.Refuse(func(*bustest.Delivery) error { close(started); <-finish; return nil })
	streams := make(chan jsonrpc.Stream, 10)
	p := peer.New("cli:s", &peer.Options{Dial: func(ctx context.Context) (jsonrpc.Stream, error) {
		s, err := b.Dial(ctx)
		streams <- s
		return s, err
	}})
	run(t, p)
	sent := make(chan error, 1)
	go func() {
		_, err := p.Send(context.Background(), "agent:x", p.NewMessage(protocol.TypeAgentEvent, note{}))
		sent <- err
	}()
	<-started
	(<-streams).Close(1006, "cut")
	if err := <-sent; !errors.Is(err, peer.ErrInterrupted) {
		t.Errorf("Send = %v; want ErrInterrupted", err)
	}
	close(finish)
}

func TestStop_LetsRunningHandlersAnswer(t *testing.T) {
	b := bustest.Start(t, nil)
	p := peer.New("agent:x", &peer.Options{Buses: []string{b.URL()}})
	started, finish := make(chan struct{}), make(chan struct{})
	p.HandleAny(func(context.Context, *peer.Delivery) error { close(started); <-finish; return nil })
	if err := p.Subscribe(t.Context(), "agent:x"); err != nil {
		t.Fatal(err)
	}
	stop := run(t, p)
	sender := b.Join(t, "cli:s")
	result := make(chan protocol.SendResult, 1)
	go func() { result <- sender.Send(t, "agent:x", protocol.TypeAgentEvent, note{}) }()
	<-started
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	close(finish)
	if r := <-result; r.DeliveredTo != 1 {
		t.Errorf("result %+v; want the running handler to have answered", r)
	}
	if err := <-stopped; err != nil {
		t.Errorf("Run = %v", err)
	}
	if _, err := p.Send(t.Context(), "agent:x", protocol.Message{}); !errors.Is(err, peer.ErrStopped) {
		t.Errorf("Send after the stop: %v; want ErrStopped", err)
	}
}

// TestUndeliverable_ToCommandLines checks that the identities of command lines do not return, and
// that all others may.
func TestUndeliverable_ToCommandLines(t *testing.T) {
	absent := protocol.SendResult{Accepted: true, Addressee: protocol.AddresseeAbsent}
	failed := func(id protocol.PeerID, o protocol.Outcome) protocol.SendResult {
		return protocol.SendResult{Accepted: true, Addressee: protocol.AddresseeFailed, Failures: []protocol.Failure{{Peer: id, Status: o, Error: "no"}}}
	}
	refused := fmt.Errorf("sending: %w", &jsonrpc.Error{Code: protocol.CodeInvalidParams, Message: "not granted"})
	for name, c := range map[string]struct {
		topic  protocol.Topic
		early  bool // it is the second attempt, not the third
		result protocol.SendResult
		err    error
		why    string
	}{
		"it ended":                  {topic: "cli:pub-1", result: absent, why: "cli:pub-1 has left"},
		"it may reconnect":          {topic: "cli:pub-1", early: true, result: absent},
		"it never wanted it":        {topic: "cli:pub-1", early: true, result: failed("cli:pub-1", protocol.OutcomeRejected), why: "refused it: no"},
		"an observer alone has it":  {topic: "cli:pub-1", result: protocol.SendResult{DeliveredTo: 1, Addressee: protocol.AddresseeAbsent}, why: "has left"},
		"a bus that names nobody":   {topic: "cli:pub-1", why: "has left"},
		"it does not want it":       {topic: "cli:pub-1", result: failed("cli:pub-1", protocol.OutcomeRejected), why: "refused it: no"},
		"the bus forbids it":        {topic: "cli:pub-1", err: refused, why: "not granted"},
		"it has it":                 {topic: "cli:pub-1", result: protocol.SendResult{DeliveredTo: 1, Addressee: protocol.AddresseeOK}},
		"it is slow":                {topic: "cli:pub-1", result: failed("cli:pub-1", protocol.OutcomeTimeout)},
		"an observer rejects it":    {topic: "cli:pub-1", result: failed("agent:audit", protocol.OutcomeRejected)},
		"the connection ended":      {topic: "cli:pub-1", err: peer.ErrInterrupted},
		"an agent comes back":       {topic: "agent:lead", result: absent},
		"a bridge comes back":       {topic: "tg:42", result: absent},
		"an agent may not be told":  {topic: "agent:lead", err: refused},
		"an agent does not want it": {topic: "agent:lead", result: failed("agent:lead", protocol.OutcomeRejected)},
		"nobody in particular":      {topic: protocol.TopicAgents},
	} {
		attempt := 3
		if c.early {
			attempt = 2
		}
		err := peer.Classify(c.topic, attempt, c.result, c.err)
		var u *peer.UndeliveredError
		needless := errors.As(err, &u) && u.Droppable()
		if needless != (c.why != "") || needless && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v, needless %t; want %q", name, err, needless, c.why)
		}
	}
}

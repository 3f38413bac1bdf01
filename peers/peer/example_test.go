package peer_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/peer"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
)

// A peer that repeats the messages of a chat, and a chat that receives the answer.
func Example() {
	b := bustest.StartForExample()
	defer b.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	p := peer.New("agent:echo", &peer.Options{Buses: []string{b.URL()}})
	p.Handle(protocol.TypeTGMessage, func(ctx context.Context, d *peer.Delivery) error {
		var m protocol.ChatMessage
		if err := d.Decode(&m); err != nil {
			return err
		}
		_, err := p.Send(ctx, d.Message.From.Topic(), p.NewMessage(protocol.TypeTGReply, protocol.ChatReply{Text: m.Text}))
		return err
	})
	p.Subscribe(ctx, "agent:echo")
	go p.Run(ctx)
	p.Ready(ctx)

	chat := peer.New("tg:42", &peer.Options{Buses: []string{b.URL()}})
	done := make(chan struct{})
	chat.Handle(protocol.TypeTGReply, func(_ context.Context, d *peer.Delivery) error {
		var r protocol.ChatReply
		if err := d.Decode(&r); err != nil {
			return err
		}
		fmt.Println(d.Message.From, "says", r.Text)
		close(done)
		return nil
	})
	chat.Subscribe(ctx, "tg:42")
	go chat.Run(ctx)
	result, err := chat.Send(ctx, "agent:echo", chat.NewMessage(protocol.TypeTGMessage, protocol.ChatMessage{Text: "hello"}))
	fmt.Println(result.DeliveredTo, err)
	<-done
	// Unordered output:
	// agent:echo says hello
	// 1 <nil>
}

// The main loop of a program: it runs until it is stopped, and reports the error if it ended
// early.
func ExamplePeer_Run() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := peer.New("agent:echo", &peer.Options{Token: os.Getenv("HUBBUB_TOKEN")})
	p.Subscribe(ctx, "agent:echo")
	switch err := p.Run(ctx); {
	case errors.Is(err, peer.ErrReplaced):
		fmt.Println("a newer agent:echo has taken over") // starting again would take it back
	case err != nil:
		fmt.Println("not allowed:", err) // the token, the identity or a subscription
	}
}

// What became of a message, and what each error means for sending it again.
func ExamplePeer_Send() {
	b := bustest.StartForExample()
	defer b.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	p := peer.New("agent:a", &peer.Options{Buses: []string{b.URL()}})
	go p.Run(ctx)

	m := p.NewMessage(protocol.TypeAgentEvent, map[string]string{"event": "status", "text": "half done"})
	result, err := p.Send(ctx, "agent:b", m)
	var large *peer.TooLargeError
	var refused *jsonrpc.Error
	switch {
	case errors.As(err, &large):
		fmt.Println("too large by", large.Size-large.Limit)
	case errors.As(err, &refused):
		fmt.Println("the bus will never take this:", refused.Message)
	case errors.Is(err, peer.ErrInterrupted):
		fmt.Println("perhaps delivered; send it again with its MessageID", m.MessageID)
	case err != nil:
		fmt.Println("not delivered:", err)
	case result.Addressee == protocol.AddresseeAbsent:
		fmt.Println("agent:b is not on the bus")
	default:
		for _, f := range result.Failures {
			fmt.Println(f.Peer, f.Status, f.Error)
		}
	}
	// Output: agent:b is not on the bus
}

// A question, and the message that answers it.
func ExamplePeer_Handle_requestAndAnswer() {
	b := bustest.StartForExample()
	defer b.Stop()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	type sum struct{ A, B, Sum int }
	adder := peer.New("agent:adder", &peer.Options{Buses: []string{b.URL()}})
	adder.Handle(protocol.TypeAgentEvent, func(ctx context.Context, d *peer.Delivery) error {
		var q sum
		if err := d.Decode(&q); err != nil {
			return peer.Reject("that is no sum")
		}
		answer := adder.NewMessage(protocol.TypeAgentEvent, sum{q.A, q.B, q.A + q.B})
		answer.InReplyTo = d.Message.MessageID
		_, err := adder.Send(ctx, d.Message.From.Topic(), answer)
		return err
	})
	adder.Subscribe(ctx, "agent:adder")
	go adder.Run(ctx)
	adder.Ready(ctx)

	asker := peer.New("agent:asker", &peer.Options{Buses: []string{b.URL()}})
	answers := make(chan *peer.Delivery, 1)
	asker.Handle(protocol.TypeAgentEvent, func(_ context.Context, d *peer.Delivery) error {
		answers <- d
		return nil
	})
	asker.Subscribe(ctx, "agent:asker")
	go asker.Run(ctx)

	question := asker.NewMessage(protocol.TypeAgentEvent, sum{A: 2, B: 3})
	if _, err := asker.Send(ctx, "agent:adder", question); err != nil {
		fmt.Println(err)
		return
	}
	var s sum
	d := <-answers
	fmt.Println(d.Message.InReplyTo == question.MessageID, d.Decode(&s), s.Sum)
	// Output: true <nil> 5
}

// A bus with a certificate that the system does not know.
func ExampleOptions_tls() {
	pem, err := os.ReadFile("/etc/hubbub/bus.pem")
	if err != nil {
		fmt.Println(err)
		return
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	_ = peer.New("agent:echo", &peer.Options{
		Buses: []string{"wss://bus.example.com:7892"},
		Token: os.Getenv("HUBBUB_TOKEN"),
		TLS:   &tls.Config{RootCAs: roots},
	})
}

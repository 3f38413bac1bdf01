// Package peer is the client that every peer is built on, ours and our users'.
//
//	p := peer.New("agent:echo", &peer.Options{Token: os.Getenv("HUBBUB_TOKEN")})
//	p.Subscribe(ctx, "agent:echo")
//	p.Handle(protocol.TypeTGMessage, func(ctx context.Context, d *peer.Delivery) error {
//		_, err := p.Send(ctx, d.Message.From.Topic(), p.NewMessage(protocol.TypeTGReply, protocol.ChatReply{Text: "hello"}))
//		return err
//	})
//	err := p.Run(ctx)
//
// Guarantees:
//
//   - Order: deliveries from one sender are handled one at a time, in the order
//     in which they arrived. Deliveries from different senders run
//     concurrently, at most Options.Concurrency at once.
//   - Bounds: at most Options.Queue deliveries wait. One more is answered with
//     an error at once, which the bus reports to its sender.
//   - Connection: Run connects, initializes, subscribes, and does so again with
//     backoff and jitter whenever the connection ends. It gives up only when a
//     newer session took the identity over (ErrReplaced), when the bus refuses
//     the credential (ErrUnauthorized) or the identity (ErrRefused), or when its
//     context ends.
//   - Blocking: Send waits for a connection, then for the bus's answer, at most
//     until its context ends. Sends from one goroutine reach the bus in order.
//     Send may be called inside a handler.
//   - Loss: when the connection ends before the answer, Send returns
//     ErrInterrupted: the message may or may not have been delivered. Send it
//     again with the same messageId if the receivers can tell.
//   - Stop: when its context ends, Run takes no new delivery, lets running
//     handlers finish and answer (at most Options.StopTimeout), closes the
//     connection and returns after every goroutine that it started has ended.
//
// It implements section 4 of the Agent Communication Protocol, client side.
package peer

// Package peer is the client that every peer is built on, ours and our users'.
//
//	p := peer.New("agent:echo", &peer.Options{Token: os.Getenv("HUBBUB_TOKEN")})
//	p.Subscribe(ctx, "agent:echo")
//	p.Handle(protocol.TypeChatMessage, func(ctx context.Context, d *peer.Delivery) error {
//		reply := protocol.ChatReply{Text: "hello", InReplyTo: string(d.Message.MessageID)}
//		_, err := p.Send(ctx, d.Message.From.Topic(), p.NewMessage(protocol.TypeChatReply, reply))
//		return err
//	})
//	err := p.Run(ctx)
//
// A peer has an identity such as agent:echo, whose first part is its role; what
// a role may send is the table of protocol.MaySend. Nobody hears a peer by its
// identity alone: it subscribes to that topic, as above.
//
// Guarantees:
//
//   - Order: deliveries from one sender are handled one at a time, in the order
//     in which they arrived. Deliveries from different senders run
//     concurrently, at most Options.Concurrency at once.
//   - Bounds: at most Options.Queue deliveries wait. One more is answered with
//     an error at once, which the bus reports to its sender. A message larger
//     than the bus takes is not sent: *TooLargeError.
//   - Connection: Run connects, initializes, subscribes, and does so again with
//     backoff and jitter whenever the connection ends. It gives up only when a
//     newer session took over the identity (ErrReplaced), when the bus refuses the
//     credential (ErrUnauthorized) or the identity (ErrRefused), or when its context
//     ends. After all other errors it tries again, and reports the error in
//     Options.Log and in the errors of Ready and Send (ErrNotConnected).
//   - Blocking: Send waits for a connection, then for the bus's answer, at most
//     until its context ends. The answer comes when every subscriber has
//     answered or failed, 30 s later at the latest, so give Send a longer time
//     or none. Sends from one goroutine reach the bus in order. A handler may call
//     Send, but must not wait for another message of the sender whose message it
//     handles: that message is handled after it returns.
//   - Loss: when the connection ends before the answer, Send returns
//     ErrInterrupted: the message may or may not have been delivered. Send it
//     again with the same MessageID if the receivers detect doubles. A bus keeps no
//     messages: what was sent while a peer was away is not delivered later.
//   - Outcomes: what Send returns says what to do (docs/sending.md). A
//     failure that is rejected is final. One that is overflow, rate, or offline or timeout
//     without Written was never sent to that peer: sending it again doubles nothing. With
//     Written, or error, the peer may have it, or a part: send it again with the same
//     MessageID, and only if it detects doubles. Whoever is absent, or all if DeliveredTo is 0
//     without failures, is to be waited for. With Partial, the failures name the peers that
//     were known at the buses that are Missing. An error of the bus is final, but for
//     protocol.CodeInternal: then send it again later. Judge and ClassifyAny say this of one
//     addressee or of anybody.
//   - Takeover: a peer takes its identity and its patterns in one step, so that nothing
//     is missed between the older session and this one. A peer that is replaced may finish
//     and answer what it handles, within 2 s.
//   - Doubles: the bus makes each delivery once. But a sender that does not know
//     whether a message arrived may send it again, with the same MessageID. What
//     SendOnce sends again is not delivered again.
//   - Stop: when its context ends, Run takes no new delivery, lets running
//     handlers finish and answer (at most Options.StopTimeout, 5 s), closes the
//     connection (at most 1 s) and returns after every goroutine that it started
//     has ended. Deliveries that still waited fail at their senders as offline.
//     RunWith stops in the same way, after the work beside it has returned, so that
//     the work still gets the answers to what it sends.
//
// A handler's nil answer means "safe with me", not "done": the sender waits for
// it, at most 30 s. Work that takes longer is stored, or handed to a goroutine,
// and reported by a message of its own, with InReplyTo.
//
// It implements section 4 of the Agent Communication Protocol, client side.
package peer

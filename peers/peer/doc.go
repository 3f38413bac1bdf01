// Package peer is the client that all peers are built on.
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
// A peer has an identity such as agent:echo, whose first part is its role. The table of
// protocol.MaySend says what a role may send. An identity alone receives nothing: a peer
// subscribes to its topic, as above.
//
// Guarantees:
//
//   - Order: deliveries from one sender are handled one at a time, in order of arrival. The
//     next one waits for the handler's return or its call of Delivery.Next. Deliveries from
//     different senders run concurrently. At most Options.Concurrency handlers run at once.
//   - Bounds: at most Options.Queue deliveries wait. A further delivery is answered with an
//     error, which the bus reports to its sender. A message that is too large for the bus is
//     not sent: *TooLargeError.
//   - Connection: Run connects, initializes and subscribes. Whenever the connection ends, it
//     does so again with backoff and jitter. It gives up only if a newer session takes over
//     the identity (ErrReplaced), if the bus refuses the credential (ErrUnauthorized) or the
//     identity (ErrRefused), or if its context ends. After all other errors it tries again,
//     and reports the error in Options.Log and in the errors of Ready and Send
//     (ErrNotConnected).
//   - Blocking: Send waits for a connection and for the bus's answer, until its context ends. The
//     answer comes when every subscriber has answered or failed, after at most 30 s, so use a
//     longer timeout for Send, or none. Sends from one goroutine reach the bus in order. A
//     handler may call Send, but must not wait for another message from the same sender: that
//     message is handled after the handler returns.
//   - Loss: if the connection ends before the answer, Send returns ErrInterrupted. The
//     message may or may not have been delivered. Send it again with the same MessageID if
//     the receivers detect duplicates. A bus stores no messages: a message that was sent
//     while a peer was away is not delivered later.
//   - Outcomes: the result of Send decides what to do (docs/sending.md). A rejection is
//     final. A failure that is overflow, rate, or offline or timeout without Written means
//     that the peer was not sent the message, so another attempt duplicates nothing. With
//     Written, or error, the peer may have received it: send it again with the same
//     MessageID, and only if the peer detects duplicates. If the addressee is absent, or if
//     DeliveredTo is 0 without failures, try again later. With Partial, the failures name the
//     known peers at the buses in Missing. An error of the bus is final, except
//     protocol.CodeInternal, after which the message can be sent again later. Classify and
//     ClassifyAny decide this for one addressee or for any receiver.
//   - Takeover: a new session takes its identity and its patterns in one step, so no message
//     is missed between the old session and the new one. The old session may finish and
//     answer what it handles, within 2 s.
//   - Duplicates: the bus makes each delivery once. A sender that does not know whether a
//     message arrived may send it again with the same MessageID. Repeats by SendOnce are not
//     delivered again.
//   - Stop: when its context ends, Run accepts no delivery, lets running handlers finish and
//     answer (at most Options.StopTimeout, 5 s), closes the connection (at most 1 s), and
//     returns after every goroutine that it started has ended. Waiting deliveries fail at
//     their senders as offline. RunWith stops in the same way after its work has returned, so
//     the work still gets the answers to what it sends.
//
// A handler's nil answer means that the message is safe with the peer, not that its work is done:
// the sender waits at most 30 s. Store longer work or hand it to a goroutine, and report its
// result in a message with InReplyTo.
//
// The package implements the client side of section 4 of the Agent Communication Protocol.
package peer

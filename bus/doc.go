// Package bus is the message router: it accepts peers, matches topics against
// their subscriptions, delivers messages, waits for the answers, and writes
// every step to the activity log.
//
// Guarantees:
//
//   - Order: messages from one publisher reach one subscriber in the order in
//     which they were sent. Nothing else is ordered.
//   - Once: a message is delivered at most once to each peer that is subscribed
//     when it is accepted, the sender included, however many patterns match.
//   - Answer: sendMessage is answered after every target answered, failed or
//     timed out. deliveredTo counts the peers that processed the message; with
//     no subscriber the answer comes at once. A connection that ends is noticed
//     at once.
//   - Blocking: no peer waits for another peer's socket or handler. A peer that
//     does not read or answer fills its own window and queue; beyond them its
//     deliveries fail at once (overflow), and a peer that reads nothing for the
//     write timeout is closed. The activity log, while it makes progress, holds
//     publishers to its speed; when it makes none, routing goes on.
//   - Loss: delivery is in memory. What was not answered when the bus dies is
//     lost, and its sender knows, because it has no answer.
//   - Memory: a session that waits holds nothing but itself and what waits for
//     its peer. Options.OnLull is where a program gives back to the system what
//     traffic, or many new connections, left behind.
//   - Input: no input ends the bus. Malformed messages are answered with an
//     error; only frames that break WebSocket end their own connection.
//   - Stop: when its context ends, Run takes no new message, from other buses
//     neither, waits for what is in flight (at most Options.StopTimeout; what other
//     buses have not answered by then fails as offline), closes the sessions and
//     returns after every goroutine that it started.
//
// The flow of one message: session.go reads it, authorize.go checks it,
// publish.go finds the targets (index.go) and hands it to each (delivery.go),
// whose session reads the answer; the last answer completes the publication.
// sweep.go ends what waits too long.
//
// It implements sections 2 to 5, 7, 9 and 11 to 13 of the Agent Communication
// Protocol (Extended v2).
package bus

// Package bus is the message router: it accepts peers, matches topics against
// their subscriptions, delivers messages, waits for the answers, and writes
// every step to the activity log.
//
// Guarantees:
//
//   - Order: messages from one publisher reach one subscriber in the order in
//     which they were sent. No other order is kept.
//   - Once: a message is delivered at most once to each peer that is subscribed
//     when it is accepted, the sender included, however many patterns match.
//   - Repeats: of a message that was sent with once, a repeat of (from, messageId) within
//     ten minutes gets the first outcome, at any bus of the cluster (see package cluster).
//     64 MiB are remembered, a quarter of one credential's at most; beyond that a message
//     with once is refused, and none is forgotten early.
//   - Takeover: a session takes an identity from an older one in one step, together with
//     the subscriptions of its initialize. What the older session was sent it may answer
//     for two more seconds; what it was not sent goes to the newer one, if that hears the
//     topic.
//   - Answer: sendMessage is answered after every target answered, failed or
//     timed out. deliveredTo counts the peers that processed the message. Without
//     subscribers the answer comes at once. A target whose connection ends fails at
//     once. A failure without an answer says whether the message had been written.
//   - Blocking: no peer waits for another peer's socket or handler. A peer that
//     does not read or answer fills its own window and queue. When they are full,
//     its deliveries fail at once (overflow); a peer that reads nothing for the
//     write timeout is closed. While the activity log makes progress, publishers
//     are held to its speed; when it makes none, routing goes on.
//   - Loss: deliveries are kept in memory only. What was not answered when the bus
//     dies is lost. Its sender can tell, because it got no answer.
//   - Memory: an idle session holds no buffers, only what waits for its peer. A
//     program can use Options.OnIdle to return to the system what traffic, or many
//     new connections, left behind.
//   - Input: no input ends the bus. Malformed messages are answered with an
//     error; only frames that break WebSocket end their own connection.
//   - Stop: when its context ends, Run accepts no new message, not from other buses
//     either. It waits for what is in flight, at most Options.StopTimeout; what other
//     buses have not answered by then fails as offline. Then it closes the sessions,
//     and returns after every goroutine that it started has ended.
//
// The flow of one message: session.go reads it, authorize.go checks it, publish.go
// finds the targets (index.go) and delivers it to each (delivery.go). The session of
// the target reads the answer, and the last answer completes the publication.
// publishonce.go and once.go do what once asks for.
// sweep.go ends what has waited too long.
//
// It implements sections 2 to 5, 7, 9 and 11 to 13 of the Agent Communication
// Protocol (Extended v2).
package bus

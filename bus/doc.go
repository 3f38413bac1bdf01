// Package bus is the message router. It accepts peers, matches topics against their
// subscriptions, delivers messages, waits for the answers, and records every step in the activity
// log.
//
// Guarantees:
//
//   - Order: messages from one publisher reach one subscriber in the order in which they
//     were sent. No other order is guaranteed.
//   - At most once: a message is delivered at most once to each peer that is subscribed when
//     the message is accepted, including the sender, however many patterns match.
//   - Repeats: a repeat of (from, messageId) of a message that was sent with once gets the
//     first outcome for ten minutes, at any bus of the cluster (see package cluster). The
//     table holds 64 MiB; one credential may use a quarter of it. A full table refuses new
//     messages with once and forgets none early.
//   - Takeover: a session takes an identity from an older session in one step, together with
//     the subscriptions of its initialize. The older session may answer the deliveries that it
//     has received for two more seconds. Other deliveries go to the newer session, if it is
//     subscribed to the topic.
//   - Answer: sendMessage is answered after every target has answered, failed or timed out,
//     and at once if there are no subscribers. deliveredTo counts the peers that processed
//     the message. A target whose connection ends fails at once. A failure without an answer
//     says whether the message had been written.
//   - Blocking: no peer waits for another peer's socket or handler. A peer that does not read
//     or answer fills its own window and queue; when they are full, deliveries to it fail at
//     once (overflow). A peer that reads nothing for the write timeout is disconnected.
//     Publishers are slowed to the speed of the activity log while it makes progress. If it
//     makes none, routing continues.
//   - Loss: deliveries are kept in memory only. If the bus dies, unanswered messages are lost,
//     and their senders get no answer.
//   - Memory: an idle session holds no buffers, only what waits for its peer. With
//     Options.OnIdle a program can return memory to the system after traffic or after many
//     new connections.
//   - Input: no input ends the bus. Malformed messages are answered with an error; only
//     frames that break WebSocket end their own connection.
//   - Stop: when its context ends, Run accepts no new messages, not even from other buses. It
//     waits for messages in flight, at most Options.StopTimeout. Deliveries that other buses
//     have not answered by then fail as offline. Then it closes the sessions. It returns after
//     all its goroutines have ended.
//
// A message takes this path: session.go reads it, authorize.go checks it, publish.go finds the
// targets (index.go) and delivers to each of them (delivery.go). The session of the target reads
// the answer, and the last answer finishes the publication. publishdedup.go and dedup.go
// implement once. sweep.go ends what has waited too long.
//
// The package implements sections 2 to 5, 7, 9 and 11 to 13 of the Agent Communication Protocol
// (Extended v2).
package bus

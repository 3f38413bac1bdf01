// Package cluster makes several buses one, over an existing NATS server.
//
// Each bus tells the others who is connected to it and which patterns they
// have, and forwards a message only to buses that have a matching subscriber.
//
// Guarantees:
//
//   - Knowledge: a subscription counts at its own bus when it is answered, and at
//     the others within a second. Nothing is stored in NATS: every change is one
//     small message with a number, and a bus that misses one asks for the whole
//     state, which comes in parts of bounded size. (JetStream KV would keep the same
//     facts a second time, routing would need JetStream, and its watchers would
//     still have to be told of a bus that died and left its keys behind.)
//   - Order: messages of one publisher reach one subscriber in the order in which
//     they were sent: each bus has one queue, one NATS connection and one reader.
//   - Once: a message crosses at most once to each bus, and is never repeated.
//   - Faults: a bus that is silent for Options.SilentAfter is forgotten, and what was
//     on its way to it fails as offline. A bus whose connection to NATS broke begins a
//     new epoch, and what was on its way to or from it fails as offline as well.
//     Nothing blocks while NATS is away: what exceeds Options.Queue messages or
//     256 MiB fails at once.
//   - Identity: of sessions that claim one clientId on different buses, the newest
//     stays; the others are closed with 4001.
//   - Without NATS, at the start or later, a bus serves its own peers.
//
// The Agent Communication Protocol knows one bus; this is Hubbub's extension of
// it to several.
package cluster

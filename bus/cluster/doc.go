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
//   - Once: see below.
//   - Faults: what was on its way to a bus that is silent for Options.SilentAfter fails as
//     offline. A bus whose connection to NATS broke begins a new epoch, and what was on its
//     way to or from it fails as offline as well. Nothing blocks while NATS is away: what
//     exceeds Options.Queue messages or 256 MiB fails at once.
//   - Part: whoever was subscribed at any bus Options.SilentAfter and two heartbeats before is
//     reached, named, or at a bus that the result calls missing: it then says that it speaks for
//     a part. Missing are buses that are silent, all while NATS is away, and those whose peers
//     are not known for certain, such as all to a bus that has just begun or stood still. The peers of a missing bus are kept, and those that
//     a message would have gone to are named as offline, until the bus is back, leaves, is
//     started anew, or is missing for Options.ForgetAfter.
//   - Repeats: see below.
//   - Identity: of sessions that claim one clientId on different buses, the newest
//     stays; the others are closed with 4001.
//   - Without NATS, at the start or later, a bus serves its own peers.
//
// # One identity, one delivery
//
// For each message, each identity, and whatever buses freeze, thaw, die, are cut off or
// hear of each other late:
//
//  1. At most one session gets the message. The bus that accepted it, the entry, decides
//     who gets it, in one look at its index. The index has one holder of each identity at
//     any time: a claim replaces the older holder in the same step (bus.Local.Claim, and
//     initialize at the bus that takes the identity), and an older claim changes nothing. A
//     forward names the identities that it is for, and a bus delivers to nobody else. So two
//     buses that both believe to hold an identity never both deliver: the entry named one.
//  2. A message goes on to another holder only if the one that was named has not been sent
//     it and never will: that bus said so (Result.Gone), or this bus never handed the forward
//     to NATS. It goes on only while it is the last of its sender, so that order holds;
//     otherwise its failure says that it was never written, and the sender may send it again.
//  3. A failure without "written" is true for ever. A forward that is given up before it is
//     handed to NATS is not sent any more (depart). One that was handed over is "written",
//     since nobody can know.
//  4. A bus writes nothing that was given up elsewhere. A forward carries the number of the
//     last sign of life that the entry had from this bus, and is refused when that is older
//     than Options.SilentAfter by this bus's own clocks (pulse.covers). The entry gives up for
//     silence no sooner than Options.SilentAfter after it got that sign, which is no sooner
//     than it was sent. So a frozen bus refuses what was waiting for it when it thaws. One gap
//     remains, and cannot be closed without the peer: a bus that freezes between this check
//     and the write. That failure says "written".
//  5. An answer in time counts. The session that was replaced may answer for two seconds what
//     it had been sent, and its bus passes the outcome on. An outcome that arrives after the
//     forward was given up changes nothing: the sender was told "written".
//  6. A session is taken over only by a newer one, and an initialize that was waiting for
//     longer than Options.InitializeTimeout of the bus takes nothing: a bus that thaws does
//     not steal an identity back with a request of long ago.
//
// # One messageId, one delivery
//
// A bus that gets a message with once asks all others that it can reach before it delivers
// it: one question and one answer each, during which the sender's next frames wait, so that
// order holds. It delivers the message if all let it; of two that ask at the same time, the
// one with the lower name does. Each bus that is asked notes who asked, and every bus is told
// the outcome. So, for ten minutes:
//
//  1. A repeat at any bus gets the first outcome, also if the bus that delivered is gone.
//  2. A repeat of what a bus took that is gone or out of reach, and whose outcome is not
//     known, is refused, and never delivered: it may have been.
//  3. A bus that is silent is waited for until it counts as missing, and a message is refused
//     by a bus that has just begun or lost NATS, or has not met all others. In a partition each
//     side delivers what it does not know of, and its result has "partial". So a message
//     whose sender moved to the other side is delivered there again, to the peers of that
//     side; when the buses meet again, each side keeps its own outcome.
//  4. A bus whose memory for messages with once is full does not note those of others: then
//     1 and 2 hold at that bus only while the bus that delivered can be asked. Its own it refuses.
//
// The Agent Communication Protocol knows one bus; this is Hubbub's extension of
// it to several.
package cluster

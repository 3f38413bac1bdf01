// Package cluster joins several buses into one, over an existing NATS server.
//
// Each bus tells the others which peers are connected to it and which patterns they have. It
// forwards a message only to buses that have a matching subscriber.
//
// Guarantees:
//
//   - Knowledge: a subscription is effective at its own bus when it is answered, and at the
//     others within a second. Nothing is stored in NATS. Every change is one small message
//     with a number. A bus that misses one requests the whole state, which comes in parts of
//     bounded size. (JetStream KV would store the same state again and make JetStream
//     necessary for routing. It would not notice a bus that died and left its keys behind.)
//   - Order: messages from one publisher reach one subscriber in the order in which they were
//     sent, because each bus has one queue, one NATS connection and one reader.
//   - Faults: messages in transit to a bus that is silent for Options.SilentAfter fail as
//     offline. A bus whose connection to NATS breaks begins a new epoch, and messages in
//     transit to or from it also fail as offline. Nothing blocks while NATS is away: messages
//     beyond Options.Queue or 256 MiB fail at once.
//   - Coverage: a result never silently omits a peer that was subscribed at any bus
//     Options.SilentAfter and two heartbeats ago. The peer is reached, or named, or the result
//     is partial and lists its bus as missing. A bus is missing if it is silent, or if its
//     peers are not known for certain. While NATS is away, and after a start or a suspension
//     of this bus, all other buses are missing. The peers of a missing bus are kept and named
//     as offline in results. That ends when the bus is back, leaves, is restarted, or is
//     missing for Options.ForgetAfter.
//   - Identity: if sessions on different buses have one clientId, the newest stays, and the
//     others are closed with 4001.
//   - Autonomy: without NATS, at the start or later, a bus serves its own peers.
//
// The following sections describe what happens at most once.
//
// # One identity, one delivery
//
// These statements hold for each message and each identity, even if buses freeze, resume, die,
// are cut off, or find each other late:
//
//  1. At most one session gets the message. The bus that accepted the message, the entry bus,
//     decides which one, in a single lookup in its index. The index has one session of each
//     identity at any time: a newer session replaces the older one in the same step
//     (bus.Local.RemoteJoined, or initialize at the bus that takes the identity), and an older
//     one changes nothing. A forward names its identities, and a bus delivers to no others. So
//     if two buses both believe that they have an identity, only the named one delivers.
//  2. A message goes on to another session only if the named one never received it and never
//     will: its bus says so (Result.Absent), or this bus never passed the forward to NATS. To
//     keep the order, it goes on only while it is the last message from its sender. Otherwise its
//     failure says that it was not written, and the sender may send it again.
//  3. A failure without "written" is final. A forward that is given up before it is passed to
//     NATS is never sent (markSent). A forward that was passed to NATS is "written", because
//     its fate is unknown.
//  4. A bus writes nothing that was given up elsewhere. A forward carries the number of the last
//     heartbeat that the entry bus has received from this bus. This bus refuses the forward if
//     it sent that heartbeat more than Options.SilentAfter ago by its own clocks
//     (heartbeats.withinLease). The entry bus received the heartbeat later, and gives up no
//     sooner than Options.SilentAfter after that. So a frozen bus refuses its old input when it
//     resumes. One gap remains, which only the peer could close: a bus may freeze between this
//     check and the write. That failure says "written".
//  5. An answer in time counts. A replaced session may answer its deliveries for two seconds,
//     and its bus passes the outcome on. An outcome for a forward that was given up changes
//     nothing: the sender's result was "written".
//  6. Only a newer session takes an identity. An initialize that has waited longer than the
//     bus's Options.InitializeTimeout takes none, so a bus that resumes does not take an
//     identity with an old request.
//
// # One messageId, one delivery
//
// Before a bus delivers a message with once, it asks all other reachable buses. It asks each of
// them one question and waits for one reply. Meanwhile, the sender's next frames wait, so that
// the order holds. The bus delivers the message if all others allow it. If two buses ask at the
// same time, the one with the lower name delivers. Each asked bus notes the asker, and every bus
// receives the outcome. So, for ten minutes:
//
//  1. A repeat at any bus gets the first outcome, even if the bus that delivered is gone.
//  2. A repeat is refused and never delivered if the outcome is unknown and the bus that took
//     the message is gone or out of reach: the message may have been delivered.
//  3. A bus waits for a silent bus until the silent bus counts as missing. A bus that has just
//     started or lost NATS, or has not met all buses that others hear from, refuses the message.
//     No bus waits for a bus that nobody hears from.
//  4. In a partition, each side delivers the messages that it does not know, with "partial" in
//     the result. If a sender moves to the other side, its repeat is therefore delivered there
//     again. When the buses meet again, each side keeps its own outcome.
//  5. A bus with a full table does not note the messages from others, and refuses its own
//     messages with once. Statements 1 and 2 then hold at that bus only while it can ask the bus
//     that delivered.
//
// The Agent Communication Protocol describes a single bus. This is Hubbub's extension.
package cluster

// Package c2a runs turns on any program that speaks C2A, the chat-to-agents protocol, over its
// stdin and stdout: JSON-RPC 2.0, one object per line.
//
// The program answers initialize. It receives one chat/deliver for each event or merged turn,
// answers {"accepted":true} once it has stored it, and acts later through tools/list and
// tools/call. It may receive notifications/cancelled and may send notifications/progress and
// notifications/message.
//
// Guarantees:
//
//   - Nothing is delivered before initialize is answered. Only modes, tools,
//     progress and cancellation that both sides support are used. If the
//     program's answer leaves out a group, all of the group counts as
//     supported. Within a group, only members that are true count.
//   - Each delivery has the standing rules and the collaboration contract as
//     instructions for the program's model.
//   - A delivery is sent again if it is not answered within Options.AnswerTimeout (10 s), or
//     after a restart of the program. It has the same eventId and idempotencyKey and a higher
//     attempt. A program without delivery.redelivery gets no event twice, even after a restart of
//     the agent: its turn fails. Deliveries due at the same time are sent in the order of
//     timing.sequence. An error counts as no answer. An answer to an earlier attempt counts.
//     Accepted deliveries are never sent again.
//   - At most Options.Window deliveries are unanswered at once; others wait.
//   - An event that is edited before its answer is delivered again with the
//     same eventId and another idempotencyKey, which tells programs that its
//     text is new.
//   - Tool calls run one after another, in the order of their arrival. After an
//     event is withdrawn, calls for it are refused until the program has
//     accepted the delivery with the newer text: they may refer to the old one.
//   - A program that ends is restarted after 1 s, doubled up to 60 s. So is a
//     program that does not answer initialize or does not read its input. It
//     never outlives Run.
//   - Lines that are too long or not JSON-RPC are dropped and logged, and the
//     next line is read. A malformed object, or one that names JSON-RPC, is also
//     answered with an error whose ID is null, as long as the program reads.
//     Errors quote nothing from the program except its last lines of stderr.
package c2a

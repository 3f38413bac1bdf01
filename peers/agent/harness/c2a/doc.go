// Package c2a runs turns on any program that speaks C2A, the chat-to-agents
// protocol, over its stdin and stdout: JSON-RPC 2.0, one object a line.
//
// The program answers initialize, gets one chat/deliver for each event or
// merged turn and answers {"accepted":true} once it has stored it, and acts in
// its own time through tools/list and tools/call. It may be told
// notifications/cancelled and may send notifications/progress and
// notifications/message.
//
// Guarantees:
//
//   - Nothing is delivered before initialize is answered, and only what both
//     sides can do is used: modes, tools, progress, cancellation. A group that the
//     program's answer leaves out counts as "everything"; within a group, whatever is
//     not true counts as missing.
//   - A delivery without an answer for Options.AnswerTimeout (10 s), or after a
//     restart of the program, is sent again with the same eventId and
//     idempotencyKey and a higher attempt. Deliveries that are due at the same time
//     are sent in the order of timing.sequence. An error counts as no answer; an
//     answer to an earlier attempt counts. Accepted deliveries are never sent again.
//   - At most Options.Window deliveries are unanswered at once; others wait.
//   - An event that was edited before its answer comes again with the same eventId, which
//     is its name everywhere, and with another idempotencyKey: by that, programs know what
//     they have from what is new.
//   - Tool calls run one after another in the order in which they came. A call for an
//     event that was withdrawn from the program counts again once the program has
//     accepted the delivery with the newer words: until then it is about the old ones,
//     and is refused.
//   - A program that ends is started again after 1 s, doubled up to 60 s. One
//     that does not answer initialize, or does not read its input, is ended and
//     started again in the same way. It never outlives Run.
//   - Lines that are too long or are not JSON-RPC are dropped and logged. A broken
//     object, and one that names JSON-RPC, is also answered with an error whose id is
//     null, as long as the program reads. The next line is read. Errors quote nothing
//     of what the program says but its last line of stderr.
package c2a

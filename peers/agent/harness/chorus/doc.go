// Package chorus runs turns on an agent elsewhere that speaks Chorus, the channel
// protocol over HTTP: a turn is POSTed to it, and what it says and does comes back
// to the callback of that POST.
//
// The package writes the words of the protocol and reads them. Whoever runs it
// POSTs (PostFunc), hears callbacks (Take) and serves the chat tools: it has the
// addresses and the secrets, adds the callback and the tools to what it POSTs, and
// repeats what failed.
//
// Guarantees:
//
//   - A turn is accepted once the agent elsewhere has answered the POST; then it
//     works in its own time. It cannot be told to stop: what it says of a turn that
//     was cancelled, or delivered anew with other words, is refused.
//   - What Take has returned nil for is stored and reaches the chat in the order of
//     the calls. All messages of one turn are parts of one answer. A repeated key
//     changes nothing.
//   - A knock carries no text that others wrote, names included.
package chorus

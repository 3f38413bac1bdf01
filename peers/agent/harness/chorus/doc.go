// Package chorus runs turns on a remote agent that speaks Chorus, the channel protocol over HTTP.
// A turn is POSTed to the agent; its messages and reports come back to the callback of that POST.
//
// The package converts turns to the protocol and back. Its caller does the POSTs (PostFunc),
// passes on callbacks (Handle) and serves the chat tools. The caller has the addresses and
// secrets, adds the callback and the tools to each POST, and retries.
//
// Guarantees:
//
//   - A turn is accepted once the remote agent has answered the POST; the agent
//     then works asynchronously. It cannot be asked to stop. What it says about a
//     turn that was canceled, or delivered again with another text, is refused.
//   - When Handle returns nil, the event is stored. Events reach the chat in the
//     order of the calls. All messages of one turn are parts of one answer. A
//     repeated key changes nothing.
//   - A knock contains no text that others wrote, not even names.
package chorus

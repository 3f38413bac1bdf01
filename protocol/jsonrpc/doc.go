// Package jsonrpc implements bidirectional JSON-RPC 2.0 over a Stream of text frames. It does not
// depend on the bus.
//
// Guarantees:
//
//   - A frame has one reading. Parse accepts exactly the texts that RFC 8259
//     allows, in valid UTF-8. Object refuses an object that repeats a key, or has a
//     key that a lenient reader could take for another one.
//   - Ids are echoed unchanged: same JSON type, same digits.
//   - A frame's text is scanned once. A Parser notes where the members of its outer
//     objects are, and Object reads these notes. Both return spans of the frame,
//     which are valid as long as the frame is, and usually do not allocate.
//   - Conn reads in the goroutine of Run and calls its Handler there, one
//     message at a time. A Handler that must wait starts its own goroutine.
//   - When a Conn ends, every waiting call fails with ErrClosed.
package jsonrpc

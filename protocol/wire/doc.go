// Package wire provides the streams that the protocol runs on (section 3):
// WebSockets, by Accept and Dial, and in-memory pairs, by Pipe, for tests.
//
// Guarantees:
//
//   - Every frame is one UTF-8 text message; a binary one ends the stream with
//     close code 1003, one above the limit with 1009.
//   - Write never waits for the other side. Frames are gathered and leave
//     together when Flush is called, when Read is about to wait, or when a
//     control frame must go out.
//   - What the network does not take at once is drained by one goroutine, which
//     exists only while there is something to drain. A side that takes nothing
//     for Options.WriteTimeout ends the stream as a slow consumer (1008).
//   - Bounds: a stream that has more than Options.MaxBuffered bytes to send
//     stops reading until they are drained, so a side that asks without
//     reading the answers slows down only itself.
//   - An idle stream holds no buffer for frames, and waits where its goroutine
//     needs little stack. (A stream over TLS keeps 4 KiB to read into.)
//   - Close waits for every goroutine of the stream.
package wire

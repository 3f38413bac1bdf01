// Package wire provides the streams for the protocol (section 3): WebSockets, by Accept and Dial,
// and in-memory pairs, by Pipe, for tests.
//
// Guarantees:
//
//   - Every frame is one UTF-8 text message. A binary message ends the stream with
//     close code 1003, and one above the limit with 1009.
//   - Write never waits for the other side. Frames are collected, and sent together
//     when Flush is called, when Read is about to wait, or when a control frame must
//     be sent.
//   - Bytes that the network does not accept at once are sent by one goroutine, which
//     exists only while there is something to send. If the other side reads nothing for
//     Options.WriteTimeout, the stream ends (1008, slow consumer).
//   - Bounds: a stream with more than Options.MaxBuffered bytes to send stops reading
//     until they are sent. So a side that sends requests without reading the answers
//     slows down only itself.
//   - An idle stream holds no buffer for frames, and its goroutine waits with a small
//     stack. (A stream over TLS keeps a read buffer of 4 KiB.)
//   - Close waits for every goroutine of the stream.
//   - Dial and NewHTTPClient connect to the bus directly: a proxy from the environment
//     (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY) never receives the bus's token.
//
// The WebSocket library is github.com/coder/websocket, which is nhooyr.io/websocket under its new
// owner and name.
package wire

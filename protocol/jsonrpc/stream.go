package jsonrpc

// A Stream carries whole text frames between two sides, such as a WebSocket
// or an in-memory pair.
//
// One goroutine reads. Any goroutine may write; frames never interleave.
type Stream interface {
	// Read returns the next frame. The bytes are valid until the next Read.
	// Before it waits for the other side, Read flushes what was written to
	// this stream. The error is final.
	Read() ([]byte, error)

	// Write takes one frame and copies it. It does not wait for the other
	// side: what cannot be sent now is kept and sent when Flush or a later
	// Read can. The error is final.
	Write(frame []byte) error

	// Flush starts sending what was written. It does not wait for the other
	// side: what the network does not take at once is drained in the
	// background, and a side that takes nothing for the write timeout ends
	// the stream.
	Flush()

	// Buffered returns the bytes written and not yet taken by the network.
	Buffered() int

	// Close ends the stream with a WebSocket close code and reason and
	// unblocks Read. It waits at most for the close frame to be written, never
	// for the other side. Only the first call has an effect.
	Close(code int, reason string)
}

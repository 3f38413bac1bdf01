package jsonrpc

import "fmt"

// A Stream carries whole text frames between two sides, such as a WebSocket
// or an in-memory pair.
//
// One goroutine reads. Any goroutine may write; frames never interleave.
type Stream interface {
	// Read returns the next frame. The bytes are valid until the next Read.
	// Each time before it waits for the other side, it calls what BeforeWait
	// set. The error is final.
	Read() ([]byte, error)

	// BeforeWait sets what Read calls before it waits; the default is Flush.
	// It is called before the first Read.
	BeforeWait(func())

	// Write takes one frame and copies it. It does not wait for the other
	// side: what was written is sent by Flush. The error is final.
	Write(frame []byte) error

	// Flush starts sending what was written. It does not wait for the other
	// side: what the network does not take at once is drained in the
	// background, and a side that takes nothing for the write timeout ends
	// the stream.
	Flush()

	// Buffered returns the bytes written and not yet taken by the network.
	Buffered() int

	// Close ends the stream with a WebSocket close code and reason and
	// unblocks Read. Only the first call has an effect. It returns when the
	// goroutines of the stream have ended; it waits at most 1 s for a side
	// that does not take the close frame.
	Close(code int, reason string)
}

// A Limited stream knows the largest frame that the other side reads; 0 says
// that it does not.
type Limited interface{ MaxWrite() int }

// A TooLargeError is the error of a call that was not sent, because the other
// side would end the connection rather than read it.
type TooLargeError struct {
	Size  int // of the frame, in bytes
	Limit int // the largest that the other side reads
}

// Error gives both.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the request makes a frame of %d bytes, and the other side reads at most %d", e.Size, e.Limit)
}

// Unwrap makes it a refusal like one that the other side would send.
func (e *TooLargeError) Unwrap() error { return Errorf(CodeInvalidParams, "too large") }

// checkSize says whether a frame would end the stream.
func checkSize(s Stream, frame []byte) error {
	if l, ok := s.(Limited); ok && l.MaxWrite() > 0 && len(frame) > l.MaxWrite() {
		return &TooLargeError{Size: len(frame), Limit: l.MaxWrite()}
	}
	return nil
}

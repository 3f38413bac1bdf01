package jsonrpc

import "fmt"

// A Stream carries text frames between two sides, such as a WebSocket or an in-memory pair.
//
// One goroutine reads. Any goroutine may write; frames never interleave.
type Stream interface {
	// Read returns the next frame, which is valid until the next Read. Before each wait for the
	// other side, it calls the function that BeforeWait set. An error is final.
	Read() ([]byte, error)

	// BeforeWait sets the function that Read calls before it waits; the default is
	// Flush. It must be called before the first Read.
	BeforeWait(func())

	// Write copies one frame, to be sent by Flush. It does not wait for the other
	// side. An error is final.
	Write(frame []byte) error

	// Flush starts sending written frames. It does not wait for the other side: bytes that the
	// network does not accept at once are sent in the background. If the network accepts nothing
	// for the write timeout, the stream ends.
	Flush()

	// Buffered returns the number of written bytes that the network has not accepted.
	Buffered() int

	// Close ends the stream with a WebSocket close code and reason, and unblocks
	// Read. Only the first call has an effect. It returns when the goroutines of the
	// stream have ended, and waits at most 1 s for the other side's close frame.
	Close(code int, reason string)
}

// A Limited stream may know the largest frame that the other side accepts. MaxWrite returns 0 if
// it is unknown.
type Limited interface{ MaxWrite() int }

// A TooLargeError is the error of a call that was not sent, because the other side would have
// ended the connection.
type TooLargeError struct {
	Size  int // of the frame, in bytes
	Limit int // the largest frame that the other side accepts
}

// Error returns the size and the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the request makes a frame of %d bytes, but the other side accepts at most %d", e.Size, e.Limit)
}

// Unwrap returns the refusal that the other side would have sent.
func (e *TooLargeError) Unwrap() error { return Errorf(CodeInvalidParams, "too large") }

// checkSize returns a *TooLargeError if a frame would end the stream.
func checkSize(s Stream, frame []byte) error {
	if l, ok := s.(Limited); ok && l.MaxWrite() > 0 && len(frame) > l.MaxWrite() {
		return &TooLargeError{Size: len(frame), Limit: l.MaxWrite()}
	}
	return nil
}

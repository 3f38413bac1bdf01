package bus

import "hubbub/protocol/jsonrpc"

// The usual answer to a delivery, as most JSON writers write it: what stands before
// and after the id.
const (
	usualHead = `{"jsonrpc":"2.0","id":`
	usualTail = `,"result":{"processed":true}}`
)

var usualResult = []byte(`{"processed":true}`)

// usualAnswer returns the id in the usual answer to a delivery, or false for any other
// frame. Half of the frames that a bus reads are usual answers, and need no parser.
func usualAnswer(frame []byte) (id uint64, ok bool) {
	digits := len(frame) - len(usualHead) - len(usualTail)
	if digits < 1 || string(frame[:len(usualHead)]) != usualHead || string(frame[len(usualHead)+digits:]) != usualTail {
		return 0, false
	}
	return jsonrpc.ParseCallID(jsonrpc.ID(frame[len(usualHead):][:digits]))
}

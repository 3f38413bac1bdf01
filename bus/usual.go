package bus

import "hubbub/protocol/jsonrpc"

// The usual answer, byte for byte as most JSON writers make it, around the id.
const (
	usualHead = `{"jsonrpc":"2.0","id":`
	usualTail = `,"result":{"processed":true}}`
)

var usualResult = []byte(`{"processed":true}`)

// usualAnswer takes the id of a delivery out of the usual answer to it. Half of
// the frames that a bus reads are such: they need no parser. All others do.
func usualAnswer(frame []byte) (id uint64, ok bool) {
	digits := len(frame) - len(usualHead) - len(usualTail)
	if digits < 1 || string(frame[:len(usualHead)]) != usualHead || string(frame[len(usualHead)+digits:]) != usualTail {
		return 0, false
	}
	return jsonrpc.ParseCallID(jsonrpc.ID(frame[len(usualHead):][:digits]))
}

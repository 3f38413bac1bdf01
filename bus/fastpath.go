package bus

import "hubbub/protocol/jsonrpc"

// The most common answer to a delivery, as most programs write it: the text before and after the
// id.
const (
	answerHead = `{"jsonrpc":"2.0","id":`
	answerTail = `,"result":{"processed":true}}`
)

var processedResult = []byte(`{"processed":true}`)

// processedAnswer returns the id in the most common answer to a delivery, or false for any
// other frame. Half of the frames that a bus reads are this answer, and need no parser.
func processedAnswer(frame []byte) (id uint64, ok bool) {
	digits := len(frame) - len(answerHead) - len(answerTail)
	if digits < 1 ||
		string(frame[:len(answerHead)]) != answerHead ||
		string(frame[len(answerHead)+digits:]) != answerTail {
		return 0, false
	}
	return jsonrpc.ParseCallID(jsonrpc.ID(frame[len(answerHead):][:digits]))
}

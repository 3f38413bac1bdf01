package c2a

import (
	"encoding/json"
	"errors"
	"fmt"

	"hubbub/protocol/jsonrpc"
)

// Error codes besides those of JSON-RPC.
const (
	codeNotInitialized = -32001
	codeBusy           = -32000
)

// A frame is one line from the program: a request, a notification or an answer. It
// is read more leniently than a frame of the bus: a program need not name the
// version of JSON-RPC, and of a repeated key the last value counts.
type frame struct {
	ID     json.RawMessage `json:"id"`
	Method *string         `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *jsonrpc.Error  `json:"error"`
}

// parseFrame reads a line. The error says why the line is not a JSON-RPC message.
func parseFrame(line []byte) (*frame, error) {
	var f frame
	if err := json.Unmarshal(line, &f); err != nil {
		return nil, fmt.Errorf("not a JSON-RPC object: %w", err)
	}
	if f.Method == nil && len(f.ID) == 0 {
		return nil, errors.New("neither a method nor an id")
	}
	return &f, nil
}

// hasID reports whether a frame has an id, as requests and answers do.
func (f *frame) hasID() bool { return len(f.ID) > 0 && string(f.ID) != "null" }

// marshal writes a value as JSON, which has no newline of its own.
func marshal(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic("a C2A frame cannot be marshalled: " + err.Error())
	}
	return raw
}

package jsonrpc

import (
	"encoding/json"
	"fmt"
)

// An Error is a JSON-RPC error object.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error renders the code and the message.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

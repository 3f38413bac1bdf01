package jsonrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// Error codes of JSON-RPC 2.0.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// An Error is a JSON-RPC error object.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

// Error returns the message and the code.
func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Errorf returns an Error with a formatted message.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// An ID is the JSON text of a request's id: a string or a number. Nil means that there is no id.
type ID []byte

// String returns the id without quotes, as the activity log writes it.
func (id ID) String() string {
	if IsString(id) {
		return Unquote(id)
	}
	return string(id)
}

// A Kind is the kind of a message.
type Kind int

// The kinds of message.
const (
	KindRequest Kind = iota + 1
	KindNotification
	KindResponse
)

// A Message is one parsed frame. Its fields are spans of the frame.
type Message struct {
	Kind   Kind
	ID     ID
	Method []byte // unquoted
	Params []byte // nil if absent
	Result []byte // of a response; nil if absent
	Error  []byte // of a response; nil if absent
}

var envelopeKeys = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// ErrNotUTF8 is Parse's error for a frame that is not text.
var ErrNotUTF8 = errors.New("the frame is not valid UTF-8")

// A Parser parses frames, in one goroutine. The zero value is ready to use.
type Parser struct {
	scanner scanner
	unknown keySet // keys of the object that Object is reading
}

// Parse is Parser.Parse for callers that do not use Object.
func Parse(frame []byte) (Message, error) { return new(Parser).Parse(frame) }

// Parse parses one frame. The error is ErrNotUTF8, or an *Error that must be sent as the answer
// to the frame. The message then has the id for the answer (nil for null). Its Kind is
// KindResponse for an unusable response, and 0 for a frame without a method, a result and an
// error.
func (p *Parser) Parse(frame []byte) (Message, error) {
	if !utf8.Valid(frame) {
		return Message{}, ErrNotUTF8
	}
	if err := p.scanner.scan(frame); err != nil {
		return Message{}, &Error{Code: CodeParse, Message: err.Error()}
	}
	value := frame[p.scanner.start:]
	switch value[0] {
	case '{':
	case '[':
		return Message{}, Errorf(CodeInvalidRequest, "batches are not supported; send one request per frame")
	default:
		return Message{}, Errorf(CodeInvalidRequest, "a request must be an object")
	}
	var fields [6][]byte
	keyErr := p.Object(value, envelopeKeys, fields[:])
	m := Message{ID: ID(fields[1]), Params: fields[3], Result: fields[4], Error: fields[5]}
	answers := fields[2] == nil && (m.Result != nil || m.Error != nil)
	switch {
	case answers:
		m.Kind = KindResponse
	case fields[2] != nil && m.ID != nil:
		m.Kind = KindRequest
	case fields[2] != nil:
		m.Kind = KindNotification
	}
	if err := checkID(&m); err != nil && !answers {
		return m, err
	}
	switch {
	case keyErr != nil:
		return m, Errorf(CodeInvalidParams, "%v", keyErr)
	case p.scanner.deepest > MaxDepth:
		return m, Errorf(CodeInvalidParams, "nested %d deep; at most %d is allowed", p.scanner.deepest, MaxDepth)
	case string(fields[0]) != `"2.0"`:
		return m, Errorf(CodeInvalidRequest, `"jsonrpc" must be "2.0"`)
	case answers:
		return m, checkResponse(&m)
	case !IsString(fields[2]):
		return m, Errorf(CodeInvalidRequest, `"method" must be a string`)
	}
	m.Method = UnquoteBytes(fields[2])
	return m, nil
}

// checkID removes an id that cannot be echoed, and returns an error for it.
func checkID(m *Message) error {
	if m.ID == nil || IsString(m.ID) || m.ID[0] == '-' || m.ID[0] >= '0' && m.ID[0] <= '9' {
		return nil
	}
	m.ID = nil
	return Errorf(CodeInvalidRequest, `"id" must be a string or a number`)
}

func checkResponse(m *Message) error {
	if m.Result != nil && m.Error != nil {
		return Errorf(CodeInvalidRequest, "an answer has a result or an error, not both")
	}
	return nil
}

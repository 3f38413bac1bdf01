package collab

import (
	"encoding/json"
	"errors"
	"fmt"

	"hubbub/protocol"
)

// ErrNoBroker says that no collaboration broker is on the bus.
var ErrNoBroker = errors.New("there is no collaboration broker on the bus")

// A Code says how a request failed.
type Code string

// The codes of a refused request.
const (
	CodeInvalid       Code = "invalid"        // the request or the record it makes is not valid
	CodeUnknownTarget Code = "unknown_target" // a label names nobody
	CodeAmbiguous     Code = "ambiguous"      // a label names more than one agent
	CodeUnavailable   Code = "unavailable"    // the one to wake has no live endpoint, or a manual one
	CodeConflict      Code = "conflict"       // the id, lease or claim is somebody else's
	CodeForbidden     Code = "forbidden"      // the caller may not do this
	CodeNotFound      Code = "not_found"      // no such record
	CodeBadTransition Code = "bad_transition" // the record cannot go from its state to that one
)

// An Error is the broker's refusal of a request. Details is marshalled to JSON; a
// client reads it as a json.RawMessage.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Details any    `json:"details,omitempty"`
}

func (e *Error) Error() string { return e.Message + " (" + string(e.Code) + ")" }

// Refusal returns the code with which the broker refused a request, or "" if err
// is no refusal.
func Refusal(err error) Code {
	var refused *Error
	if !errors.As(err, &refused) {
		return ""
	}
	return refused.Code
}

// ReadResult returns the result of a request, or the error with which the broker
// refused it.
func ReadResult(r *protocol.CollabResult) (json.RawMessage, error) {
	switch {
	case r.OK:
		return r.Result, nil
	case r.Error == nil:
		return nil, &Error{Code: CodeInvalid, Message: "the broker refused without a reason"}
	}
	e := &Error{Code: Code(r.Error.Code), Message: r.Error.Message}
	if r.Error.Details != nil {
		e.Details = r.Error.Details
	}
	return nil, e
}

// Refuse makes an Error.
func Refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

package broker

import (
	"errors"
	"fmt"
)

// A Code says how a request failed (design of the collab_result).
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

// An Error is a refusal that the requester gets. Details is marshalled to JSON.
type Error struct {
	Code    Code
	Message string
	Details any
}

func (e *Error) Error() string { return string(e.Code) + ": " + e.Message }

func refuse(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *Error { return refuse(CodeInvalid, format, args...) }

// notFound refuses a request for a record that does not exist.
func notFound(kind, id string) *Error { return refuse(CodeNotFound, "there is no %s %q", kind, id) }

// routingFailed reports whether err says that a message was stored although
// nobody could be woken for it.
func routingFailed(err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	return e.Code == CodeUnknownTarget || e.Code == CodeAmbiguous || e.Code == CodeUnavailable
}

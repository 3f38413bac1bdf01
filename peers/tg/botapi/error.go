package botapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// ErrTooLarge reports an answer that exceeds the limit.
var ErrTooLarge = errors.New("the answer is too large")

// An Error is the Bot API's refusal of a call, which had no effect.
type Error struct {
	Method      string
	Code        int           // error_code, an HTTP status
	Description string        // in Telegram's words
	RetryAfter  time.Duration // of a 429, else zero
	MigrateTo   int64         // the new ID of a group that has moved, else zero
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %d %s", e.Method, e.Code, e.Description)
}

// Says reports whether the description contains a text, ignoring case.
func (e *Error) Says(text string) bool {
	return strings.Contains(strings.ToLower(e.Description), strings.ToLower(text))
}

// A TransportError reports a call without an answer.
type TransportError struct {
	Method string
	Left   bool   // the request left this machine, so its outcome is unknown
	Reason string // without the token
	cause  error  // the context's error or ErrTooLarge, if that ended the call
}

func (e *TransportError) Error() string {
	if e.Left {
		return fmt.Sprintf("%s: no answer: %s", e.Method, e.Reason)
	}
	return fmt.Sprintf("%s: not sent: %s", e.Method, e.Reason)
}

// Unwrap returns the context's error or ErrTooLarge, if that ended the call.
func (e *TransportError) Unwrap() error { return e.cause }

// transportError keeps the reason of an error and drops the URL, which contains the token.
func (c *Client) transportError(method string, left bool, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	e := &TransportError{Method: method, Left: left, Reason: c.Redact(err.Error())}
	for _, end := range []error{context.Canceled, context.DeadlineExceeded, ErrTooLarge} {
		if errors.Is(err, end) {
			e.cause = end
		}
	}
	return e
}

// Code returns the error_code of a refusal, or 0 for any other error.
func Code(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return 0
}

// Unauthorized reports whether Telegram does not know the token. To a malformed token it answers
// 404.
func Unauthorized(err error) bool {
	code := Code(err)
	return code == http.StatusUnauthorized || code == http.StatusNotFound && strings.HasPrefix(err.Error(), "getMe:")
}

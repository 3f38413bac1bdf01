package peer

import (
	"errors"
	"fmt"

	"hubbub/protocol/jsonrpc"
)

// Errors that end Run.
var (
	// ErrReplaced: a newer session took over this identity.
	ErrReplaced = errors.New("another session took over this identity; two programs must not share one")
	// ErrUnauthorized: the bus knows no such token.
	ErrUnauthorized = errors.New("the bus refused the token; check --token-file or HUBBUB_TOKEN")
	// ErrRefused: the credential does not grant the identity or a pattern, or one
	// of them is not well-formed.
	ErrRefused = errors.New("the bus refused the identity or a subscription")
)

// Errors of Send, beside a *jsonrpc.Error (the bus refused the message, and
// would refuse it again), a *TooLargeError and the end of the caller's context.
var (
	// ErrNotConnected: there was no connection before the context ended. Nothing
	// was sent. The error holds the context's, and why the last try to connect failed.
	ErrNotConnected = errors.New("no connection to the bus")
	// ErrInterrupted: the connection ended before the answer came. The message may
	// have been delivered.
	ErrInterrupted = errors.New("the connection ended before the bus answered; the message may have been delivered")
	// ErrStopped: Run has ended. Nothing was sent. The error holds that of Run.
	ErrStopped = errors.New("the peer has stopped")
)

// A TooLargeError says that a message is larger than the bus takes, which it
// told when the connection was made. Nothing was sent, and the connection goes
// on. Like any message that will be refused again, it holds a *jsonrpc.Error.
type TooLargeError = jsonrpc.TooLargeError

// errExited is a handler that never returned, as its goroutine has ended.
var errExited = errors.New("the handler ended its goroutine (runtime.Goexit, or Fatal of a test)")

// Reject makes the error with which a handler refuses a delivery.
func Reject(reason string) error { return rejection(reason) }

type rejection string

// Error is the reason.
func (r rejection) Error() string { return string(r) }

// explainCall says what to do about a failed request.
func explainCall(err error) error {
	var large *TooLargeError
	switch {
	case errors.Is(err, jsonrpc.ErrClosed):
		return ErrInterrupted
	case errors.As(err, &large):
		return fmt.Errorf("%w: send less, or in parts, or an address of it; the limit is --max-frame of the bus", err)
	}
	return err
}

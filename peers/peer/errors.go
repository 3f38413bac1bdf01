package peer

import (
	"errors"
	"fmt"

	"hubbub/protocol/jsonrpc"
)

// Errors that end Run.
var (
	// ErrReplaced means that a newer session took over this identity.
	ErrReplaced = errors.New("another session took over this identity; two programs must not share one")
	// ErrUnauthorized: the bus knows no such token.
	ErrUnauthorized = errors.New("the bus refused the token; check --token-file or HUBBUB_TOKEN")
	// ErrRefused means that the credential does not grant the identity or a pattern,
	// or that one of these is malformed.
	ErrRefused = errors.New("the bus refused the identity or a subscription")
)

// Errors of Send. Further errors are a *jsonrpc.Error (the bus refused the message and would
// refuse it again), a *TooLargeError, and the end of the caller's context.
var (
	// ErrNotConnected means that the context ended before there was a connection. Nothing was
	// sent. The error wraps that of the context and that of the last connection attempt.
	ErrNotConnected = errors.New("no connection to the bus")
	// ErrInterrupted means that the connection ended before the answer came. The
	// message may have been delivered.
	ErrInterrupted = errors.New("the connection ended before the bus answered; the message may have been delivered")
	// ErrStopped: Run has ended. Nothing was sent. The error wraps the error of Run.
	ErrStopped = errors.New("the peer has stopped")
)

// A TooLargeError means that a message exceeds the size that the bus announced when the
// connection was made. Nothing was sent, and the connection stays open. It wraps a
// *jsonrpc.Error, like every error of a message that would be refused again.
type TooLargeError = jsonrpc.TooLargeError

// errExited is the error of a handler that ended its goroutine instead of returning.
var errExited = errors.New("the handler ended its goroutine (runtime.Goexit, or Fatal of a test)")

// Reject returns the error with which a handler refuses a delivery.
func Reject(reason string) error { return rejection(reason) }

type rejection string

// Error returns the reason.
func (r rejection) Error() string { return string(r) }

// explainCall adds advice to the error of a request.
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

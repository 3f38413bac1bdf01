package busclient

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"

	"hubbub/cmd/internal/program"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// A Session is the connection of one command to a bus.
type Session struct {
	Bus    string // address of the bus that answered
	Server protocol.InitializeResult
	conn   *jsonrpc.Conn
	stream *wire.WebSocket
	wg     sync.WaitGroup
	Ended  chan struct{} // closed when the connection ends
}

// Open connects to the first bus that answers, as id. The caller must call Close.
func Open(ctx context.Context, env *program.Env, id protocol.PeerID) (*Session, error) {
	return OpenWithHandler(ctx, env, id, Acknowledge)
}

// OpenWithHandler is Open for a command that handles the messages it receives.
func OpenWithHandler(
	ctx context.Context, env *program.Env, id protocol.PeerID, handle func(*jsonrpc.Conn, jsonrpc.Message),
) (*Session, error) {
	token, err := env.Token()
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, bus := range env.Buses {
		stream, err := wire.Dial(ctx, bus, &wire.DialOptions{Token: token})
		if err != nil {
			failures = append(failures, explainDial(bus, token, err))
			continue
		}
		s := &Session{Bus: bus, stream: stream, Ended: make(chan struct{})}
		s.conn = jsonrpc.NewConn(stream, handle)
		s.wg.Go(func() {
			defer close(s.Ended)
			_ = s.conn.Run() // callers get ErrClosed when it ends
		})
		params := protocol.InitializeParams{
			ClientID: id, ClientInfo: &protocol.Info{Name: env.Name, Version: env.Version},
		}
		if err := s.Call(ctx, protocol.MethodInitialize, params, &s.Server); err != nil {
			s.Close()
			err = fmt.Errorf("joining %s as %s: %w", bus, id, err)
			if variable, _ := env.Secret("HUBBUB_TOKEN"); token != "" && variable == token {
				err = &Error{
					err.Error(), "the token comes from HUBBUB_TOKEN; if it belongs to a peer, unset the variable here",
					err,
				}
			}
			return nil, err
		}
		return s, nil
	}
	return nil, errors.Join(failures...)
}

// CheckReachable checks that a bus answers at an address, for commands that make their own
// connections.
func CheckReachable(ctx context.Context, bus, token string) error {
	stream, err := wire.Dial(ctx, bus, &wire.DialOptions{Token: token})
	if err != nil {
		return explainDial(bus, token, err)
	}
	stream.Close(wire.CloseNormal, "done")
	return nil
}

// Acknowledge acknowledges a message without looking at it.
func Acknowledge(c *jsonrpc.Conn, m jsonrpc.Message) { c.Reply(m.ID, []byte(`{"processed":true}`)) }

// An Error says why a bus cannot be used and what to do about it.
type Error struct {
	Reason, Advice string
	cause          error
}

// Error returns the reason and the advice.
func (e *Error) Error() string { return e.Reason + ": " + e.Advice }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// explainDial adds advice to the error of dialing a bus.
func explainDial(bus, token string, err error) error {
	status, answered := errors.AsType[*wire.StatusError](err)
	unauthorized := answered && status.Code == http.StatusUnauthorized
	unverified, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case unauthorized && token == "":
		return &Error{
			"the bus at " + bus + " requires a token",
			"give --token-file or HUBBUB_TOKEN, or --data with the folder of the system that runs it",
			err,
		}
	case unauthorized:
		return &Error{"the bus at " + bus + " does not know this token", "check --token-file or HUBBUB_TOKEN", err}
	case answered && status.By == wire.Stranger:
		return fmt.Errorf("the server at %s is not a bus (%w): give the address of a bus with --bus", bus, err)
	case answered:
		return err
	case untrusted:
		return &Error{fmt.Sprintf("the certificate of %s is not trusted (%s)", bus, unverified.Err),
			trustAdvice(runtime.GOOS) + ", or use a name that the certificate covers",
			err}
	case errors.Is(err, http.ErrSchemeMismatch):
		return &Error{
			"the bus at " + bus + " does not use TLS",
			"use an address that begins with ws:, or start the bus with --tls-cert",
			err,
		}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op // the errors that wrap it repeat the address
	}
	return &Error{
		fmt.Sprintf("no bus answers at %s (%s)", bus, err),
		"start one with `hubbub up` or hubbub-bus, or give its address with --bus",
		err,
	}
}

// trustAdvice says how to trust the authority of a certificate. On macOS, Go asks the system, and
// ignores the variable.
func trustAdvice(goos string) string {
	if goos == "darwin" {
		return "add its authority to the System keychain and trust it there"
	}
	return "name the file of its authority in the variable SSL_CERT_FILE"
}

// Call sends a request and decodes its result.
func (s *Session) Call(ctx context.Context, method string, params, result any) error {
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false) // send contents unchanged
	if err := enc.Encode(params); err != nil {
		return fmt.Errorf("encoding the params of %s: %w", method, err)
	}
	answer, err := s.conn.Call(ctx, method, raw.Bytes())
	if large, ok := errors.AsType[*jsonrpc.TooLargeError](err); ok {
		return fmt.Errorf(
			"the bus accepts frames of at most %d bytes (--max-frame), but this one has %d: send less, or send it in "+
				"parts",
			large.Limit,
			large.Size,
		)
	}
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("the answer to %s cannot be decoded: %w", method, err)
	}
	return nil
}

// Close closes the connection and waits for its goroutine.
func (s *Session) Close() {
	s.stream.Close(wire.CloseNormal, "done")
	s.wg.Wait()
}

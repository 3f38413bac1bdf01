package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"hubbub/cmd/internal/program"
	"hubbub/protocol"
	"hubbub/protocol/jsonrpc"
	"hubbub/protocol/wire"
)

// newID makes a unique identity for one run of a command.
func newID(name string) protocol.PeerID {
	return protocol.PeerID("cli:" + name + "-" + strings.ToLower(rand.Text()[:10]))
}

// A session is the connection of one command to a bus. It does not reconnect: a command
// that cannot reach the bus says so and ends.
type session struct {
	bus    string // address that answered
	server protocol.InitializeResult
	conn   *jsonrpc.Conn
	stream *wire.WebSocket
	wg     sync.WaitGroup
	ended  chan struct{} // closed when the connection has ended
}

// open connects to the first bus that answers, as id. The caller must call close.
func open(ctx context.Context, env *program.Env, id protocol.PeerID) (*session, error) {
	return openWith(ctx, env, id, answerAnything)
}

// openWith is open for a command that handles what is sent to it.
func openWith(ctx context.Context, env *program.Env, id protocol.PeerID, take func(*jsonrpc.Conn, jsonrpc.Message)) (*session, error) {
	token, err := env.Token()
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, bus := range env.Buses {
		stream, err := wire.Dial(ctx, bus, &wire.DialOptions{Token: token})
		if err != nil {
			failures = append(failures, describeDial(bus, token, err))
			continue
		}
		s := &session{bus: bus, stream: stream, ended: make(chan struct{})}
		s.conn = jsonrpc.NewConn(stream, take)
		s.wg.Go(func() {
			defer close(s.ended)
			_ = s.conn.Run() // its end is the callers' ErrClosed
		})
		params := protocol.InitializeParams{
			ClientID: id, ClientInfo: &protocol.Info{Name: env.Name, Version: env.Version},
		}
		if err := s.call(ctx, protocol.MethodInitialize, params, &s.server); err != nil {
			s.close()
			err = fmt.Errorf("joining %s as %s: %w", bus, id, err)
			if variable, _ := env.Secret("HUBBUB_TOKEN"); token != "" && variable == token {
				err = &busError{err.Error(), "the token is that of HUBBUB_TOKEN; if that is a peer's, unset it here", err}
			}
			return nil, err
		}
		return s, nil
	}
	return nil, errors.Join(failures...)
}

// reach checks that a bus answers at an address, for commands that make their own
// connections.
func reach(ctx context.Context, bus, token string) error {
	stream, err := wire.Dial(ctx, bus, &wire.DialOptions{Token: token})
	if err != nil {
		return describeDial(bus, token, err)
	}
	stream.Close(wire.CloseNormal, "done")
	return nil
}

// answerAnything acknowledges whatever is sent to a peer that expects nothing.
func answerAnything(c *jsonrpc.Conn, m jsonrpc.Message) { c.Reply(m.ID, []byte(`{"processed":true}`)) }

// A busError says why a bus cannot be used, and what to do about it.
type busError struct {
	says, advice string
	cause        error
}

func (e *busError) Error() string { return e.says + ": " + e.advice }
func (e *busError) Unwrap() error { return e.cause }

// describeDial adds to an error of dialing a bus what to do about it.
func describeDial(bus, token string, err error) error {
	status, answered := errors.AsType[*wire.StatusError](err)
	unauthorized := answered && status.Code == http.StatusUnauthorized
	unverified, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	switch {
	case unauthorized && token == "":
		return &busError{"the bus at " + bus + " wants a token", "give --token-file or HUBBUB_TOKEN, or --data of the system that runs it", err}
	case unauthorized:
		return &busError{"the bus at " + bus + " does not know this token", "check --token-file or HUBBUB_TOKEN", err}
	case answered:
		return fmt.Errorf("there is something else than a bus at %s: %w", bus, err)
	case untrusted:
		return &busError{fmt.Sprintf("the certificate of %s is not trusted (%s)", bus, unverified.Err),
			"give the file of its authority in the variable SSL_CERT_FILE, or use a name that it is for", err}
	case errors.Is(err, http.ErrSchemeMismatch):
		return &busError{"the bus at " + bus + " has no TLS", "its address begins with ws:, or give it --tls-cert", err}
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op // the errors around it repeat the address
	}
	return &busError{fmt.Sprintf("no bus answers at %s (%s)", bus, err), "start one with `hubbub up` or hubbub-bus, or name it with --bus", err}
}

// call sends a request and decodes its result.
func (s *session) call(ctx context.Context, method string, params, result any) error {
	var raw bytes.Buffer
	enc := json.NewEncoder(&raw)
	enc.SetEscapeHTML(false) // contents go out as they were given
	if err := enc.Encode(params); err != nil {
		return fmt.Errorf("writing the params of %s: %w", method, err)
	}
	answer, err := s.conn.Call(ctx, method, raw.Bytes())
	if large, ok := errors.AsType[*jsonrpc.TooLargeError](err); ok {
		return fmt.Errorf("the bus takes frames of at most %d bytes (--max-frame), and this makes one of %d: send less, or in parts", large.Limit, large.Size)
	}
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("the answer to %s is not what was expected: %w", method, err)
	}
	return nil
}

// close ends the session and waits for its goroutine.
func (s *session) close() {
	s.stream.Close(wire.CloseNormal, "done")
	s.wg.Wait()
}

package busclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"hubbub/bus/report"
	"hubbub/cmd/internal/program"
	"hubbub/peers/peer"
	"hubbub/protocol/wire"
)

// Peers returns the peers connected to the first bus that answers.
func Peers(ctx context.Context, env *program.Env) ([]report.Peer, error) {
	raw, _, err := Fetch(ctx, env, http.MethodGet, "/peers", ExplainGet)
	if err != nil {
		return nil, err
	}
	return DecodePeers(raw)
}

// DecodePeers decodes the answer of a bus to GET /peers.
func DecodePeers(raw []byte) (list []report.Peer, err error) {
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("the bus's list of peers cannot be read: %w", err)
	}
	return list, nil
}

// Fetch requests a path from the first bus that answers. It returns the response and the address
// of the bus. describe adds advice to the error of a bus that fails.
func Fetch(
	ctx context.Context, env *program.Env, method, path string, describe func(bus, token string, err error) error,
) (raw []byte, bus string, err error) {
	token, err := env.Token()
	if err != nil {
		return nil, "", err
	}
	var failures []error
	for _, bus := range env.Buses {
		body, err := fetchFrom(ctx, bus, token, method, path)
		if err == nil {
			return body, bus, nil
		}
		failures = append(failures, describe(bus, token, err))
	}
	return nil, "", errors.Join(failures...)
}

// fetchFrom requests a path from one bus. The response is JSON.
func fetchFrom(ctx context.Context, bus, token, method, path string) ([]byte, error) {
	call := peer.HTTPCall{Bus: bus, Method: method, Path: path, Authorization: peer.Bearer(token), Limit: maxPage}
	if address, err := peer.HTTPAddress(bus); err == nil {
		call.Query = url.Values{"address": {address.String()}} // for links that a browser can open
	}
	status, body, err := call.Do(ctx)
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK || !json.Valid(body):
		return nil, refusal(ctx, bus, token, status, body)
	}
	return body, nil
}

// refusal returns the error for an answer without a result. The bus gives a reason, except for
// paths that it does not know. An answer without a reason may be from a proxy or from another
// server: the answer to an upgrade at the same address shows it, if it comes within ten seconds.
func refusal(ctx context.Context, bus, token string, status int, body []byte) error {
	var answer struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Error != "" {
		return &wire.StatusError{Code: status, URL: bus, By: wire.BusItself, Reason: answer.Error}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no answer to the upgrade within 10s"))
	defer cancel()
	stream, err := wire.Dial(ctx, bus, &wire.DialOptions{Token: token})
	if err != nil {
		return err
	}
	stream.Close(wire.CloseNormal, "done")
	return statusError(status)
}

// maxPage bounds a response of the bus, in bytes.
const maxPage = 64 << 20

// A statusError is the HTTP status of an answer without a reason, at an address where a bus answers.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("HTTP %d %s", int(e), http.StatusText(int(e)))
}

// ExplainGet adds advice to the error of a request for /peers.
func ExplainGet(bus, token string, err error) error {
	if _, ok := errors.AsType[statusError](err); ok {
		return fmt.Errorf("a bus answers WebSocket connections at %s, but not HTTP requests (%w): a proxy must pass "+
			"all paths below this address", bus, err)
	}
	return explainDial(bus, token, err)
}

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
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no answer within 10s"))
	defer cancel()
	token, err := env.Token()
	if err != nil {
		return nil, "", err
	}
	var failures []error
	for _, bus := range env.Buses {
		call := peer.HTTPCall{Bus: bus, Method: method, Path: path, Authorization: peer.Bearer(token), Limit: maxPage}
		if address, err := peer.HTTPAddress(bus); err == nil {
			call.Query = url.Values{"address": {address.String()}} // for links that a browser can open
		}
		status, body, err := call.Do(ctx)
		if err == nil && status == http.StatusOK {
			return body, bus, nil
		}
		if err == nil {
			err = statusError(status)
		}
		failures = append(failures, describe(bus, token, err))
	}
	return nil, "", errors.Join(failures...)
}

// maxPage bounds a response of the bus, in bytes.
const maxPage = 64 << 20

type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("HTTP %d %s", int(e), http.StatusText(int(e)))
}

// ExplainGet adds advice to the error of a request for /peers.
func ExplainGet(bus, token string, err error) error {
	switch status, ok := errors.AsType[statusError](err); {
	case status == http.StatusUnauthorized:
		err = &wire.StatusError{Code: int(status)}
	case ok:
		return fmt.Errorf("the bus at %s cannot list its peers: %w", bus, err)
	}
	return explainDial(bus, token, err)
}

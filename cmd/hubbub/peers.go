package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/bus/report"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/peers/peer"
	"hubbub/protocol/wire"

	"github.com/spf13/cobra"
)

func newPeers() *cobra.Command {
	return &cobra.Command{
		Use:   "peers",
		Short: "List who is connected to the bus, and to what they listen",
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, _, err := fetch(cmd.Context(), program.From(cmd), http.MethodGet, "/peers", describeGet)
			if err != nil {
				return err
			}
			if asJSON(cmd) { // as the bus wrote them
				var list []json.RawMessage
				if err := json.Unmarshal(raw, &list); err != nil {
					return fmt.Errorf("the bus's answer is not a list: %w", err)
				}
				return printAll(cmd, list, "", nil)
			}
			list, err := readPeers(raw)
			if err != nil {
				return err
			}
			head := []any{"PEER", "SINCE", "FROM", "UNANSWERED", "QUEUED", "LISTENS TO"}
			return printTable(cmd, list, "nobody is connected", head, peerRow)
		},
	}
}

// fetchPeers returns who is connected to the first bus that answers.
func fetchPeers(ctx context.Context, env *program.Env) ([]report.Peer, error) {
	raw, _, err := fetch(ctx, env, http.MethodGet, "/peers", describeGet)
	if err != nil {
		return nil, err
	}
	return readPeers(raw)
}

func readPeers(raw []byte) (list []report.Peer, err error) {
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("the bus's list of peers is not what was expected: %w", err)
	}
	return list, nil
}

// fetch asks the first bus that answers for a path, and returns its answer and its
// address. describe says what to do about a bus that fails.
func fetch(ctx context.Context, env *program.Env, method, path string, describe func(bus, token string, err error) error) (raw []byte, bus string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("no answer within 10s"))
	defer cancel()
	token, err := env.Token()
	if err != nil {
		return nil, "", err
	}
	var failures []error
	for _, bus := range env.Buses {
		call := peer.HTTPCall{Bus: bus, Method: method, Path: path, Authorization: peer.Bearer(token), Limit: maxPage}
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

// maxPage is the most that a bus's answer may hold, in bytes.
const maxPage = 64 << 20

type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("HTTP %d %s", int(e), http.StatusText(int(e)))
}

func describeGet(bus, token string, err error) error {
	switch status, ok := errors.AsType[statusError](err); {
	case status == http.StatusUnauthorized:
		err = &wire.StatusError{Code: int(status)}
	case ok:
		return fmt.Errorf("the bus at %s cannot list its peers: %w", bus, err)
	}
	return describeDial(bus, token, err)
}

func peerRow(p report.Peer) []any {
	since := p.ConnectedAt
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		since = ago(time.Since(at))
	}
	var patterns []string
	for _, s := range p.Subscriptions {
		pattern := s.Pattern
		if s.Observe {
			pattern += " (observes)"
		}
		patterns = append(patterns, pattern)
	}
	return []any{term.Printable(p.ID), since, p.Remote, p.Unanswered, p.Queued, term.Printable(strings.Join(patterns, ", "))}
}

// ago writes how long ago something was.
func ago(d time.Duration) string { return view.Ago(d, "") }

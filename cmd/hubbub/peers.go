package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/bus/report"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/screen"
	"hubbub/peers/peer"
	"hubbub/protocol/wire"

	"github.com/spf13/cobra"
)

func newPeers() *cobra.Command {
	return &cobra.Command{
		Use:   "peers",
		Short: "List who is connected to the bus, and to what they listen",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), 10*time.Second, errors.New("no answer within 10s"))
			defer cancel()
			raw, _, err := fetch(ctx, program.From(cmd), http.MethodGet, "/peers", describeGet)
			if err != nil {
				return err
			}
			if asJSON(cmd) {
				return printEach(cmd.OutOrStdout(), raw)
			}
			var list []report.Peer
			if err := json.Unmarshal(raw, &list); err != nil {
				return fmt.Errorf("the bus's list of peers is not what was expected: %w", err)
			}
			return printAll(cmd, list, "nobody is connected", printPeers)
		},
	}
}

// fetch asks the first bus that answers for a path, and returns its answer and its
// address. describe says what to do about a bus that fails.
func fetch(ctx context.Context, env *program.Env, method, path string, describe func(bus, token string, err error) error) (raw []byte, bus string, err error) {
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
	var status statusError
	switch {
	case errors.As(err, &status) && status == http.StatusUnauthorized:
		return describeDial(bus, token, &wire.StatusError{Code: int(status)})
	case errors.As(err, &status):
		return fmt.Errorf("the bus at %s cannot list its peers: %w", bus, err)
	default:
		return describeDial(bus, token, err)
	}
}

// printEach prints the members of a JSON array as they are, one a line.
func printEach(w io.Writer, raw []byte) error {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("the bus's answer is not a list: %w", err)
	}
	return printJSON(w, list)
}

func printPeers(w io.Writer, list []report.Peer) error {
	return printTable(w, []any{"PEER", "SINCE", "FROM", "UNANSWERED", "QUEUED", "LISTENS TO"}, list, func(p report.Peer) []any {
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
		return []any{screen.Printable(p.ID), since, p.Remote, p.Unanswered, p.Queued, screen.Printable(strings.Join(patterns, ", "))}
	})
}

// ago writes how long ago something was.
func ago(d time.Duration) string { return view.Ago(d, "") }

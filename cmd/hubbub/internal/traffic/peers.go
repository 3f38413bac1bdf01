package traffic

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/bus/report"
	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"

	"github.com/spf13/cobra"
)

// NewPeers returns the command `hubbub peers`.
func NewPeers() *cobra.Command {
	return &cobra.Command{
		Use:   "peers",
		Short: "List the connected peers and their subscriptions",
		RunE: func(cmd *cobra.Command, _ []string) error {
			raw, _, err := busclient.Fetch(cmd.Context(), program.From(cmd), http.MethodGet, "/peers",
				busclient.ExplainGet)
			if err != nil {
				return err
			}
			if output.WantsJSON(cmd) { // unchanged, as the bus wrote them
				var list []json.RawMessage
				if err := json.Unmarshal(raw, &list); err != nil {
					return fmt.Errorf("the bus's answer cannot be decoded: %w", err)
				}
				return output.List(cmd, list, "", nil)
			}
			list, err := busclient.DecodePeers(raw)
			if err != nil {
				return err
			}
			head := []any{"PEER", "SINCE", "FROM", "UNANSWERED", "QUEUED", "LISTENS TO"}
			return output.Table(cmd, list, "no peer is connected", head, peerRow)
		},
	}
}

func peerRow(p report.Peer) []any {
	since := p.ConnectedAt
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		since = view.Ago(time.Since(at), "")
	}
	var patterns []string
	for _, s := range p.Subscriptions {
		pattern := s.Pattern
		if s.Observe {
			pattern += " (observes)"
		}
		patterns = append(patterns, pattern)
	}
	return []any{
		term.Printable(p.ID), since, p.Remote, p.Unanswered, p.Queued, term.Printable(strings.Join(patterns, ", ")),
	}
}

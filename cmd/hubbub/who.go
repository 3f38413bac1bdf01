package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"hubbub/cmd/internal/screen"
	contract "hubbub/protocol/collab"

	"github.com/spf13/cobra"
)

func newWhoCommand() *cobra.Command {
	var online bool
	cmd := &cobra.Command{
		Use:   "who [LABEL]",
		Short: "List the agents that the broker knows, and who can be woken",
		Long: "List the endpoints that agents announced to the collaboration broker, and how many\nunfinished work items wait for each. With LABEL, such as\n" +
			"@lead, @lead.workspace or @lead#codex, show the one that a mention would reach now.",
		Example: "  hubbub who\n  hubbub who @lead.main",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCollab(cmd, "", func(ctx context.Context, c *collab) error {
				list, err := whoIs(ctx, c, args)
				if err != nil {
					return err
				}
				moves, err := movesOf(ctx, c)
				if err != nil {
					return err
				}
				keep := func(e *contract.Endpoint) bool { return !online || e.Status == contract.StatusOnline }
				return printList(cmd, list, keep, func(out io.Writer, agents []contract.Endpoint) error {
					return whoTable(out, agents, moves, time.Now())
				})
			})
		},
	}
	cmd.Flags().BoolVar(&online, "online", false, "only those that are online")
	return cmd
}

func whoIs(ctx context.Context, c *collab, args []string) ([]json.RawMessage, error) {
	if len(args) == 0 {
		return c.pages(ctx, "identity.list", "identities", map[string]any{})
	}
	var found struct {
		Identity json.RawMessage `json:"identity"`
	}
	if err := c.ask(ctx, "identity.resolve", map[string]any{"label": args[0]}, &found); err != nil {
		return nil, err
	}
	return []json.RawMessage{found.Identity}, nil
}

// movesOf counts the unfinished work items by whose move it is.
func movesOf(ctx context.Context, c *collab) (map[string]int, error) {
	list, err := c.pages(ctx, "work_item.list", "work_items", map[string]any{})
	if err != nil {
		return nil, err
	}
	moves := map[string]int{}
	for _, raw := range list {
		var w contract.WorkItem
		if err := readAnswer(raw, &w); err != nil {
			return nil, err
		}
		if !w.Terminal() {
			moves[w.NextMoveOwnerID]++
		}
	}
	return moves, nil
}

func whoTable(out io.Writer, agents []contract.Endpoint, moves map[string]int, now time.Time) error {
	if len(agents) == 0 {
		_, err := fmt.Fprintln(out, "no agent has announced itself to the broker")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AGENT\tSTATUS\tWAKE\tNEXT MOVES\tHARNESS\tWORKSPACE\tROLES\tLAST SEEN\tENDPOINT")
	for _, e := range agents {
		place := e.WorkspaceID
		if place == "" {
			place = e.ProjectPath
		}
		row := []string{
			e.LogicalAgentID, e.Status, e.WakePolicy, strconv.Itoa(moves[e.LogicalAgentID]), orDash(e.HarnessType), orDash(place), orDash(strings.Join(e.Roles, ",")), sinceText(e.LastHeartbeatAt, now), e.EndpointID,
		}
		for i := range row {
			row[i] = screen.Clip(screen.Printable(row[i]), 40)
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

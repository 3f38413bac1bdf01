package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/screen"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

func newDecisions() *cobra.Command {
	cmd := decisionCommands[0].command()
	cmd.Use, cmd.Short = "decisions", "See and make the decisions that agents wait for"
	cmd.Long = "A decision is whether an agent may run a tool that its configuration marks as sensitive ([agent]\n" +
		"approve), or that its program asks for. It is shown in the chat, and here; the first verdict counts.\n" +
		"What was allowed for longer than one call stays listed until it is revoked."
	cmd.Example = "  hubbub decisions\n  hubbub decisions allow dec_01J... --scope session\n  hubbub decisions revoke dec_01J..."
	cmd.PersistentFlags().String("as", "", "name under which you stand in the records (default your user name)")
	for _, c := range decisionCommands {
		cmd.AddCommand(c.command())
	}
	return cmd
}

// decisionCommands are the commands of `hubbub decisions`; it is itself the first.
var decisionCommands = []brokerCommand{
	{
		use: "list", short: "List what waits for a verdict, and what is allowed for longer", args: cobra.NoArgs,
		flags: []brokerFlag{{"all", false, "also what is decided for good"}},
		run: func(ctx context.Context, in *brokerInput) error {
			list, err := pages(ctx, in, collab.DecisionList, collab.ApprovalListParams{})
			if err != nil {
				return err
			}
			return decisionListing.print(in, list, func(a *collab.Approval) bool { return in.is("all") || a.Open() })
		},
	},
	{
		use: "show ID", short: "Show one decision: what was asked, and who decided what", args: cobra.ExactArgs(1),
		run: func(ctx context.Context, in *brokerInput) error {
			got, err := collab.DecisionGet.Ask(ctx, in, collab.IDParams{ID: in.given[0]})
			return printDecision(in, &got.Decision, err)
		},
	},
	{
		use: "allow ID", short: "Let the tool run", args: cobra.ExactArgs(1),
		flags: []brokerFlag{{"scope", "once", "once, session (this tool in this chat until the agent stops) or always"}},
		run:   decideAs(collab.Allow),
	},
	{
		use: "deny ID", short: "Do not let the tool run", args: cobra.ExactArgs(1),
		run: decideAs(collab.Deny),
	},
	{
		use: "revoke ID", short: "End what was allowed for longer than one call", args: cobra.ExactArgs(1),
		run: func(ctx context.Context, in *brokerInput) error {
			got, err := collab.DecisionRevoke.Ask(ctx, in, collab.ApprovalDecideParams{ID: in.given[0]})
			return printDecision(in, &got.Decision, err)
		},
	},
}

// decideAs returns what gives a verdict.
func decideAs(v collab.Verdict) func(ctx context.Context, in *brokerInput) error {
	return func(ctx context.Context, in *brokerInput) error {
		p := collab.ApprovalDecideParams{ID: in.given[0], Verdict: v}
		if in.Flag("scope") != nil {
			switch p.Scope = collab.ApprovalScope(in.text("scope")); p.Scope {
			case collab.ScopeOnce, collab.ScopeSession, collab.ScopeAlways:
			default:
				return program.Usage("--scope is once, session or always")
			}
		}
		got, err := collab.DecisionDecide.Ask(ctx, in, p)
		return printDecision(in, &got.Decision, err)
	}
}

var decisionListing = listing[collab.Approval]{
	"nothing waits for a decision", "ID\tSTATE\tAGENT\tTOOL\tCHAT\tSINCE\tARGUMENTS", []int{64, 40, 32, 40, 32, 20, 60},
	func(a *collab.Approval, now time.Time) []string {
		return []string{a.ID, a.How(), a.AskedByID, text.Spelled(a.Tool), a.Chat, sinceText(a.CreatedAt, now), text.Spelled(a.Arguments)}
	},
}

// printDecision prints a decision, unless the broker refused.
func printDecision(in *brokerInput, a *collab.Approval, err error) error {
	if err != nil {
		return err
	}
	if asJSON(in.Command) {
		return json.NewEncoder(in.OutOrStdout()).Encode(a)
	}
	said := screen.Printable(fmt.Sprintf("%s %s", a.ID, a.How())) + "\n"
	for _, line := range [][2]string{
		{"agent", a.AskedByID}, {"tool", text.Spelled(a.Tool)}, {"arguments", text.Spelled(a.Arguments)}, {"sha256", a.Digest}, {"event", a.EventID}, {"chat", a.Chat}, {"may decide", strings.Join(a.MayDecide, ", ")},
		{"asked", a.CreatedAt}, {"until", a.ExpiresAt + ", then " + string(a.Default)}, {"decided", a.DecidedAt},
	} {
		if line[1] != "" {
			said += fmt.Sprintf("  %-10s %s\n", line[0], screen.Printable(line[1]))
		}
	}
	_, err = io.WriteString(in.OutOrStdout(), said)
	return err
}

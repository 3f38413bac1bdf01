package work

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// obligationCommands list who waits for whom.
var obligationCommands = []brokerCommand{
	{
		use: "owe [WHO]", short: "List what WHO owes others, or what everybody owes",
		long: "List who waits for whom, for what, and since when: answers to questions, next moves on work,\n" +
			"decisions, and obligations from events (--policy-version 2026-08-11). Those who are halted come\n" +
			"first. With WHO, list only what others wait for WHO to do.",
		example: "  hubbub owe\n  hubbub owe lead\n  hubbub owe tg:42\n  hubbub owe close tg:7:42:99 lead",
		args:    cobra.MaximumNArgs(1),
		run: func(ctx context.Context, in *brokerRun) error {
			return printObligations(ctx, in, collab.ObligationListParams{OwedByID: in.joinArgs(0)})
		},
	},
	{
		use: "blocking [WHO]", short: "List what WHO waits for, or what everybody waits for",
		long: "List what blocks WHO: what others owe WHO, and since when. Without WHO, list what blocks\n" +
			"anybody.",
		example: "  hubbub blocking lead",
		args:    cobra.MaximumNArgs(1),
		run: func(ctx context.Context, in *brokerRun) error {
			return printObligations(ctx, in, collab.ObligationListParams{OwedToID: in.joinArgs(0)})
		},
	},
}

// closeObligation closes an obligation.
var closeObligation = brokerCommand{
	use: "close EVENT [WHO]", short: "Close an obligation that has been met",
	long: "Close an obligation in the list. EVENT is its ID; WHO is the one who owes it, if several do. It\n" +
		"can be closed by the one who waits, by their delegate, or by a person to whom it was escalated.\n" +
		"In a chat, they close it with a thumbs-up on the answer, or with /close.",
	example: "  hubbub owe close q_01J9Z3X5Q2W8 lead",
	args:    cobra.RangeArgs(1, 2),
	flags:   []brokerFlag{asFlag},
	run: func(ctx context.Context, in *brokerRun) error {
		list, err := listAll(ctx, in, collab.ObligationList, collab.ObligationListParams{OwedByID: in.joinArgs(1)})
		if err != nil {
			return err
		}
		var who []string
		for _, raw := range list {
			o, err := raw.Read()
			if err != nil {
				return err
			}
			if o.ID == in.args[0] && o.Kind == collab.KindObligation {
				who = append(who, string(o.OwedByIdentity))
			}
		}
		switch {
		case len(who) > 1:
			return fmt.Errorf("several parties owe it: give one of %s", strings.Join(who, ", "))
		case len(who) == 0 && len(in.args) == 1:
			return fmt.Errorf(
				"no obligation from %s is open: `hubbub owe` lists open ones, `hubbub why %[1]s` shows what happened",
				in.args[0],
			)
		case len(who) == 0:
			who = []string{busclient.AgentID(in.args[1])}
		}
		got, err := collab.ObligationDischarge.Ask(
			ctx, in, collab.DischargeParams{EventID: in.args[0], Recipient: protocol.PeerID(who[0])},
		)
		if err != nil {
			return err
		}
		return output.Line(in.Command, &got.Obligation, "%s", term.Printable(got.Obligation.Describe()))
	},
}

// NewOwe returns the command `hubbub owe`.
func NewOwe() *cobra.Command {
	cmd := obligationCommands[0].command()
	cmd.AddCommand(closeObligation.command())
	return cmd
}

// NewBlocking returns the command `hubbub blocking`.
func NewBlocking() *cobra.Command { return obligationCommands[1].command() }

func printObligations(ctx context.Context, in *brokerRun, p collab.ObligationListParams) error {
	list, err := listAll(ctx, in, collab.ObligationList, p)
	if err != nil {
		return err
	}
	return obligationListing.print(in, list, func(*collab.Obligation) bool { return true })
}

var obligationListing = listing[collab.Obligation]{
	"nobody is waiting", "SINCE\tOWED BY\tOWED TO\tKIND\tSTATE\tID\tWHAT", []int{20, 40, 40, 20, 20, 64, 80},
	func(o *collab.Obligation, now time.Time) []string {
		return []string{
			sinceText(o.Since, now),
			collab.NameOf(o.OwedByID, o.OwedByIdentity),
			collab.NameOf(o.OwedToID, o.OwedToIdentity),
			o.Kind,
			o.State,
			o.ID,
			text.EscapeInvisible(o.Title),
		}
	},
}

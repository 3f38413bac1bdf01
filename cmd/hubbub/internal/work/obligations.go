package work

import (
	"context"
	"fmt"
	"strings"
	"time"

	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/hubbub/internal/records"
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
		long: "List who waits for whom, for what, and since when: answers to questions, next moves on\n" +
			"work, decisions, and what events oblige to (--policy-version 2026-08-11), who is halted\n" +
			"first. With WHO, only what others wait for WHO to do.",
		example: "  hubbub owe\n  hubbub owe lead\n  hubbub owe tg:42\n  hubbub owe close tg:7:42:99 lead",
		args:    cobra.MaximumNArgs(1),
		run: func(ctx context.Context, in *brokerRun) error {
			return printObligations(ctx, in, collab.ObligationListParams{OwedByID: in.joinArgs(0)})
		},
	},
	{
		use: "blocking [WHO]", short: "List what WHO waits for, or what everybody waits for",
		long:    "List what blocks WHO: what others owe WHO, and since when. Without WHO, all of it.",
		example: "  hubbub blocking lead",
		args:    cobra.MaximumNArgs(1),
		run: func(ctx context.Context, in *brokerRun) error {
			return printObligations(ctx, in, collab.ObligationListParams{OwedToID: in.joinArgs(0)})
		},
	},
}

// closeObligation closes an obligation.
var closeObligation = brokerCommand{
	use: "close EVENT [WHO]", short: "Say that what you wait for is answered",
	long: "Close an obligation of the list: EVENT is its id, WHO the one who owes it, if several do.\n" +
		"Who waits closes it, their delegate, or a person to whom it was escalated; in a chat\n" +
		"they do so with a thumbs-up on the answer, or with /close.",
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
			return fmt.Errorf("several owe it: name one of %s", strings.Join(who, ", "))
		case len(who) == 0 && len(in.args) == 1:
			return fmt.Errorf("nothing is open on account of %s: `hubbub owe` lists what is, `hubbub why %[1]s` tells what became of it", in.args[0])
		case len(who) == 0:
			who = []string{busclient.AgentID(in.args[1])}
		}
		got, err := collab.ObligationDischarge.Ask(ctx, in, collab.DischargeParams{EventID: in.args[0], Recipient: protocol.PeerID(who[0])})
		if err != nil {
			return err
		}
		return output.Line(in.Command, &got.Obligation, "%s", term.Printable(records.Obligation(&got.Obligation)))
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
	"nobody waits for anybody", "SINCE\tOWED BY\tOWED TO\tKIND\tSTATE\tID\tWHAT", []int{20, 40, 40, 20, 20, 64, 80},
	func(o *collab.Obligation, now time.Time) []string {
		return []string{sinceText(o.Since, now), records.Name(o.OwedByID, o.OwedByIdentity), records.Name(o.OwedToID, o.OwedToIdentity), o.Kind, o.State, o.ID, text.EscapeInvisible(o.Title)}
	},
}

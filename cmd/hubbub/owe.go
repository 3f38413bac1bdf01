package main

import (
	"context"
	"time"

	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// oweCommands tell who waits for whom.
var oweCommands = []brokerCommand{
	{
		use: "owe [WHO]", short: "List what WHO owes others, or what everybody owes",
		long: "List who waits for whom, for what, and since when: answers to questions, next moves on\n" +
			"work, and decisions. With WHO, only what others wait for WHO to do.",
		example: "  hubbub owe\n  hubbub owe lead\n  hubbub owe tg:42",
		args:    cobra.MaximumNArgs(1),
		run: func(ctx context.Context, in *brokerInput) error {
			return printObligations(ctx, in, collab.ObligationListParams{OwedByID: in.words(0)})
		},
	},
	{
		use: "blocking [WHO]", short: "List what WHO waits for, or what everybody waits for",
		long:    "List what blocks WHO: what others owe WHO, and since when. Without WHO, all of it.",
		example: "  hubbub blocking lead",
		args:    cobra.MaximumNArgs(1),
		run: func(ctx context.Context, in *brokerInput) error {
			return printObligations(ctx, in, collab.ObligationListParams{OwedToID: in.words(0)})
		},
	},
}

func newOwe() *cobra.Command      { return oweCommands[0].command() }
func newBlocking() *cobra.Command { return oweCommands[1].command() }

func printObligations(ctx context.Context, in *brokerInput, p collab.ObligationListParams) error {
	list, err := pages(ctx, in, collab.ObligationList, p)
	if err != nil {
		return err
	}
	return obligationListing.print(in, list, func(*collab.Obligation) bool { return true })
}

var obligationListing = listing[collab.Obligation]{
	"nobody waits for anybody", "SINCE\tOWED BY\tOWED TO\tKIND\tSTATE\tID\tWHAT", []int{20, 40, 40, 20, 20, 64, 80},
	func(o *collab.Obligation, now time.Time) []string {
		return []string{sinceText(o.Since, now), shown(o.OwedByID, o.OwedByIdentity), shown(o.OwedToID, o.OwedToIdentity), o.Kind, o.State, o.ID, text.Spelled(o.Title)}
	},
}

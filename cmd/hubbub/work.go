package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	contract "hubbub/protocol/collab"

	"github.com/spf13/cobra"
)

func newWorkCommand() *cobra.Command {
	w := &workCommand{}
	cmd := &cobra.Command{
		Use:   "work",
		Short: "See, give out and finish work; ask and answer questions",
		Long: "Work items are what agents and people owe each other: each has an owner and somebody with\n" +
			"the next move. The collaboration broker keeps them and wakes the one whose move it is.\n" +
			"A question only wants an answer.",
		Example: "  hubbub work create 'Write the release notes' --owner lead\n" +
			"  hubbub work list --next lead\n  hubbub work done wi_01J...",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().StringVar(&w.as, "as", "", "name under which you stand in the records (default your user name)")
	cmd.AddCommand(w.list(), w.show(), w.create(), w.assign(), w.wait(), w.wake(),
		w.questions(), w.ask(), w.answer(), w.closeQuestion())
	for _, m := range workMoves {
		cmd.AddCommand(w.move(m))
	}
	return cmd
}

type workCommand struct{ as string }

// A workMove is a command that only sets states.
type workMove struct {
	name, short string
	next        string // what --next says, where there is one
	set         map[string]any
}

var workMoves = []workMove{
	{"start", "Say that work on an item has begun", "", map[string]any{"state": contract.WorkWorking}},
	{"review", "Hand an item in for review", "who has to look at it (default who asked for it)", map[string]any{"state": contract.WorkReview}},
	{"done", "Finish an item", "", map[string]any{"state": contract.WorkDone}},
	{"cancel", "Give an item up", "", map[string]any{"state": contract.WorkCancelled}},
	{"reopen", "Take up an item that was done or cancelled", "whose move it is", map[string]any{"state": contract.WorkOpen}},
	{"accept", "Accept what was reviewed, and finish the item", "", map[string]any{"state": contract.WorkDone, "acceptanceState": contract.AcceptanceAccepted}},
	{"reject", "Send what was reviewed back to its owner", "whose move it is (default the owner)", map[string]any{"state": contract.WorkWorking, "acceptanceState": contract.AcceptanceRejected}},
}

func (w *workCommand) list() *cobra.Command {
	var state, owner, next string
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List work items, those that are open unless asked otherwise",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			params := map[string]any{"state": state, "ownerId": owner, "nextMoveOwnerId": next}
			return withCollab(cmd, w.as, func(ctx context.Context, c *collab) error {
				list, err := c.pages(ctx, "work_item.list", "work_items", params)
				if err != nil {
					return err
				}
				keep := func(item *contract.WorkItem) bool { return all || state != "" || !item.Terminal() }
				return printList(cmd, list, keep, func(out io.Writer, items []contract.WorkItem) error {
					return workTable(out, items, time.Now())
				})
			})
		},
	}
	cmd.Flags().StringVar(&state, "state", "", "open, working, waiting, review, done or cancelled")
	cmd.Flags().StringVar(&owner, "owner", "", "only those of this owner")
	cmd.Flags().StringVar(&next, "next", "", "only those where it is this one's move")
	cmd.Flags().BoolVar(&all, "all", false, "also those that are done or cancelled")
	_ = cmd.RegisterFlagCompletionFunc("state", // the flag exists
		cobra.FixedCompletions([]string{"open", "working", "waiting", "review", "done", "cancelled"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (w *workCommand) show() *cobra.Command {
	return &cobra.Command{
		Use:   "show ID",
		Short: "Show one work item, and who was woken for it last and why",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCollab(cmd, w.as, func(ctx context.Context, c *collab) error {
				var got workAnswer
				if err := c.ask(ctx, "work_item.get", map[string]any{"id": args[0]}, &got); err != nil {
					return err
				}
				var why json.RawMessage
				err := c.ask(ctx, "wake.explain", map[string]any{"workItemId": args[0]}, &why)
				var refused *refusal
				if errors.As(err, &refused) && refused.Code == string(contract.CodeNotFound) {
					err = nil // nobody was woken for it yet
				}
				if err != nil {
					return err
				}
				got.Decision = why
				return got.print(cmd, true)
			})
		},
	}
}

func (w *workCommand) create() *cobra.Command {
	var id, owner, next, summary, parent, conversation, priority string
	var quiet bool
	cmd := &cobra.Command{
		Use:   "create TITLE...",
		Short: "Create a work item and wake the one whose move it is",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"title": strings.Join(args, " "), "wake": !quiet}
			return withCollab(cmd, w.as, func(ctx context.Context, c *collab) error {
				params["requestedById"] = c.person()
				set(params, "ownerId", or(owner, c.person()))
				set(params, "nextMoveOwnerId", or(next, owner, c.person()))
				for key, value := range map[string]string{
					"id": id, "summary": summary, "parentId": parent, "conversationId": conversation, "priority": priority,
				} {
					set(params, key, value)
				}
				return change(ctx, cmd, c, "work_item.create", params)
			})
		},
	}
	cmd.Flags().StringVar(&owner, "owner", "", "who is responsible (default you)")
	cmd.Flags().StringVar(&next, "next", "", "whose move it is (default the owner)")
	cmd.Flags().StringVar(&summary, "summary", "", "more about it")
	cmd.Flags().StringVar(&priority, "priority", "", "low, normal, high or urgent")
	cmd.Flags().StringVar(&parent, "parent", "", "id of the item or question that it belongs to")
	cmd.Flags().StringVar(&conversation, "conversation", "", "id of the conversation that it belongs to")
	cmd.Flags().StringVar(&id, "id", "", "id of the item, so that the command may be repeated (default a new one)")
	cmd.Flags().BoolVar(&quiet, "quiet", false, "wake nobody")
	return cmd
}

func (w *workCommand) assign() *cobra.Command {
	var nextOnly, quiet bool
	cmd := &cobra.Command{
		Use:   "assign ID NAME",
		Short: "Make somebody owner and next mover of an item, and wake them",
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"id": args[0], "nextMoveOwnerId": args[1], "wake": !quiet}
			if !nextOnly {
				params["ownerId"] = args[1]
			}
			return withCollab(cmd, w.as, func(ctx context.Context, c *collab) error {
				return change(ctx, cmd, c, "work_item.update", params)
			})
		},
	}
	cmd.Flags().BoolVar(&nextOnly, "next-only", false, "give away the next move and keep the owner")
	cmd.Flags().BoolVar(&quiet, "quiet", false, "wake nobody")
	return cmd
}

func (w *workCommand) wait() *cobra.Command {
	var kind, on string
	var wake bool
	cmd := &cobra.Command{
		Use:     "wait ID WHAT...",
		Short:   "Say that an item waits for something",
		Example: "  hubbub work wait wi_1 'the review of the API' --on lead\n  hubbub work wait wi_1 'the fix' --kind work_item --on wi_2",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			waiting := contract.WaitingOn{Kind: kind, Label: strings.Join(args[1:], " "), TargetID: on}
			params := map[string]any{"id": args[0], "state": contract.WorkWaiting, "waitingOn": waiting, "wake": wake}
			return withCollab(cmd, w.as, func(ctx context.Context, c *collab) error {
				return change(ctx, cmd, c, "work_item.update", params)
			})
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "actor", "actor, question, work_item, approval, artifact or condition")
	cmd.Flags().StringVar(&on, "on", "", "name of the one, or id of the record, that it waits for")
	cmd.Flags().BoolVar(&wake, "wake", false, "wake the one it waits for")
	return cmd
}

func (w *workCommand) wake() *cobra.Command {
	return &cobra.Command{
		Use:   "wake ID",
		Short: "Wake the one who is responsible for an item now",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCollab(cmd, w.as, func(ctx context.Context, c *collab) error {
				return change(ctx, cmd, c, "work_item.wake", map[string]any{"id": args[0]})
			})
		},
	}
}

// move makes one of workMoves.
func (w *workCommand) move(m workMove) *cobra.Command {
	var next, summary string
	cmd := &cobra.Command{
		Use:   m.name + " ID...",
		Short: m.short,
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withCollab(cmd, w.as, func(ctx context.Context, c *collab) error {
				for _, id := range args {
					params := map[string]any{"id": id}
					for key, value := range m.set {
						params[key] = value
					}
					set(params, "summary", summary)
					set(params, "nextMoveOwnerId", next)
					if err := c.completeMove(ctx, m.name, params); err != nil {
						return err
					}
					if err := change(ctx, cmd, c, "work_item.update", params); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	if m.next != "" {
		cmd.Flags().StringVar(&next, "next", "", m.next)
	}
	cmd.Flags().StringVar(&summary, "summary", "", "what to say about it in the item")
	return cmd
}

// completeMove adds what a move needs and its caller did not say: who accepts,
// and whose move it then is.
func (c *collab) completeMove(ctx context.Context, move string, params map[string]any) error {
	var got workAnswer
	if err := c.ask(ctx, "work_item.get", map[string]any{"id": params["id"]}, &got); err != nil {
		return err
	}
	item := got.WorkItem
	_, named := params["nextMoveOwnerId"]
	switch move {
	case "review":
		if !named {
			set(params, "nextMoveOwnerId", or(item.RequestedByID, item.CreatedByID))
		}
		params["wake"] = true
	case "accept":
		set(params, "requestedById", or(item.RequestedByID, c.person()))
	case "reject":
		set(params, "requestedById", or(item.RequestedByID, c.person()))
		if !named {
			set(params, "nextMoveOwnerId", item.OwnerID)
		}
		params["wake"] = true
	case "reopen":
		set(params, "ownerId", or(item.OwnerID, c.person()))
		if !named {
			set(params, "nextMoveOwnerId", or(item.NextMoveOwnerID, item.OwnerID, c.person()))
		}
	}
	return nil
}

// change makes a request about one item and prints what came of it.
func change(ctx context.Context, cmd *cobra.Command, c *collab, method string, params map[string]any) error {
	var got workAnswer
	if err := c.ask(ctx, method, params, &got); err != nil {
		return err
	}
	return got.print(cmd, false)
}

// person is the name under which this run stands in the records.
func (c *collab) person() string {
	name, _, _ := strings.Cut(c.id.Name(), ".")
	return name
}

func set(params map[string]any, key, value string) {
	if value != "" {
		params[key] = value
	}
}

func or(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

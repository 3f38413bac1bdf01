package work

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"hubbub/cmd/hubbub/internal/output"
	"hubbub/protocol"
	"hubbub/protocol/collab"

	"github.com/spf13/cobra"
)

// NewWork returns the command `hubbub work`.
func NewWork() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "work",
		Short: "Create, assign and finish work; list and answer questions",
		Long: "A work item is something that agents and people owe each other. It has an owner and somebody\n" +
			"with the next move. The collaboration broker stores work items and wakes the one with the next\n" +
			"move. A question only needs an answer.",
		Example: "  hubbub work create 'Write the release notes' --owner lead\n" +
			"  hubbub work list --next lead\n  hubbub work done wi_01J...",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.PersistentFlags().String("as", "", "your name in records (default: your user name)")
	states := []string{"open", "working", "waiting", "review", "done", "cancelled"}
	for _, c := range workCommands {
		one := c.command()
		if one.Flag("state") != nil {
			_ = one.RegisterFlagCompletionFunc(
				"state", cobra.FixedCompletions(states, cobra.ShellCompDirectiveNoFileComp),
			) // the flag exists
		}
		cmd.AddCommand(one)
	}
	for _, m := range stateCommands {
		cmd.AddCommand(m.command())
	}
	return cmd
}

// workCommands are the commands of `hubbub work` other than stateCommands.
var workCommands = []brokerCommand{
	{
		use: "list", short: "List work items, by default the unfinished ones", args: cobra.NoArgs,
		flags: []brokerFlag{
			{"state", "", "open, working, waiting, review, done or cancelled"},
			{"owner", "", "only items of this owner"},
			{"next", "", "only items where this one has the next move"},
			{"all", false, "also items that are done or cancelled"},
		},
		run: func(ctx context.Context, in *brokerRun) error {
			p := collab.WorkListParams{
				State:           collab.WorkState(in.str("state")),
				OwnerID:         in.str("owner"),
				NextMoveOwnerID: in.str("next"),
			}
			list, err := listAll(ctx, in, collab.WorkList, p)
			if err != nil {
				return err
			}
			return workListing.print(
				in, list, func(w *collab.WorkItem) bool { return in.boolean("all") || p.State != "" || !w.Terminal() },
			)
		},
	},
	{
		use: "show ID", short: "Show a work item, and who was last woken for it and why", args: cobra.ExactArgs(1),
		run: showWork,
	},
	{
		use: "create TITLE...", short: "Create a work item and wake the one with the next move",
		args: cobra.MinimumNArgs(1),
		flags: []brokerFlag{
			{"owner", "", "who is responsible (default: you)"},
			{"next", "", "who has the next move (default: the owner)"},
			{"summary", "", "a longer description"},
			{"priority", "", "low, normal, high or urgent"},
			{"parent", "", "ID of the item or question that it belongs to"},
			{"conversation", "", "ID of the conversation that it belongs to"},
			{"id", "", "ID of the item, to make the command repeatable (default: a new one)"},
			{"quiet", false, "wake nobody"},
		},
		run: func(ctx context.Context, in *brokerRun) error {
			owner := cmp.Or(in.str("owner"), in.person)
			return requestRecord(ctx, in, collab.WorkCreate, collab.WorkParams{
				ID: in.optional(
					"id",
				), Title: new(in.joinArgs(0)), Summary: in.optional("summary"), Priority: in.optional("priority"),
				OwnerID: &owner, NextMoveOwnerID: new(cmp.Or(in.str("next"), owner)), RequestedByID: &in.person,
				ParentID: in.optional("parent"), ConversationID: in.optional("conversation"),
				Wake: new(!in.boolean("quiet")),
			})
		},
	},
	{
		use: "assign ID NAME", short: "Give an item and its next move to somebody, and wake them",
		args: cobra.ExactArgs(2),
		flags: []brokerFlag{
			{"next-only", false, "change only the next move, not the owner"}, {"quiet", false, "wake nobody"},
		},
		run: func(ctx context.Context, in *brokerRun) error {
			p := collab.WorkParams{ID: &in.args[0], NextMoveOwnerID: &in.args[1], Wake: new(!in.boolean("quiet"))}
			if !in.boolean("next-only") {
				p.OwnerID = &in.args[1]
			}
			return requestRecord(ctx, in, collab.WorkUpdate, p)
		},
	},
	{
		use: "wait ID WHAT...", short: "Mark an item as waiting for something", args: cobra.MinimumNArgs(2),
		example: "  hubbub work wait wi_1 'the review of the API' --on lead\n  hubbub work wait wi_1 'the fix' " +
			"--kind work_item --on wi_2",
		flags: []brokerFlag{
			{"kind", "actor", "actor, question, work_item, approval, artifact or condition"},
			{"on", "", "name of the one, or ID of the record, that it waits for"},
			{"wake", false, "wake the one that it waits for"},
		},
		run: func(ctx context.Context, in *brokerRun) error {
			return requestRecord(ctx, in, collab.WorkUpdate, collab.WorkParams{
				ID: &in.args[0], State: collab.WorkWaiting, Wake: new(in.boolean("wake")),
				WaitingOn: &collab.WaitingOn{Kind: in.str("kind"), Label: in.joinArgs(1), TargetID: in.str("on")},
			})
		},
	},
	{
		use: "arrived NAME...", short: "Report something that items wait for, so that they continue",
		args: cobra.MinimumNArgs(
			1,
		),
		long: "Items that wait for an artifact or condition of this name, as given by --on or the text of\n" +
			"`hubbub work wait`, are worked on again. The one with the next move is woken.",
		example: "  hubbub work wait wi_1 'the build' --kind artifact --on build-42\n  hubbub work arrived build-42",
		run: func(ctx context.Context, in *brokerRun) error {
			name := in.joinArgs(0)
			got, err := collab.WorkArrived.Ask(ctx, in, collab.ArrivedParams{Name: name})
			for i := range got.Items {
				err = errors.Join(err, printRecord(in, &got.Items[i]))
			}
			if err != nil {
				return err
			}
			if got.Others > 0 {
				fmt.Fprintf(in.ErrOrStderr(), "and %d others\n", got.Others)
			}
			if len(got.Items) == 0 {
				fmt.Fprintf(in.ErrOrStderr(), "no item waits for %q\n", name)
			}
			return nil
		},
	},
	{
		use: "wake ID", short: "Wake the one who is now responsible for an item", args: cobra.ExactArgs(1),
		run: func(ctx context.Context, in *brokerRun) error {
			return requestRecord(ctx, in, collab.WorkWake, collab.IDParams{ID: in.args[0]})
		},
	},
	{
		use: "questions", short: "List open and answered questions, with their answers", args: cobra.NoArgs,
		flags: []brokerFlag{{"all", false, "also questions that are closed or declined"}},
		run: func(ctx context.Context, in *brokerRun) error {
			list, err := listAll(ctx, in, collab.QuestionList, collab.QuestionListParams{})
			if err != nil {
				return err
			}
			return questionListing.print(in, list,
				func(q *collab.Question) bool { return in.boolean("all") || !q.Terminal() })
		},
	},
	{
		use: "answer ID ANSWER...", short: "Answer a question and wake the agent that asked",
		args: cobra.MinimumNArgs(2),
		run: func(ctx context.Context, in *brokerRun) error {
			return requestRecord(ctx, in, collab.QuestionAnswer,
				collab.AnswerParams{ID: in.args[0], Answer: in.joinArgs(1)})
		},
	},
	{
		use: "close ID", short: "Close a question that was answered or is obsolete", args: cobra.ExactArgs(1),
		run: func(ctx context.Context, in *brokerRun) error {
			return requestRecord(ctx, in, collab.QuestionClose, collab.IDParams{ID: in.args[0]})
		},
	},
}

// requestRecord makes a request about one record and prints the result.
func requestRecord[P any](ctx context.Context, in *brokerRun, m collab.Method[P, collab.Result], params P) error {
	got, err := m.Ask(ctx, in, params)
	if err != nil {
		return err
	}
	return printRecord(in, &got)
}

func showWork(ctx context.Context, in *brokerRun) error {
	got, err := collab.WorkGet.Ask(ctx, in, collab.IDParams{ID: in.args[0]})
	if err != nil {
		return err
	}
	why := new(collab.Explanation)
	switch *why, err = collab.WakeExplain.Ask(ctx, in, collab.ExplainParams{WorkItemID: in.args[0]}); {
	case collab.Refusal(err) == collab.CodeNotFound:
		why = nil // nobody has been woken for it yet
	case err != nil:
		return err
	}
	if output.WantsJSON(in.Command) {
		return json.NewEncoder(in.OutOrStdout()).Encode(
			workAnswer[*collab.Explanation]{WorkItem: got.WorkItem, Decision: why},
		)
	}
	return printWorkItem(in.Command, &got.WorkItem, why)
}

// A stateCommand is a command that changes the state of a work item.
type stateCommand struct {
	name, short string
	next        string // usage of --next; "" if there is no such flag
	state       collab.WorkState
	acceptance  collab.Acceptance
	// complete fills in parameters that the state needs and the user did not give. It may be nil.
	complete func(p *collab.WorkParams, item *collab.WorkItem, person string)
}

var stateCommands = []stateCommand{
	{name: "start", short: "Start work on an item", state: collab.WorkWorking},
	{
		name: "review", short: "Submit an item for review", next: "who reviews it (default: who requested it)",
		state: collab.WorkReview,
		complete: func(p *collab.WorkParams, item *collab.WorkItem, _ string) {
			p.NextMoveOwnerID = cmp.Or(
				p.NextMoveOwnerID, optional(cmp.Or(requester(item), ref(item.CreatedByID, item.CreatedByIdentity))),
			)
			p.Wake = new(true)
		},
	},
	{name: "done", short: "Finish an item", state: collab.WorkDone},
	{name: "cancel", short: "Cancel an item", state: collab.WorkCancelled},
	{
		name: "reopen", short: "Reopen an item that was done or cancelled", next: "who has the next move",
		state: collab.WorkOpen,
		complete: func(p *collab.WorkParams, item *collab.WorkItem, person string) {
			p.OwnerID = new(cmp.Or(owner(item), person))
			p.NextMoveOwnerID = cmp.Or(
				p.NextMoveOwnerID, new(cmp.Or(ref(item.NextMoveOwnerID, item.NextMoveOwnerIdentity), *p.OwnerID)),
			)
		},
	},
	{
		name: "accept", short: "Accept the reviewed work and finish the item", state: collab.WorkDone,
		acceptance: collab.AcceptanceAccepted,
		complete: func(p *collab.WorkParams, item *collab.WorkItem, person string) {
			p.RequestedByID = new(cmp.Or(requester(item), person))
		},
	},
	{
		name: "reject", short: "Return the reviewed work to its owner",
		next:  "who has the next move (default: the owner)",
		state: collab.WorkWorking, acceptance: collab.AcceptanceRejected,
		complete: func(p *collab.WorkParams, item *collab.WorkItem, person string) {
			p.RequestedByID = new(cmp.Or(requester(item), person))
			p.NextMoveOwnerID = cmp.Or(p.NextMoveOwnerID, optional(owner(item)))
			p.Wake = new(true)
		},
	},
}

// ref returns an unambiguous reference to somebody in a record. An agent and a person may have
// the same name.
func ref(name string, id protocol.PeerID) string { return cmp.Or(string(id), name) }

func requester(w *collab.WorkItem) string { return ref(w.RequestedByID, w.RequestedByIdentity) }
func owner(w *collab.WorkItem) string     { return ref(w.OwnerID, w.OwnerIdentity) }

func (m *stateCommand) command() *cobra.Command {
	b := brokerCommand{
		use: m.name + " ID...", short: m.short, args: cobra.MinimumNArgs(1), run: m.run,
		flags: []brokerFlag{{"summary", "", "summary to set in the item"}},
	}
	if m.next != "" {
		b.flags = append(b.flags, brokerFlag{"next", "", m.next})
	}
	return b.command()
}

func (m *stateCommand) run(ctx context.Context, in *brokerRun) error {
	for _, id := range in.args {
		got, err := collab.WorkGet.Ask(ctx, in, collab.IDParams{ID: id})
		if err != nil {
			return err
		}
		p := collab.WorkParams{ID: &id, State: m.state, AcceptanceState: m.acceptance, Summary: in.optional("summary")}
		if m.next != "" {
			p.NextMoveOwnerID = in.optional("next")
		}
		if m.complete != nil {
			m.complete(&p, &got.WorkItem, in.person)
		}
		if err := requestRecord(ctx, in, collab.WorkUpdate, p); err != nil {
			return err
		}
	}
	return nil
}

// NewWho returns the command `hubbub who`.
func NewWho() *cobra.Command {
	who := brokerCommand{
		use: "who [LABEL]", short: "List the agents that the broker knows, and who can be woken",
		long: "List the endpoints that agents announced to the collaboration broker, and how many unfinished\n" +
			"work items wait for each. With LABEL, such as @lead, @lead.workspace or @lead#codex, show the\n" +
			"endpoint that a mention would reach now.",
		example: "  hubbub who\n  hubbub who @lead.main",
		args:    cobra.MaximumNArgs(1),
		flags:   []brokerFlag{{"online", false, "only endpoints that are online"}},
		run: func(ctx context.Context, in *brokerRun) error {
			list, err := findEndpoints(ctx, in)
			if err != nil {
				return err
			}
			work, err := listAll(ctx, in, collab.WorkList, collab.WorkListParams{})
			if err != nil {
				return err
			}
			moves := map[protocol.PeerID]int{}
			for _, raw := range work {
				w, err := raw.Read()
				if err != nil {
					return err
				}
				if !w.Terminal() {
					moves[w.NextMoveOwnerIdentity]++
				}
			}
			ghost := staleEndpoints(list)
			return whoListing(moves).print(in, list, func(e *collab.Endpoint) bool {
				return (!in.boolean("online") || e.Status == collab.StatusOnline) &&
					(output.WantsJSON(in.Command) || !ghost(e))
			})
		},
	}
	return who.command()
}

// staleEndpoints returns a function that reports whether an endpoint belongs to an earlier run of
// an agent that is online at another endpoint.
func staleEndpoints(list []collab.Listed[collab.Endpoint]) func(*collab.Endpoint) bool {
	online := map[protocol.PeerID]bool{}
	for _, raw := range list {
		if e, err := raw.Read(); err == nil && e.Status == collab.StatusOnline {
			online[e.Identity] = true
		}
	}
	return func(e *collab.Endpoint) bool { return e.Status != collab.StatusOnline && online[e.Identity] }
}

func findEndpoints(ctx context.Context, in *brokerRun) ([]collab.Listed[collab.Endpoint], error) {
	if len(in.args) == 0 {
		return listAll(ctx, in, collab.IdentityList, collab.PageParams{})
	}
	found, err := collab.IdentityResolve.Ask(ctx, in, collab.LabelParams{Label: in.args[0]})
	if err != nil {
		return nil, err
	}
	raw, err := collab.Encode(found.Identity)
	return []collab.Listed[collab.Endpoint]{{RawMessage: raw}}, err
}

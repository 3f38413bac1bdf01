package work

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// NewDecisions returns the command `hubbub decisions`.
func NewDecisions() *cobra.Command {
	cmd := decisionCommands[0].command()
	cmd.Use, cmd.Short = "decisions", "List and make the decisions that agents wait for"
	cmd.Long = "A decision is whether an agent may run a tool that its configuration marks as sensitive ([agent]\n" +
		"approve), or for which its program asks. It is shown in the chat and here; the first verdict\n" +
		"counts. Questions of agents to people are listed too: `hubbub work answer` answers them. An\n" +
		"approval for more than one call stays listed until it is revoked."
	cmd.Example = "  hubbub decisions\n  hubbub decisions allow dec_01J... --scope session\n  hubbub decisions " +
		"revoke dec_01J..."
	cmd.PersistentFlags().String("as", "", "your name in records (default: your user name)")
	for _, c := range decisionCommands {
		cmd.AddCommand(c.command())
	}
	return cmd
}

// decisionCommands are the commands of `hubbub decisions`. The first one is also `hubbub
// decisions` itself.
var decisionCommands = []brokerCommand{
	{
		use: "list", short: "List pending decisions and standing approvals", args: cobra.NoArgs,
		flags: []brokerFlag{{"all", false, "also list final decisions"}},
		run: func(ctx context.Context, in *brokerRun) error {
			list, err := listAll(ctx, in, collab.DecisionList, collab.ApprovalListParams{})
			if err != nil {
				return err
			}
			asked, err := listAll(ctx, in, collab.QuestionList, collab.QuestionListParams{})
			if err != nil {
				return err
			}
			all := make([]collab.Listed[pendingItem], 0, len(list)+len(asked))
			for _, a := range list {
				all = append(all, collab.Listed[pendingItem](a))
			}
			for _, q := range asked {
				all = append(all, collab.Listed[pendingItem](q))
			}
			return decisionListing.print(in, all, func(a *pendingItem) bool {
				return a.Open() || in.boolean("all") && a.Question == nil || a.Question != nil && a.AwaitsPerson()
			})
		},
	},
	{
		use: "show ID", short: "Show a decision: what was asked, and who decided", args: cobra.ExactArgs(1),
		run: func(ctx context.Context, in *brokerRun) error {
			got, err := collab.DecisionGet.Ask(ctx, in, collab.IDParams{ID: in.args[0]})
			return printDecision(in, &got.Decision, err)
		},
	},
	{
		use: "allow ID", short: "Allow the tool call", args: cobra.ExactArgs(1),
		flags: []brokerFlag{{"scope", "once",
			"once, session (this tool in this chat until the agent stops) or always"}},
		run: decide(collab.Allow),
	},
	{
		use: "deny ID", short: "Deny the tool call", args: cobra.ExactArgs(1),
		run: decide(collab.Deny),
	},
	{
		use: "revoke ID", short: "Revoke an approval for more than one call", args: cobra.ExactArgs(1),
		run: func(ctx context.Context, in *brokerRun) error {
			got, err := collab.DecisionRevoke.Ask(ctx, in, collab.ApprovalDecideParams{ID: in.args[0]})
			return printDecision(in, &got.Decision, err)
		},
	},
}

// decide returns a function that gives a verdict.
func decide(v collab.Verdict) func(ctx context.Context, in *brokerRun) error {
	return func(ctx context.Context, in *brokerRun) error {
		p := collab.ApprovalDecideParams{ID: in.args[0], Verdict: v}
		if in.Flag("scope") != nil {
			switch p.Scope = collab.ApprovalScope(in.str("scope")); p.Scope {
			case collab.ScopeOnce, collab.ScopeSession, collab.ScopeAlways:
			default:
				return program.Usage("--scope must be once, session or always")
			}
		}
		got, err := collab.DecisionDecide.Ask(ctx, in, p)
		if collab.Refusal(err) == collab.CodeNotFound { // the list also has questions
			if asked, no := collab.QuestionGet.Ask(ctx, in, collab.IDParams{ID: p.ID}); no == nil {
				return fmt.Errorf(
					"%s is a question (%s): `hubbub work answer %[1]s TEXT` answers it", asked.Question.ID,
					asked.Question.State,
				)
			}
		}
		return printDecision(in, &got.Decision, err)
	}
}

// A pendingItem is a decision or an agent's question that waits for a person.
type pendingItem struct {
	collab.Approval
	*collab.Question
}

// UnmarshalJSON reads a decision or a question.
func (a *pendingItem) UnmarshalJSON(raw []byte) error {
	var q collab.Question
	if err := json.Unmarshal(raw, &q); err != nil || q.Kind == collab.KindQuestion {
		a.Question = &q
		return err
	}
	return json.Unmarshal(raw, &a.Approval)
}

var decisionListing = listing[pendingItem]{
	"no decision is pending", "ID\tSTATE\tAGENT\tTOOL\tCHAT\tSINCE\tARGUMENTS", []int{64, 40, 32, 40, 32, 20, 60},
	func(w *pendingItem, now time.Time) []string {
		if q := w.Question; q != nil {
			return []string{
				q.ID,
				string(q.State),
				cmp.Or(q.AskedByID, q.CreatedByID),
				"ask",
				collab.NameOf(q.AskedOfID, q.AskedOfIdentity),
				sinceText(q.CreatedAt, now),
				text.EscapeInvisible(q.Title),
			}
		}
		a := &w.Approval
		return []string{
			a.ID,
			a.Describe(),
			a.AskedByID,
			text.EscapeInvisible(a.Tool),
			a.Chat,
			sinceText(a.CreatedAt, now),
			text.EscapeInvisible(a.Arguments),
		}
	},
}

// printDecision prints a decision, unless err is not nil.
func printDecision(in *brokerRun, a *collab.Approval, err error) error {
	if err != nil {
		return err
	}
	if output.WantsJSON(in.Command) {
		return json.NewEncoder(in.OutOrStdout()).Encode(a)
	}
	p := output.NewPrinter(in.Command)
	printApproval(p, a, logs.TitlesFor(in.Command))
	return p.Err
}

// printApproval prints a decision as text.
func printApproval(p *output.Printer, a *collab.Approval, titles *view.Titles) {
	p.Linef("%s", titles.Within(term.Printable(fmt.Sprintf("%s %s", a.ID, a.Describe()))))
	for _, line := range [][2]string{
		{"agent", a.AskedByID}, {"tool", text.EscapeInvisible(a.Tool)}, {
			"arguments", text.EscapeInvisible(a.Arguments),
		}, {"sha256", a.Digest}, {"event", a.EventID}, {"chat", a.Chat},
		{"may decide", strings.Join(a.MayDecide, ", ")},
		{"asked", a.CreatedAt}, {"until", a.ExpiresAt + ", then " + string(a.Default)}, {"decided", a.DecidedAt},
	} {
		if line[1] != "" {
			p.Linef("%s", term.Hang(fmt.Sprintf("  %-10s ", line[0]), titles.Within(term.Printable(line[1])),
				p.Columns))
		}
	}
}

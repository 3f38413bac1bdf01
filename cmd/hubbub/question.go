package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"hubbub/cmd/internal/screen"
	contract "hubbub/protocol/collab"

	"github.com/spf13/cobra"
)

func (w *workCommand) questions() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "questions",
		Short: "List the questions that are open or answered, and their answers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withCollab(cmd, w.as, func(ctx context.Context, c *collab) error {
				list, err := c.pages(ctx, "question.list", "questions", map[string]any{})
				if err != nil {
					return err
				}
				keep := func(q *contract.Question) bool { return all || !q.Terminal() }
				return printList(cmd, list, keep, func(out io.Writer, questions []contract.Question) error {
					return questionTable(out, questions, time.Now())
				})
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that are closed or declined")
	return cmd
}

func (w *workCommand) ask() *cobra.Command {
	var id string
	cmd := &cobra.Command{
		Use:     "ask NAME QUESTION...",
		Short:   "Ask an agent or a person, and wake the agent",
		Example: "  hubbub work ask lead 'which region do we deploy to?'",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			params := map[string]any{"askedOfId": args[0], "title": strings.Join(args[1:], " ")}
			set(params, "id", id)
			return w.aboutQuestion(cmd, "question.ask", params)
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "id of the question, so that the command may be repeated (default a new one)")
	return cmd
}

func (w *workCommand) answer() *cobra.Command {
	return &cobra.Command{
		Use:   "answer ID ANSWER...",
		Short: "Answer a question, and wake the agent that asked",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.aboutQuestion(cmd, "question.answer", map[string]any{"id": args[0], "answer": strings.Join(args[1:], " ")})
		},
	}
}

func (w *workCommand) closeQuestion() *cobra.Command {
	return &cobra.Command{
		Use:   "close ID",
		Short: "Close a question that is answered or no longer asked",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.aboutQuestion(cmd, "question.close", map[string]any{"id": args[0]})
		},
	}
}

// aboutQuestion sends a request about a question, and shows the question and
// who was woken.
func (w *workCommand) aboutQuestion(cmd *cobra.Command, method string, params map[string]any) error {
	return withCollab(cmd, w.as, func(ctx context.Context, c *collab) error {
		var got struct {
			Question contract.Question  `json:"question"`
			Decision *contract.Decision `json:"decision,omitempty"`
		}
		if err := c.ask(ctx, method, params, &got); err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if asJSON(cmd) {
			return json.NewEncoder(out).Encode(got)
		}
		line := fmt.Sprintf("%s  %s  %s", got.Question.ID, got.Question.State, got.Question.Title)
		if got.Decision != nil {
			line += "  (" + wakeLine(got.Decision) + ")"
		}
		_, err := fmt.Fprintln(out, screen.Printable(line))
		return err
	})
}

func questionTable(out io.Writer, questions []contract.Question, now time.Time) error {
	if len(questions) == 0 {
		_, err := fmt.Fprintln(out, "no questions")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tASKED BY\tASKED OF\tUPDATED\tQUESTION\tANSWER")
	for i := range questions {
		q := &questions[i]
		row := []string{q.ID, string(q.State), or(q.AskedByID, q.CreatedByID), orDash(q.AskedOfID), sinceText(q.UpdatedAt, now), q.Title, orDash(q.Answer)}
		for i, width := range []int{64, 20, 32, 32, 20, 60, 80} {
			row[i] = screen.Clip(screen.Printable(row[i]), width)
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

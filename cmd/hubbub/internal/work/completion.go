package work

import (
	"context"

	"hubbub/cmd/hubbub/internal/completion"
	"hubbub/protocol/collab"

	"github.com/spf13/cobra"
)

// Sources of completions.
var (
	OpenWork = source(collab.WorkList, collab.WorkListParams{}, func(w *collab.WorkItem) (string, string, bool) {
		return w.ID, w.Title, !w.Terminal()
	})
	OpenQuestions = source(collab.QuestionList, collab.QuestionListParams{},
		func(q *collab.Question) (string, string, bool) { return q.ID, q.Title, !q.Terminal() })
	OpenObligations = source(collab.ObligationList, collab.ObligationListParams{},
		func(o *collab.Obligation) (string, string, bool) {
			return o.ID, o.Title, o.Kind == collab.KindObligation
		})
	OpenDecisions = source(collab.DecisionList, collab.ApprovalListParams{},
		func(a *collab.Approval) (string, string, bool) { return a.ID, a.Tool + " " + a.Describe(), a.Open() })
)

// Agents returns a source of the agents that have announced themselves to the broker. Each candidate
// begins with prefix.
func Agents(prefix string) completion.Source {
	seen := map[string]bool{} // a restarted agent has several endpoints
	return source(collab.IdentityList, collab.PageParams{}, func(e *collab.Endpoint) (string, string, bool) {
		again := seen[e.LogicalAgentID]
		seen[e.LogicalAgentID] = true
		return prefix + e.LogicalAgentID, "agent:" + e.LogicalAgentID, !again
	})
}

// source returns a source of records of the broker. describe returns the id and the description of a
// record, and whether to offer it.
func source[P, T any, PP interface {
	*P
	SetAfter(next string)
}](
	m collab.Method[P, collab.Page[T]], params P, describe func(*T) (id, description string, open bool),
) completion.Source {
	return func(cmd *cobra.Command) (list []string, err error) {
		ask := brokerCommand{run: func(ctx context.Context, in *brokerRun) error {
			all, err := listAll[P, T, PP](ctx, in, m, params)
			for _, listed := range all {
				record, readErr := listed.Read()
				if readErr != nil {
					return readErr
				}
				if id, description, open := describe(&record); open {
					list = completion.Append(list, id, description)
				}
			}
			return err
		}}
		return list, ask.connect(cmd.Context(), &brokerRun{Command: cmd})
	}
}

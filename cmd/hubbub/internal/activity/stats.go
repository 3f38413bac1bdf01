package activity

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"hubbub/activitylog/agentstats"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/term"

	"github.com/spf13/cobra"
)

// NewStats returns the command `hubbub stats`.
func NewStats() *cobra.Command {
	var rows logs.RowFlags
	var spent bool
	cmd := &cobra.Command{
		Use:   "stats [AGENT...]",
		Short: "Show for each agent its events, turns run and turns avoided",
		Long: "Show for each agent how many events it received, how many of them its model saw (injected) or\n" +
			"only heard about (knocks), how many turns its harness ran, how many turns were avoided or held\n" +
			"back by a budget, the tokens used, the tool calls that policy refused, and how the events ended.\n" +
			"With --spent, show what counts towards budgets instead: turns and tokens for each day, agent and\n" +
			"chat.",
		Example: "  hubbub stats --since 24h\n  hubbub stats --spent\n  hubbub stats agent:lead --json",
	}
	cmd.Flags().BoolVar(&spent, "spent", false, "show turns and tokens for each day (UTC), agent and chat")
	rows.AddTimes(cmd, "", true)
	cmd.RunE = logs.AddFlag(cmd).Run(func(cmd *cobra.Command, r *read.Reader, args []string) error {
		other := func(agent string) bool {
			return len(args) > 0 && !slices.ContainsFunc(args,
				func(a string) bool { return busclient.AgentID(a) == agent })
		}
		progress := logs.Progress(cmd)
		defer progress.End()
		if spent {
			list, err := agentstats.ReadSpending(cmd.Context(), r, rows.Chosen.Since, rows.Chosen.Until)
			progress.End()
			if err != nil {
				return err
			}
			return printSpending(cmd, slices.DeleteFunc(list,
				func(s agentstats.Spending) bool { return other(s.Agent) }))
		}
		list, err := agentstats.Read(cmd.Context(), r, rows.Chosen.Since, rows.Chosen.Until)
		progress.End()
		if err != nil {
			return err
		}
		list = slices.DeleteFunc(list, func(s agentstats.Stats) bool { return other(s.Agent) })
		return output.List(cmd, list, "no agent has recorded a decision",
			func(p *output.Printer, list []agentstats.Stats) {
				printStats(p, list, logs.Titles(cmd.Context(), r))
			})
	})
	return cmd
}

func printSpending(cmd *cobra.Command, list []agentstats.Spending) error {
	return output.Table(cmd, list, "no agent has recorded a turn", []any{
		"DAY", "TURNS", "TOKENS", "BUDGET", "AGENT", "CHAT",
	}, func(s agentstats.Spending) []any {
		return []any{s.Day, s.Turns, s.Tokens, s.Held, term.Printable(s.Agent), term.Printable(cmp.Or(s.Chat, "-"))}
	})
}

func printStats(p *output.Printer, list []agentstats.Stats, titles *view.Titles) {
	if p.Columns > 0 && p.Columns <= statsColumns+minDispositionColumns {
		rows := [][]any{
			{"AGENT", "EVENTS", "INJECTED", "KNOCKS", "TURNS", "AVOIDED", "BUDGET", "TOKENS", "REFUSED", "OPEN",
				"ENDED"},
		}
		for i := range list {
			s := &list[i]
			rows = append(rows, []any{
				term.Printable(
					titles.Both(s.Agent),
				), s.Events, s.Injected, s.Knocks, s.TurnsRun, s.TurnsAvoided, s.OverBudget, s.Tokens, s.Refusals,
				s.Open,
				strings.Join(dispositions(s), ", "),
			})
		}
		p.Rows(rows)
		return
	}
	p.Linef("EVENTS  INJECTED  KNOCKS  TURNS  AVOIDED  BUDGET     TOKENS  REFUSED  OPEN  AGENT, HOW EVENTS ENDED")
	total := agentstats.Stats{Agent: "all", Dispositions: map[string]int64{}}
	for _, s := range list {
		printAgentStats(p, s, titles.Both(s.Agent))
		total.Add(&s)
	}
	if len(list) > 1 {
		printAgentStats(p, total, total.Agent)
	}
}

// The numbers take statsColumns. The text after them is wrapped if the terminal has at least
// minDispositionColumns left for it.
const statsColumns, minDispositionColumns = 76, 16

// dispositions lists how the events from an agent ended.
func dispositions(s *agentstats.Stats) (ends []string) {
	for _, d := range slices.Sorted(maps.Keys(s.Dispositions)) {
		ends = append(ends, fmt.Sprintf("%d %s", s.Dispositions[d], term.Printable(d)))
	}
	return ends
}

func printAgentStats(p *output.Printer, s agentstats.Stats, name string) {
	name = term.Printable(name)
	if ends := dispositions(&s); len(ends) > 0 {
		name += ": " + strings.Join(ends, ", ")
	}
	lines := []string{name}
	if p.Columns > statsColumns+minDispositionColumns {
		lines = term.Wrap(name, p.Columns-statsColumns)
	}
	p.Linef("%6d  %8d  %6d  %5d  %7d  %6d  %9d  %7d  %4d  %s",
		s.Events, s.Injected, s.Knocks, s.TurnsRun, s.TurnsAvoided, s.OverBudget, s.Tokens, s.Refusals, s.Open,
		lines[0])
	for _, line := range lines[1:] {
		p.Linef("%*s%s", statsColumns, "", line)
	}
}

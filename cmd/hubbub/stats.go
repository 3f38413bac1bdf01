package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/cmd/internal/screen"

	"github.com/spf13/cobra"
)

func newStats() *cobra.Command {
	var since, until string
	cmd := &cobra.Command{
		Use:   "stats [AGENT...]",
		Short: "Show what agents were spared: events, turns run, turns avoided",
		Long: "Show, for each agent, how many events it saw, how many of them its model was shown\n" +
			"(injected) or only told of (knocks), how many turns its harness ran, how many were\n" +
			"avoided, what policy refused, and how events ended.",
		Example: "  hubbub stats --since 24h\n  hubbub stats agent:lead --json",
	}
	logs := logFlag(cmd)
	cmd.Flags().StringVar(&since, "since", "", "from this time on: 2026-02-17T12:00:00Z, or 15m, 12h, 30d ago")
	cmd.Flags().StringVar(&until, "until", "", "before this time, written likewise")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		now := time.Now()
		from, err := moment("since", since, now)
		if err != nil {
			return err
		}
		to, err := moment("until", until, now)
		if err != nil {
			return err
		}
		r, err := openLogs(cmd, *logs)
		if err != nil {
			return err
		}
		defer r.Close()
		list, err := r.AgentStats(cmd.Context(), from, to)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			list = slices.DeleteFunc(list, func(s activitylog.AgentStats) bool {
				return !slices.ContainsFunc(args, func(a string) bool { return agentName(a) == s.Agent })
			})
		}
		return printAll(cmd, list, "no agent has recorded a decision", printStats)
	}
	return cmd
}

func printStats(w io.Writer, list []activitylog.AgentStats) error {
	columns := screen.Columns(w)
	var b strings.Builder
	b.WriteString("EVENTS  INJECTED  KNOCKS  TURNS  AVOIDED  REFUSED  OPEN  AGENT, HOW EVENTS ENDED\n")
	total := activitylog.AgentStats{Agent: "all", Dispositions: map[string]int64{}}
	for _, s := range list {
		printStatsLine(&b, s, columns)
		total.Add(&s)
	}
	if len(list) > 1 {
		printStatsLine(&b, total, columns)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// The numbers take statsColumns. The text behind them is wrapped if a terminal leaves
// minEnds columns for it.
const statsColumns, minEnds = 57, 16

func printStatsLine(w io.Writer, s activitylog.AgentStats, columns int) {
	var ends []string
	for _, d := range slices.Sorted(maps.Keys(s.Dispositions)) {
		ends = append(ends, fmt.Sprintf("%d %s", s.Dispositions[d], screen.Printable(d)))
	}
	name := screen.Printable(s.Agent)
	if len(ends) > 0 {
		name += ": " + strings.Join(ends, ", ")
	}
	lines := []string{name}
	if columns > statsColumns+minEnds {
		lines = screen.Wrap(name, columns-statsColumns)
	}
	fmt.Fprintf(w, "%6d  %8d  %6d  %5d  %7d  %7d  %4d  %s\n", s.Events, s.Injected, s.Knocks, s.TurnsRun, s.TurnsAvoided, s.Refusals, s.Open, lines[0])
	for _, line := range lines[1:] {
		fmt.Fprintf(w, "%*s%s\n", statsColumns, "", line)
	}
}

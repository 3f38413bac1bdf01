package main

import (
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

// A workAnswer is what the broker says about one item.
type workAnswer struct {
	WorkItem  contract.WorkItem `json:"work_item"`
	Decision  json.RawMessage   `json:"decision,omitempty"`
	Duplicate bool              `json:"duplicate,omitempty"`
}

// print shows one item: in one line, or with everything about it.
func (a *workAnswer) print(cmd *cobra.Command, full bool) error {
	out := cmd.OutOrStdout()
	if asJSON(cmd) {
		return json.NewEncoder(out).Encode(a)
	}
	decision := contract.Decision{}
	if len(a.Decision) > 0 {
		if err := readAnswer(a.Decision, &decision); err != nil {
			return err
		}
	}
	w := &a.WorkItem
	if full {
		return printWorkItem(out, w, &decision)
	}
	line := fmt.Sprintf("%s  %s  %s", w.ID, w.State, w.Title)
	if a.Duplicate {
		line += "  (it existed)"
	}
	if who := movesNow(w); who != "" {
		line += "  next: " + who
	}
	if decision.Rule != "" {
		line += "  (" + wakeLine(&decision) + ")"
	}
	_, err := fmt.Fprintln(out, screen.Printable(line))
	return err
}

func movesNow(w *contract.WorkItem) string {
	if w.Terminal() {
		return ""
	}
	return w.NextMoveOwnerID
}

// wakeLine says what became of a wake decision.
func wakeLine(d *contract.Decision) string {
	switch d.Outcome {
	case contract.OutcomeWoken:
		return "woke " + d.TargetAgentID
	case contract.OutcomeUnavailable:
		return d.TargetAgentID + " is not there and is told when it comes"
	}
	return "woke nobody: " + d.Reason
}

func printWorkItem(out io.Writer, w *contract.WorkItem, d *contract.Decision) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, screen.Printable(value))
		}
	}
	row("id", w.ID)
	row("title", w.Title)
	row("state", string(w.State))
	if w.WaitingOn != nil {
		row("waits for", strings.TrimSpace(w.WaitingOn.Label+" "+bracketed(w.WaitingOn.TargetID)))
	}
	row("owner", w.OwnerID)
	row("next move", movesNow(w))
	row("requested by", w.RequestedByID)
	if w.AcceptanceState != contract.AcceptanceNone {
		row("acceptance", string(w.AcceptanceState))
	}
	row("priority", w.Priority)
	row("conversation", w.ConversationID)
	row("parent", w.ParentID)
	row("created", w.CreatedAt+" by "+w.CreatedByID)
	row("updated", w.UpdatedAt)
	row("summary", w.Summary)
	if d.Rule != "" {
		row("last wake", wakeLine(d))
		row("rule", string(d.Rule))
		row("because", d.Reason)
		for _, c := range d.Candidates {
			row("looked at", c.AgentID+" ("+string(c.Rule)+"): "+c.Reason)
		}
	}
	return t.Flush()
}

func bracketed(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}

func workTable(out io.Writer, items []contract.WorkItem, now time.Time) error {
	if len(items) == 0 {
		_, err := fmt.Fprintln(out, "no work items")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tSTATE\tOWNER\tNEXT MOVE\tUPDATED\tTITLE")
	for i := range items {
		w := &items[i]
		state := string(w.State)
		if w.WaitingOn != nil {
			state += " on " + or(w.WaitingOn.TargetID, w.WaitingOn.Label)
		}
		row := []string{w.ID, state, orDash(w.OwnerID), orDash(movesNow(w)), sinceText(w.UpdatedAt, now), w.Title}
		for i, width := range []int{64, 40, 32, 32, 20, 80} {
			row[i] = screen.Clip(screen.Printable(row[i]), width)
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

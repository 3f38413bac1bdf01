package work

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// A listing says how to print the records of a list.
type listing[T any] struct {
	none   string // printed for an empty list
	header string
	widths []int // maximum widths of the columns
	row    func(record *T, now time.Time) []string
}

// print prints the records for which keep returns true: with --json as lines from the broker,
// unchanged, otherwise as a table.
func (l *listing[T]) print(in *brokerRun, list []collab.Listed[T], keep func(*T) bool) error {
	p, now, titles := output.NewPrinter(in.Command), time.Now(), logs.TitlesFor(in.Command)
	head := []any{}
	for name := range strings.SplitSeq(l.header, "\t") {
		head = append(head, name)
	}
	rows := [][]any{head}
	for _, raw := range list {
		record, err := raw.Read()
		if err != nil {
			return err
		}
		if !keep(&record) {
			continue
		}
		if p.JSON {
			p.Linef("%s", raw.RawMessage)
			continue
		}
		row, cells := l.row(&record, now), []any{}
		for i, width := range l.widths {
			cells = append(cells, text.Clip(titles.Within(term.Printable(cmp.Or(row[i], "-"))), width))
		}
		rows = append(rows, cells)
	}
	switch {
	case p.JSON:
	case len(rows) == 1:
		p.Linef("%s", l.none)
	default:
		p.Rows(rows)
	}
	return p.Err
}

var workListing = listing[collab.WorkItem]{
	"no work items", "ID\tSTATE\tOWNER\tNEXT MOVE\tUPDATED\tTITLE", []int{64, 40, 32, 32, 20, 80},
	func(w *collab.WorkItem, now time.Time) []string {
		state := string(w.State)
		if w.WaitingOn != nil {
			state += " on " + cmp.Or(w.WaitingOn.TargetID, w.WaitingOn.Label)
		}
		return []string{
			w.ID, state, collab.NameOf(w.OwnerID, w.OwnerIdentity), nextMover(w), sinceText(w.UpdatedAt, now), w.Title,
		}
	},
}

var questionListing = listing[collab.Question]{
	"no questions", "ID\tSTATE\tASKED BY\tASKED OF\tUPDATED\tQUESTION\tANSWER", []int{64, 20, 32, 32, 20, 60, 80},
	func(q *collab.Question, now time.Time) []string {
		return []string{
			q.ID,
			string(q.State),
			collab.NameOf(cmp.Or(q.AskedByID, q.CreatedByID), q.CreatedByIdentity),
			collab.NameOf(q.AskedOfID, q.AskedOfIdentity),
			sinceText(q.UpdatedAt, now),
			q.Title,
			q.Answer,
		}
	},
}

// whoListing lists agents, with the number of unfinished work items that wait for each.
func whoListing(moves map[protocol.PeerID]int) *listing[collab.Endpoint] {
	return &listing[collab.Endpoint]{
		"no agent has announced itself to the broker",
		"AGENT\tSTATUS\tWAKE\tNEXT MOVES\tHARNESS\tWORKSPACE\tROLES\tALIASES\tLAST SEEN\tENDPOINT",
		[]int{40, 40, 40, 40, 40, 40, 40, 40, 40, 40},
		func(e *collab.Endpoint, now time.Time) []string {
			return []string{
				collab.NameOf(
					e.LogicalAgentID, e.Identity,
				), e.Status, e.WakePolicy, strconv.Itoa(nextMoves(e, moves)), e.HarnessType,
				cmp.Or(e.WorkspaceID, e.ProjectPath), strings.Join(e.Roles, ","),
				strings.Join(e.Aliases, ","), sinceText(e.LastHeartbeatAt, now), e.EndpointID,
			}
		},
	}
}

// nextMoves returns how many work items wait for the agent of an endpoint.
func nextMoves(e *collab.Endpoint, moves map[protocol.PeerID]int) int {
	n := moves[e.AgentIdentity]
	if e.Identity != e.AgentIdentity {
		n += moves[e.Identity]
	}
	return n
}

// sinceText formats a time of the broker as a duration before now.
func sinceText(at string, now time.Time) string {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return at
	}
	return view.Ago(now.Sub(t), "") + " ago"
}

func nextMover(w *collab.WorkItem) string {
	if w.Terminal() {
		return ""
	}
	return collab.NameOf(w.NextMoveOwnerID, w.NextMoveOwnerIdentity)
}

// printRecord prints the record of a result in one line, and who was woken.
func printRecord(in *brokerRun, got *collab.Result) error {
	var line string
	var answer any
	if q := &got.Question; q.ID != "" {
		answer = questionAnswer{*q, got.Decision}
		line = fmt.Sprintf("%s  %s  %s", q.ID, q.State, q.Title)
	} else {
		w := &got.WorkItem
		answer = workAnswer[*collab.Decision]{*w, got.Decision, got.Duplicate}
		line = fmt.Sprintf("%s  %s  %s", w.ID, w.State, w.Title)
		if got.Duplicate {
			line += "  (already existed)"
		}
		if who := nextMover(w); who != "" {
			line += "  next: " + who
		}
	}
	if got.Decision != nil {
		line += "  (" + got.Decision.Describe() + ")"
	}
	if output.WantsJSON(in.Command) {
		return json.NewEncoder(in.OutOrStdout()).Encode(answer)
	}
	p := output.NewPrinter(in.Command)
	p.Linef("%s", logs.TitlesFor(in.Command).Within(term.Printable(line)))
	return p.Err
}

// A workAnswer is the JSON output for a request about a work item.
type workAnswer[D any] struct {
	WorkItem  collab.WorkItem `json:"work_item"`
	Decision  D               `json:"decision,omitzero"`
	Duplicate bool            `json:"duplicate,omitempty"`
}

// A questionAnswer is the JSON output for a request about a question.
type questionAnswer struct {
	Question collab.Question  `json:"question"`
	Decision *collab.Decision `json:"decision,omitempty"`
}

// printWorkItem prints everything about an item. d is nil if nobody was to be woken.
func printWorkItem(cmd *cobra.Command, w *collab.WorkItem, d *collab.Explanation) error {
	p, titles := output.NewPrinter(cmd), logs.TitlesFor(cmd)
	row := func(name, value string) {
		if value != "" {
			p.Linef("%s", term.Hang(term.Pad(name, 14), titles.Within(term.Printable(value)), p.Columns))
		}
	}
	row("id", w.ID)
	row("title", w.Title)
	row("state", string(w.State))
	if on := w.WaitingOn; on != nil && on.TargetID != "" {
		row("waits for", strings.TrimSpace(on.Label+" ("+on.TargetID+")"))
	} else if on != nil {
		row("waits for", strings.TrimSpace(on.Label))
	}
	row("owner", collab.NameOf(w.OwnerID, w.OwnerIdentity))
	row("next move", nextMover(w))
	row("requested by", collab.NameOf(w.RequestedByID, w.RequestedByIdentity))
	if w.AcceptanceState != collab.AcceptanceNone {
		row("acceptance", string(w.AcceptanceState))
	}
	row("priority", w.Priority)
	row("conversation", w.ConversationID)
	row("parent", w.ParentID)
	row("created", w.CreatedAt+" by "+collab.NameOf(w.CreatedByID, w.CreatedByIdentity))
	row("updated", w.UpdatedAt)
	row("summary", w.Summary)
	if d != nil && d.Rule != "" {
		row("last wake", d.Decision.Describe())
		row("rule", string(d.Rule))
		row("because", d.Reason)
		for _, c := range d.Candidates {
			row("looked at", c.AgentID+" ("+string(c.Rule)+"): "+c.Reason)
		}
	}
	return p.Err
}

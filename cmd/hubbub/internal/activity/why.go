package activity

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/busclient"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/program"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"

	"github.com/spf13/cobra"
)

// NewWhy returns the command `hubbub why`.
func NewWhy() *cobra.Command {
	var (
		rows       logs.RowFlags
		replayOpts replayOptions
		replay     bool
	)
	cmd := &cobra.Command{
		Use:   "why EVENT [AGENT]",
		Short: "Explain why an event woke an agent or not, or the state of work",
		Long: "Explain what each agent did with an event, and why: its decision, its turns, the tool calls that\n" +
			"were refused, and how the event ended. EVENT is the sourceId of a chat message\n" +
			"(tg:<bot>:<chat>:<message>), or the ID of the message that carried it.\n\n" +
			"EVENT may also be a record of the broker: a work item, question, flight or message of a\n" +
			"conversation. Then each step is shown: who did what, who was woken or reminded and why, and the\n" +
			"current state.\n\n" +
			"With --replay, decide on past events again with the given policy, and show which events would\n" +
			"have woken an agent. EVENT is then optional, or 'all'.",
		Example: "  hubbub why tg:42:-100123:7\n  hubbub why msg_01J9Z3X5Q2W8 agent:lead\n  hubbub why " +
			"wi_01J9Z3X5Q2W8\n" +
			"  hubbub why --replay all agent:w3 --role backend-agents --since 24h",
	}
	rows.AddTimes(cmd, "records ", false)
	cmd.Flags().BoolVar(&replay, "replay", false, "decide on past events again")
	replayOpts.flags(cmd.Flags())
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if replay {
			return cobra.MaximumNArgs(2)(cmd, args)
		}
		return cobra.RangeArgs(1, 2)(cmd, args)
	}
	explained := logs.AddFlag(cmd).Run(func(cmd *cobra.Command, r *read.Reader, args []string) (err error) {
		f := read.AttentionFilter{Since: rows.Chosen.Since}
		if len(args) > 0 && (!replay || args[0] != "all") {
			f.EventID = args[0]
		}
		if len(args) > 1 {
			f.Agent = busclient.AgentID(args[1])
		}
		if f.EventID != "" {
			if f.EventID, err = r.EventID(cmd.Context(), logs.ExpandID(cmd.Context(), r, f.EventID)); err != nil {
				return err
			}
		}
		if replay {
			return replayOpts.run(cmd, r, f)
		}
		progress := logs.Progress(cmd)
		defer progress.End()
		return printWhy(cmd, r, f, progress)
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if changed := replayOpts.changedFlag(cmd); !replay && changed != "" {
			return program.Usage("--%s changes the policy of a replay: add --replay", changed)
		}
		return explained(cmd, args)
	}
	return cmd
}

// An eventReport has the records of one agent about one event, by kind and in order of time.
type eventReport struct {
	EventID      string     `json:"eventId"`
	Agent        string     `json:"agent"`
	MessageIDs   []string   `json:"messageIds"` // the messages that carried the event
	Text         string     `json:"text,omitempty"`
	Author       string     `json:"author,omitempty"`
	Decision     *record    `json:"decision"` // the latest
	Decisions    recordList `json:"decisions,omitempty"`
	Turns        recordList `json:"turns"`
	Refusals     recordList `json:"refusals"`
	Dispositions recordList `json:"dispositions"`
	Claims       recordList `json:"claims,omitempty"`
	Deliveries   recordList `json:"deliveries,omitempty"`
	Escalations  recordList `json:"escalations,omitempty"`
	Others       recordList `json:"others,omitempty"` // of other kinds
	all          recordList
}

type (
	record     = activitylog.AttentionRecord
	recordList []*record
)

// add adds the next record.
func (s *eventReport) add(a *record) {
	kinds := map[string]*recordList{
		protocol.RecordDecision: &s.Decisions, protocol.RecordTurn: &s.Turns,
		protocol.RecordRefusal:     &s.Refusals,
		protocol.RecordDisposition: &s.Dispositions, protocol.RecordClaim: &s.Claims,
		protocol.RecordDelivery:   &s.Deliveries,
		protocol.RecordEscalation: &s.Escalations,
	}
	list := cmp.Or(kinds[a.Event], &s.Others)
	*list, s.all = append(*list, a), append(s.all, a)
	if a.Event == protocol.RecordDecision {
		s.Decision = a
	}
}

// maxLogDelay bounds how far the log lags behind, unless its disk is slow.
const maxLogDelay = 250 * time.Millisecond

// printWhy prints the reports about an event. It ends the progress line first.
func printWhy(cmd *cobra.Command, r *read.Reader, f read.AttentionFilter, progress *term.Progress) error {
	stories, err := readReports(cmd, r, f)
	if err != nil {
		return err
	}
	if len(stories) == 0 && f.Agent == "" {
		retry.Sleep(cmd.Context(), maxLogDelay) // let the log catch up with the broker
		steps, err := readBrokerEvents(cmd.Context(), r, f.EventID, f.Since)
		progress.End()
		if err != nil || len(steps) > 0 {
			return errors.Join(err, output.List(cmd, steps, "", func(p *output.Printer, steps []*brokerEvent) {
				printBrokerEvents(p, f.EventID, steps, logs.Titles(cmd.Context(), r))
			}))
		}
	}
	if len(stories) == 0 {
		who := "no agent has"
		if f.Agent != "" {
			who = f.Agent + " has not"
		}
		advice := "`hubbub tail --text WORD` shows the IDs of messages that contain a word"
		if protocol.IsChat(protocol.PeerID(f.EventID)) {
			advice += "; the log of the bridge names the senders that it rejected (hubbub pair admits senders)"
		}
		return fmt.Errorf("%s recorded anything about %q, and no agent received it; %s", who, f.EventID, advice)
	}
	progress.End()
	for _, s := range stories {
		if len(s.Decisions) == 1 {
			s.Decisions = nil // the same as s.Decision
		}
	}
	return output.List(cmd, stories, "", func(p *output.Printer, stories []*eventReport) {
		printReports(p, stories, logs.Titles(cmd.Context(), r))
	})
}

// readReports reads one report for each agent, sorted by agent.
func readReports(cmd *cobra.Command, r *read.Reader, f read.AttentionFilter) ([]*eventReport, error) {
	byAgent := map[string]*eventReport{}
	of := func(agent string) *eventReport {
		if byAgent[agent] == nil {
			byAgent[agent] = &eventReport{
				EventID:      f.EventID,
				Agent:        agent,
				MessageIDs:   []string{},
				Turns:        recordList{},
				Refusals:     recordList{},
				Dispositions: recordList{},
			}
		}
		return byAgent[agent]
	}
	err := r.Attention(cmd.Context(), f, func(a *record) error {
		of(a.Agent).add(a)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = r.ChatEvents(cmd.Context(), f, func(c *activitylog.ChatEvent) error {
		s := of(c.Agent)
		s.MessageIDs = append(s.MessageIDs, c.MessageID)
		if s.Text = c.Content.Text; c.Content.Author != nil {
			s.Author = c.Content.Author.DisplayName
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(
		maps.Values(byAgent), func(a, b *eventReport) int { return strings.Compare(a.Agent, b.Agent) },
	), nil
}

func printReports(p *output.Printer, stories []*eventReport, titles *view.Titles) {
	p.Linef("%s", p.Paint(term.Bold, term.Printable(stories[0].EventID)))
	for _, s := range stories {
		if s.Text != "" {
			p.Linef("%s %s", orDefault(s.Author, "somebody"),
				text.Clip(term.Printable(fmt.Sprintf("wrote %q", s.Text)), 200))
			break
		}
	}
	for _, s := range stories {
		p.Linef("")
		p.Linef("%s %s", p.Paint(term.Cyan, term.Printable(titles.Both(s.Agent))), wokenText(p, s))
		if len(s.all) == 0 {
			p.Linef(
				"  it received the event (%s) but recorded no decision: for a peer of your own, hubbub trace shows "+
					"its answer; for an agent, hubbub doctor may know why",
				term.Printable(strings.Join(s.MessageIDs, ", ")),
			)
		} else if len(s.MessageIDs) > 0 {
			p.Linef("  %s", p.Paint(term.Dim, term.Printable("carried by "+strings.Join(s.MessageIDs, ", "))))
		}
		for _, a := range s.all {
			line := view.Full.Record(&a.Record)
			if words := view.DescribeReason(a.Reason); words != "" {
				line += " (" + words + ")"
			}
			p.Linef("  %s  %s", p.Paint(term.Dim, a.At.Local().Format(clock)), term.Printable(line))
		}
	}
}

// isStarted reports whether a record says that a turn started.
func isStarted(a *record) bool {
	turn, ok := a.Content.(*protocol.TurnRecord)
	return ok && turn.State == "started"
}

// wokenText says whether the agent's harness ran for the event.
func wokenText(p *output.Printer, s *eventReport) string {
	switch {
	case slices.ContainsFunc(s.Turns, isStarted):
		return p.Paint(term.Green, "was woken")
	case s.Decision == nil:
		return ""
	case wakesAgent(s.Decision.Content.(*protocol.AttentionDecision).Injection):
		return p.Paint(term.Yellow, "should have been woken")
	default:
		return p.Paint(term.Dim, "was not woken")
	}
}

// wakesAgent reports whether an injection mode runs the harness.
func wakesAgent(injection string) bool {
	return slices.Contains([]string{"immediate", "buffered", "notify"}, injection)
}

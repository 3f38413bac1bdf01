package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/activitylog/view"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
)

// An annotation is what the right column shows about one published message.
type annotation struct {
	at        time.Time
	rows      string // the row numbers, such as "#12-15"
	summary   string // type, sender and topic
	outcome   string // of the deliveries
	failed    bool   // a delivery failed or a tool call was refused
	escalates bool   // the agent escalates to a person
	reason    string // the agent's reason, if it gave one
}

// describe returns the annotation of a message. It returns false if the demo does not show the
// message, such as a heartbeat or a typing indicator.
func describe(p *publication) (annotation, bool) {
	n := annotation{at: p.Start, rows: fmt.Sprintf("#%d-%d", p.First, p.Last)}
	kind := string(p.message.Type)
	switch p.message.Type {
	case protocol.TypeAgentEvent:
		return describeEvent(n, p)
	case protocol.TypeCollabRequest, protocol.TypeCollabResult, protocol.TypeCollabEvent:
		label, part := describeCollab(p)
		if !part {
			return n, false
		}
		kind += " " + label
	case protocol.TypeTGReply:
		var reply protocol.ChatReply
		if json.Unmarshal(p.message.Content, &reply) == nil && reply.Typing {
			return n, false
		}
	case protocol.TypeDeliveryStatus:
		var s protocol.DeliveryStatus
		if json.Unmarshal(p.message.Content, &s) == nil {
			kind += " " + s.Status
		}
	}
	n.summary = kind + "  " + describeRoute(p)
	n.outcome, n.failed = describeOutcome(p)
	return n, true
}

func describeRoute(p *publication) string {
	return term.Printable(fmt.Sprintf("%s → %s", p.message.From, p.Topic))
}

// describeOutcome describes the deliveries of a message.
func describeOutcome(p *publication) (text string, bad bool) {
	if len(p.Deliveries) == 0 {
		return "no subscriber", false
	}
	var parts []string
	for _, t := range p.Deliveries {
		mark := "✓"
		if t.Status != string(protocol.OutcomeOK) {
			mark, bad = "✗ "+t.Status, true
		}
		parts = append(parts, mark+" "+term.Printable(t.Peer))
	}
	// No line break inside an outcome.
	text = fmt.Sprintf("%s %.1f ms", strings.Join(parts, ", "), float64(p.Duration().Microseconds())/1000)
	return strings.ReplaceAll(text, " ", "\u00a0"), bad
}

// describeEvent describes an agent_event.
func describeEvent(n annotation, p *publication) (annotation, bool) {
	e, err := protocol.ParseRecord(p.message.Content)
	if err != nil {
		return n, false
	}
	agent := term.Printable(string(p.message.From))
	switch c := e.Content.(type) {
	case *protocol.AttentionDecision:
		n.summary = fmt.Sprintf("%s decides: %s, %s, %s", agent, c.Directedness, c.Policy, c.Injection)
	case *protocol.Disposition:
		n.summary = fmt.Sprintf("%s ends the event: %s", agent, c.Disposition)
	case *protocol.Refusal:
		n.summary, n.failed = fmt.Sprintf("%s is refused: %s", agent, c.Tool), true
	case *protocol.EscalationRecord:
		n.summary, n.escalates = agent+" escalates to a person", true
	default:
		if e.Event != "online" {
			return n, false
		}
		n.summary = fmt.Sprintf("agent_event online  %s", describeRoute(p))
		n.outcome, n.failed = describeOutcome(p)
		return n, true
	}
	n.reason = term.Printable(e.Reason)
	if words := view.DescribeReason(e.Reason); words != "" {
		n.reason = words + " (" + n.reason + ")"
	}
	return n, true
}

// describeCollab describes a request, result or event from the broker. It returns false for
// messages that only keep the broker informed.
func describeCollab(p *publication) (string, bool) {
	var c struct {
		Method, Type string
		OK           *bool
		Params       struct{ EventID string }
		Result       struct {
			Granted *bool
			Token   int64
			Owner   string
		}
	}
	if json.Unmarshal(p.message.Content, &c) != nil {
		return "", false
	}
	switch {
	case strings.HasPrefix(c.Method, "claim."):
		return c.Method, true
	case strings.HasPrefix(c.Type, "collab.claim."):
		return c.Type, len(p.Deliveries) > 0
	case c.Result.Granted != nil && *c.Result.Granted:
		return fmt.Sprintf("claim granted, token %d", c.Result.Token), true
	case c.Result.Granted != nil:
		return "claim refused, " + term.Printable(c.Result.Owner) + " has it", true
	default:
		return "", false
	}
}

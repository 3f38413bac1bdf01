package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"hubbub/activitylog"
	"hubbub/activitylog/write"
	"hubbub/protocol"
	"hubbub/protocol/redact"
	"hubbub/protocol/text"
)

// A Style is how detailed a description is.
type Style int

// The styles.
const (
	Full  Style = iota // a sentence, for a terminal
	Brief              // a phrase, for a cell of a table
)

// Row describes the part of a row that its columns do not show.
func (v Style) Row(e *activitylog.Entry) string {
	detail := ""
	switch {
	case e.Is(activitylog.LogGap):
		detail = v.gap(e.Payload)
	case e.Is(activitylog.LogPruned):
		detail = pruned(e.Payload)
	case v == Brief && e.Error != "":
	case e.Is(activitylog.SendStart):
		detail = v.Message(e.Payload)
	case e.Is(activitylog.SendFinish):
		detail = v.result(e.Payload)
	case e.Is(activitylog.ProcessFinish) && v == Full && e.Error == "":
		var answer protocol.ProcessResult
		if json.Unmarshal(e.Payload, &answer) == nil {
			detail = answer.Message
		}
	case v == Full, e.Is(activitylog.ProcessFinish), e.Is(activitylog.ProcessStart):
	case e.Is(activitylog.PeerConnected):
		var from struct{ Remote string }
		if detail = string(e.Payload); json.Unmarshal(e.Payload, &from) == nil && from.Remote != "" {
			detail = "from " + from.Remote
		}
	default:
		detail = string(e.Payload)
	}
	return strings.TrimSpace(detail + " " + e.Error)
}

func pruned(payload []byte) string {
	var r struct {
		write.Removal
		Reason string `json:"reason"`
	}
	if json.Unmarshal(payload, &r) != nil {
		return ""
	}
	return fmt.Sprintf("%s in %s removed: %s", Many(r.Rows, "row"), Many(int64(r.Segments), "sealed file"), r.Reason)
}

func (v Style) gap(payload []byte) string {
	var gap struct{ Lost int64 }
	err := json.Unmarshal(payload, &gap)
	switch {
	case v == Brief:
		return Many(gap.Lost, "row") + " lost:"
	case err != nil:
		return ""
	}
	return fmt.Sprintf("%d rows could not be written:", gap.Lost)
}

// Message describes a message: its text, an agent's record, or its content.
func (v Style) Message(payload []byte) string {
	var m struct{ Content json.RawMessage }
	if json.Unmarshal(payload, &m) != nil {
		return ""
	}
	var c struct{ Text, Event, Message, Status string }
	if json.Unmarshal(m.Content, &c) == nil && c.Text != "" {
		if v == Brief {
			return "“" + c.Text + "”"
		}
		return fmt.Sprintf("%q", c.Text)
	}
	if r, err := protocol.ParseRecord(m.Content); err == nil {
		switch r.Event {
		case protocol.RecordDecision, protocol.RecordDisposition, protocol.RecordRefusal, protocol.RecordTurn:
			return v.Record(&r)
		}
	}
	if v == Full && c.Event != "" && c.Message+c.Status != "" {
		return c.Event + ": " + strings.TrimSpace(c.Status+" "+c.Message)
	}
	if words := activitylog.Summary(m.Content); words != "" {
		return words
	}
	var b bytes.Buffer
	if json.Compact(&b, m.Content) != nil || v == Brief && b.Len() <= 2 {
		return ""
	}
	return b.String()
}

// result describes the result of sending a message.
func (v Style) result(result []byte) string {
	var r protocol.SendResult
	if json.Unmarshal(result, &r) != nil {
		return ""
	}
	between := ": "
	if v == Full {
		between = " "
		if r.DeliveredTo == 0 && len(r.Failures) == 0 {
			return "nobody is subscribed"
		}
	}
	text := fmt.Sprintf("delivered to %d", r.DeliveredTo)
	named := r.Failures[:min(3, len(r.Failures))]
	for _, f := range named {
		text += fmt.Sprintf(", %s%s%s", f.Peer, between, f.Status)
	}
	if more := len(r.Failures) - len(named) + r.Omitted; more > 0 {
		text += fmt.Sprintf(", and %d more failed", more)
	}
	return text
}

// Record describes an agent's record.
func (v Style) Record(r *protocol.Record) string {
	if v == Brief {
		return brief(r)
	}
	because := ""
	if r.Reason != "" {
		because = ", because " + r.Reason
	}
	switch c := r.Content.(type) {
	case *protocol.AttentionDecision:
		line := fmt.Sprintf("decided: %s, %s, %s", c.Directedness, c.Policy, c.Injection)
		if c.Priority != "" && c.Priority != "normal" {
			line += ", " + c.Priority
		}
		return line + because
	case *protocol.TurnRecord:
		line := "turn " + c.State
		if c.Attempt > 1 {
			line += fmt.Sprintf(" (attempt %d)", c.Attempt)
		}
		if n := len(c.MergedEventIDs); n > 1 {
			line += fmt.Sprintf(", for %d events at once", n)
		}
		return line + cost(&c.TurnCost) + because
	case *protocol.Refusal:
		return "refused: " + c.Tool + because
	case *protocol.Disposition:
		return "ended: " + c.Disposition + because
	case *protocol.ClaimRecord:
		if !c.Granted {
			return "lost the claim to " + cmp.Or(c.Owner, "another agent") + because
		}
		return fmt.Sprintf("claimed: token %d, by the %s", c.Token, cmp.Or(c.Via, "broker")) + because
	case *protocol.DeliveryRecord:
		what := strings.Fields("delivery of " + c.Kind + " " + string(c.MessageID))
		return strings.Join(what, " ") + ": " + c.Status + because
	case *protocol.PostRecord:
		return fmt.Sprintf("spoke first in %s, %s: %s", c.Target, cmp.Or(c.Directedness, "ambient"), c.MessageID) +
			because
	case *protocol.ReminderRecord:
		line := "reminder " + c.ReminderID + " " + c.State
		if c.State == "set" {
			line += " for " + c.Due
		}
		return line + because
	case *protocol.ObligationRecord:
		return obligation(c) + because
	case *protocol.EscalationRecord:
		return escalation(c, because)
	case *protocol.BudgetRecord:
		return fmt.Sprintf("no turn: a bound of %d was reached", c.Bound) + because
	case *protocol.HaltRecord:
		return strings.ReplaceAll(c.State, "_", " ") + " by " + c.By
	case *protocol.ToolCall:
		return toolCall(c)
	case *protocol.ApprovalRecord:
		line := fmt.Sprintf("decision %s about %s", c.DecisionID, approval(c))
		if c.Scope != "" {
			line += ", scope " + c.Scope
		}
		return line + fmt.Sprintf(", arguments sha256 %.12s", c.Digest) + because
	case *protocol.ProgressRecord:
		return "progress: " + c.Message + because
	default:
		return "recorded " + r.Event + because
	}
}

func escalation(c *protocol.EscalationRecord, because string) string {
	switch {
	case c.Rung == "author":
		return "escalated no further: the author, " + c.To + ", is notified that there is no answer" + because
	case c.State == "answered":
		return "answered in its place by " + c.By + " (" + c.Rung + ")"
	case c.Rung != "":
		return "escalated to " + c.To + " (" + c.Rung + ")" + because
	}
	return "escalated: a person was called into the exchange with " + cmp.Or(c.With, "another agent") + because
}

// cost describes the cost of a turn if its harness reported it.
func cost(a *protocol.TurnCost) string {
	if a.InputTokens+a.OutputTokens == 0 {
		return ""
	}
	said := fmt.Sprintf(", %d tokens in", a.InputTokens)
	if a.CachedTokens > 0 {
		said += fmt.Sprintf(" (%d of them cached)", a.CachedTokens)
	}
	said += fmt.Sprintf(" and %d out", a.OutputTokens)
	if a.USD > 0 {
		said += fmt.Sprintf(", %.4g US dollars", a.USD)
	}
	return said
}

func brief(r *protocol.Record) string {
	what := r.Event
	switch c := r.Content.(type) {
	case *protocol.AttentionDecision:
		return c.Policy + ", " + c.Injection + ": " + c.Reason
	case *protocol.TurnRecord:
		return "turn " + c.State
	case *protocol.Disposition:
		what = c.Disposition
	case *protocol.ApprovalRecord:
		what = approval(c)
	}
	return strings.TrimSuffix(what+": "+r.Reason, ": ")
}

// approval describes a decision about a tool.
func approval(a *protocol.ApprovalRecord) string {
	return fmt.Sprintf("%s: %s by %s", a.Tool, a.State, cmp.Or(a.By, "nobody"))
}

// obligation describes what happened to an obligation.
func obligation(a *protocol.ObligationRecord) string {
	by := ""
	if a.By != nil {
		by = *a.By
	}
	owed := "obligation " + a.ObligationID + " of " + a.Recipient + " "
	switch a.State {
	case "opened":
		return owed + "opened: " + a.Author + " waits for it (" + a.Blocks + ")"
	case "returned":
		return owed + "came back, open for " + a.Age
	case "missed":
		return owed + "did not come back while the agent was away"
	case "waits":
		return owed + "is due to come back, and waits"
	case "escalated":
		if a.To == "" {
			return owed + "escalated by " + by
		}
		return owed + "goes to " + a.To + " (" + a.Rung + "), open for " + a.Age
	case "none", "extend":
		return owed + "noted: a signal of " + by
	}
	if by != "" {
		return owed + a.State + " by " + by
	}
	return owed + a.State
}

// redactor removes secrets from the arguments of tool calls in records.
var redactor = sync.OnceValue(redact.New)

// toolCall describes a call of a tool and its result.
func toolCall(a *protocol.ToolCall) string {
	line := "called " + a.Tool
	if len(a.Arguments) > 0 {
		line += " " + text.Clip(string(redactor().Arguments(a.Arguments)), 200)
	}
	switch {
	case a.ResultSHA256 == "":
		return line + ": no result was recorded"
	case a.Failed:
		line += ": failed"
	}
	return fmt.Sprintf("%s, result of %d bytes, sha256 %.12s", line, a.ResultBytes, a.ResultSHA256)
}

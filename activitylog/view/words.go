package view

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/redact"
	"hubbub/protocol/text"
)

// A Style is how much words say. They say the same of a row.
type Style int

// The voices.
const (
	Full  Style = iota // a sentence, for a terminal
	Brief              // a phrase, for a cell of a table
)

// Row says what a row holds beside its columns.
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
		activitylog.Removal
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

// Message says what a message says: its text, what an agent recorded, or its content.
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
	var a activitylog.AttentionRecord
	if json.Unmarshal(m.Content, &a) == nil {
		switch a.Event {
		case activitylog.RecordDecision, activitylog.RecordDisposition, activitylog.RecordRefusal,
			activitylog.RecordTurn:
			return v.Record(&a)
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

// result says what became of a message.
func (v Style) result(result []byte) string {
	var r protocol.SendResult
	if json.Unmarshal(result, &r) != nil {
		return ""
	}
	between := ": "
	if v == Full {
		between = " "
		if r.DeliveredTo == 0 && len(r.Failures) == 0 {
			return "nobody listens"
		}
	}
	text := fmt.Sprintf("delivered to %d", r.DeliveredTo)
	for i, f := range r.Failures {
		if i == 3 {
			return text + fmt.Sprintf(", and %d more failed", len(r.Failures)-i)
		}
		text += fmt.Sprintf(", %s%s%s", f.Peer, between, f.Status)
	}
	return text
}

// Record says what an agent recorded.
func (v Style) Record(a *activitylog.AttentionRecord) string {
	if v == Brief {
		return brief(a)
	}
	because := ""
	if a.Reason != "" {
		because = ", because " + a.Reason
	}
	switch a.Event {
	case activitylog.RecordDecision:
		line := fmt.Sprintf("decided: %s, %s, %s", a.Directedness, a.Policy, a.Injection)
		if a.Priority != "" && a.Priority != "normal" {
			line += ", " + a.Priority
		}
		return line + because
	case activitylog.RecordTurn:
		line := "turn " + a.State
		if a.Attempt > 1 {
			line += fmt.Sprintf(" (attempt %d)", a.Attempt)
		}
		if n := len(a.MergedEventIDs); n > 1 {
			line += fmt.Sprintf(", for %d events at once", n)
		}
		return line + cost(a) + because
	case activitylog.RecordRefusal:
		return "refused: " + a.Tool + because
	case activitylog.RecordDisposition:
		return "ended: " + a.Disposition + because
	case activitylog.RecordClaim:
		if a.Granted == nil || !*a.Granted {
			return "lost the claim to " + cmp.Or(a.Owner, "another agent") + because
		}
		return fmt.Sprintf("claimed: token %d, by the %s", a.Token, cmp.Or(a.Via, "broker")) + because
	case activitylog.RecordDelivery:
		return strings.Join(strings.Fields("delivery of "+a.Kind+" "+a.Sent), " ") + ": " + a.Status + because
	case activitylog.RecordPost:
		return fmt.Sprintf("spoke first in %s, %s: %s", a.Target, cmp.Or(a.Directedness, "ambient"), a.Sent) + because
	case activitylog.RecordReminder:
		line := "reminder " + a.ReminderID + " " + a.State
		if a.State == "set" {
			line += " for " + a.Due
		}
		return line + because
	case activitylog.RecordObligation:
		return obligation(a) + because
	case activitylog.RecordEscalation:
		switch {
		case a.Rung == "author":
			return "escalated no further: the author, " + a.To + ", is told that there is no answer" + because
		case a.State == "answered":
			return "answered in its place by " + a.By + " (" + a.Rung + ")"
		case a.Rung != "":
			return "escalated to " + a.To + " (" + a.Rung + ")" + because
		}
		return "escalated: a person was called into the exchange with " + cmp.Or(a.With, "another agent") + because
	case activitylog.RecordBudget:
		return fmt.Sprintf("no turn: a bound of %d was reached", a.Bound) + because
	case activitylog.RecordHalt:
		return strings.ReplaceAll(a.State, "_", " ") + " by " + a.By
	case activitylog.RecordTool:
		return toolCall(a)
	case activitylog.RecordApproval:
		line := fmt.Sprintf("decision %s about %s", a.DecisionID, approval(a))
		if a.Scope != "" {
			line += ", scope " + a.Scope
		}
		return line + fmt.Sprintf(", arguments sha256 %.12s", a.Digest) + because
	case activitylog.RecordProgress:
		return "progress: " + a.Message + because
	default:
		return "recorded " + a.Event + because
	}
}

// cost says what a turn took, where its harness told.
func cost(a *activitylog.AttentionRecord) string {
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

func brief(a *activitylog.AttentionRecord) string {
	why := func(what string) string { return strings.TrimSuffix(what+": "+a.Reason, ": ") }
	switch a.Event {
	case activitylog.RecordDecision:
		return a.Policy + ", " + a.Injection + ": " + a.Reason
	case activitylog.RecordTurn:
		return "turn " + a.State
	case activitylog.RecordDisposition:
		return why(a.Disposition)
	case activitylog.RecordApproval:
		return why(approval(a))
	default:
		return why(a.Event)
	}
}

// approval says who decided what about a tool.
func approval(a *activitylog.AttentionRecord) string {
	return fmt.Sprintf("%s: %s by %s", a.Tool, a.State, cmp.Or(a.By, "nobody"))
}

// obligation says what became of what the author of an event waits for.
func obligation(a *activitylog.AttentionRecord) string {
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
			return owed + "escalated by " + a.By
		}
		return owed + "goes to " + a.To + " (" + a.Rung + "), open for " + a.Age
	case "none", "extend":
		return owed + "noted: a signal of " + a.By
	}
	if a.By != "" {
		return owed + a.State + " by " + a.By
	}
	return owed + a.State
}

// redactor removes the secrets of calls that agents of others recorded.
var redactor = sync.OnceValue(redact.New)

// toolCall says which tool was called with what, and what came of it.
func toolCall(a *activitylog.AttentionRecord) string {
	line := "called " + a.Tool
	if len(a.Arguments) > 0 {
		line += " " + text.Clip(string(redactor().Arguments(a.Arguments)), 200)
	}
	switch {
	case a.ResultSHA256 == "":
		return line + ": no result was told"
	case a.Failed:
		line += ": failed"
	}
	return fmt.Sprintf("%s, result of %d bytes, sha256 %.12s", line, a.ResultBytes, a.ResultSHA256)
}

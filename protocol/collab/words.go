package collab

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/text"
)

// maxQuoted bounds quoted texts in descriptions, in bytes.
const maxQuoted = 200

// A NameFunc returns the name for people of the party with that name and identity in a record.
type NameFunc func(name string, id protocol.PeerID) string

// NameOf is the NameFunc for operators. It returns the name, and the identity unless that follows
// from the name.
func NameOf(name string, id protocol.PeerID) string {
	if name == "" || id == "" || id == protocol.AgentID(name) {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, id)
}

// Describe describes the state of a work item and the parties responsible for it.
func (w *WorkItem) Describe(name NameFunc) string {
	said := string(w.State) + ", owner " + name(w.OwnerID, w.OwnerIdentity)
	if on := w.WaitingOn; on != nil {
		said += ", waits for " + cmp.Or(on.Label, on.TargetID)
	}
	if !w.Terminal() && w.NextMoveOwnerIdentity != w.OwnerIdentity {
		said += ", next move " + name(w.NextMoveOwnerID, w.NextMoveOwnerIdentity)
	}
	if w.AcceptanceState != "" && w.AcceptanceState != AcceptanceNone {
		said += ", " + w.AcceptanceState.describe()
	}
	return said
}

func (a Acceptance) describe() string {
	if a == AcceptancePending {
		return "not accepted yet"
	}
	return string(a)
}

// Describe describes a question, its state and its answer.
func (q *Question) Describe(name NameFunc) string {
	said := fmt.Sprintf("question %s (%s), asked of %s: %s", q.ID, q.State, name(q.AskedOfID, q.AskedOfIdentity),
		q.Title)
	if q.Answer != "" {
		said += "; the answer: " + text.Clip(q.Answer, maxQuoted)
	}
	return said
}

// Describe describes the outcome of a wake decision.
func (d *Decision) Describe() string {
	switch d.Outcome {
	case OutcomeWoken:
		return "woke " + d.TargetAgentID
	case OutcomeMissed:
		return d.TargetAgentID + " was not reached and is woken when it comes back"
	case OutcomeUnavailable:
		return d.TargetAgentID + " is away and is woken when it comes back"
	}
	return "woke nobody: " + d.Reason
}

// Text returns the text of a wake for its agent, including the texts of its records.
func (w *Wake) Text() string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if w.Message != nil {
		add("%s", w.Message.Text)
	}
	if w.Invocation != nil {
		add("%s", w.Invocation.Text)
	}
	if w.Question != nil {
		add("Question %s (%s): %s", w.Question.ID, w.Question.State, w.Question.Title)
		if w.Question.Answer != "" {
			add("Answer: %s", w.Question.Answer)
		}
	}
	if w.WorkItem != nil {
		add("Work item %s (%s): %s", w.WorkItem.ID, w.WorkItem.State, w.WorkItem.Title)
		if w.WorkItem.Summary != "" {
			add("%s", w.WorkItem.Summary)
		}
	}
	switch {
	case w.Sweep:
		add("This is a reminder, because nothing has happened for a while: %s.", w.Reason)
	case len(lines) == 0:
		add("You were woken: %s", w.Reason)
	}
	return strings.Join(lines, "\n")
}

// DescribeRequest describes a decision: the question while it is pending, and otherwise the
// outcome.
func (a *Approval) DescribeRequest() string {
	if a.State != ApprovalPending {
		return fmt.Sprintf("decision %s: %s", a.ID, a.Describe())
	}
	return fmt.Sprintf("decision %s: may %s run %s with %s (sha256 %s) for %s? %s may decide until %s, then: %s",
		a.ID, a.AskedByID, text.EscapeInvisible(a.Tool),
		text.Clip(text.EscapeInvisible(cmp.Or(a.Arguments, "no arguments")),
			maxQuoted),
		a.Digest, cmp.Or(a.EventID, "no event"), cmp.Or(strings.Join(a.MayDecide, ", "), "people at the command line"),
		a.ExpiresAt, a.Default)
}

// Describe describes an obligation and the last act about it.
func (d *EventObligation) Describe() string {
	said := fmt.Sprintf("obligation of %s to %s: %s", d.Recipient, d.Author, d.State)
	if len(d.Acts) > 0 {
		last := d.Acts[len(d.Acts)-1]
		return strings.TrimSpace(fmt.Sprintf("%s, after %s: %s %s", said, last.Actor, last.Kind, last.Signal))
	}
	return said + ", " + d.Blocks + " meanwhile: " + text.Clip(d.Title, maxQuoted)
}

// DescribeEvent describes an event from the broker. It returns "" if another event has the same
// description.
func DescribeEvent(e *protocol.CollabEvent, name NameFunc) string {
	switch e.Type {
	case EventWorkCreated.Name, EventWorkUpdated.Name:
		w, _ := EventWorkUpdated.Read(e)
		return describeStep(e, &w, name)
	case EventQuestionCreated.Name, EventQuestionAnswered.Name, EventQuestionUpdated.Name:
		q, _ := EventQuestionUpdated.Read(e)
		return q.Describe(name)
	case EventMessagePosted.Name:
		m, _ := EventMessagePosted.Read(e)
		var meta PostMetadata
		_ = json.Unmarshal(e.Metadata, &meta) // missing members are left out
		return fmt.Sprintf("said %q in %s: %s (%s)", text.Clip(m.Text, maxQuoted), m.ConversationID,
			meta.Wake.Describe(),
			meta.Wake.Reason)
	case EventInvocation.Name:
		i, _ := EventInvocation.Read(e)
		return fmt.Sprintf("handed to %s: %q", name(i.TargetAgentID, i.TargetIdentity), text.Clip(i.Text, maxQuoted))
	case EventFlight.Name:
		f, _ := EventFlight.Read(e)
		return strings.TrimSpace(fmt.Sprintf("flight %s of %s is %s %s", f.ID, f.TargetAgentID, f.State,
			text.Clip(cmp.Or(f.Error, f.Output), maxQuoted)))
	case EventDecisionAsked.Name, EventDecisionChanged.Name:
		a, _ := EventDecisionChanged.Read(e)
		return a.DescribeRequest()
	case EventObligationOpened.Name, EventObligationChanged.Name:
		o, _ := EventObligationChanged.Read(e)
		return o.Describe()
	case EventWakeDecided.Name:
		w, _ := EventWakeDecided.Read(e)
		return w.describe()
	case EventWoken.Name:
		w, _ := EventWoken.Read(e)
		return fmt.Sprintf("the wake of %s goes to %s (%s)", w.TargetAgentID, w.EndpointID, w.Reason)
	case EventDelivery.Name:
		return ""
	case EventDeliveryChanged.Name:
		return describeDelivery(e)
	}
	return strings.TrimPrefix(e.Type, "collab.")
}

// describeStep describes the effect of an event on a work item.
func describeStep(e *protocol.CollabEvent, w *WorkItem, name NameFunc) string {
	var meta StepMetadata
	_ = json.Unmarshal(e.Metadata, &meta) // missing members are left out
	said := cmp.Or(string(meta.Step), "changed") + ": " + w.Describe(name)
	if meta.Step == StepCreated {
		said += ": " + w.Title
	}
	return said
}

func (w *WakeDecided) describe() string {
	said := w.Decision.Describe()
	if w.Sweep && w.Decision.Outcome == OutcomeNobody && w.Decision.TargetAgentID != "" { // a person
		said = "tells " + w.Decision.Reason
	} else if w.Decision.Outcome != OutcomeNobody {
		said += " (" + w.Decision.Reason + ")"
	}
	if w.Sweep {
		said = "reminder, as nothing had happened: " + said
	}
	return said
}

// describeDelivery describes a change of a delivery. It returns "" while the wake waits.
func describeDelivery(e *protocol.CollabEvent) string {
	d, _ := EventDeliveryChanged.Read(e)
	var meta struct{ Reason string }
	_ = json.Unmarshal(e.Metadata, &meta) // there may be no metadata
	switch {
	case d.Status != DeliveryPending:
		return strings.TrimSpace(fmt.Sprintf("the wake of %s is %s %s", d.TargetAgentID, d.Status, meta.Reason))
	case d.Wake == WakeMissed:
		return fmt.Sprintf("the wake of %s reached nobody, and is sent again when it announces itself", d.TargetAgentID)
	case d.Wake == WakeWoken:
		return fmt.Sprintf("the wake of %s goes again, to %s", d.TargetAgentID, d.EndpointID)
	}
	return ""
}

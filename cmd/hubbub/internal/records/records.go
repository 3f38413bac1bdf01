package records

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// Name returns the name of somebody in a record. It adds the identity unless that is the agent of
// the name.
func Name(name string, id protocol.PeerID) string {
	if name == "" || id == "" || string(id) == "agent:"+name {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, id)
}

// Wake describes the outcome of a wake decision.
func Wake(d *collab.Decision) string {
	switch d.Outcome {
	case collab.OutcomeWoken:
		return "woke " + d.TargetAgentID
	case collab.OutcomeMissed:
		return d.TargetAgentID + " was not reached and is told when it comes"
	case collab.OutcomeUnavailable:
		return d.TargetAgentID + " is not there and is told when it comes"
	}
	return "woke nobody: " + d.Reason
}

// Event describes an event of the broker. It returns "" if another event says the same.
func Event(fact *protocol.CollabEvent) string {
	switch fact.Type {
	case collab.EventWorkCreated.Name, collab.EventWorkUpdated.Name:
		w, _ := collab.EventWorkUpdated.Read(fact)
		return workItem(fact, &w)
	case collab.EventQuestionCreated.Name, collab.EventQuestionAnswered.Name, collab.EventQuestionUpdated.Name:
		q, _ := collab.EventQuestionUpdated.Read(fact)
		said := fmt.Sprintf("question %s (%s), asked of %s: %s", q.ID, q.State, Name(q.AskedOfID, q.AskedOfIdentity), q.Title)
		if q.Answer != "" {
			said += "; the answer: " + text.Clip(q.Answer, 200)
		}
		return said
	case collab.EventMessagePosted.Name:
		m, _ := collab.EventMessagePosted.Read(fact)
		var meta collab.PostMetadata
		_ = json.Unmarshal(fact.Metadata, &meta) // without metadata, say less
		return fmt.Sprintf("said %q in %s: %s (%s)", text.Clip(m.Text, 200), m.ConversationID, Wake(&meta.Wake), meta.Wake.Reason)
	case collab.EventInvocation.Name:
		i, _ := collab.EventInvocation.Read(fact)
		return fmt.Sprintf("handed to %s: %q", Name(i.TargetAgentID, i.TargetIdentity), text.Clip(i.Text, 200))
	case collab.EventFlight.Name:
		f, _ := collab.EventFlight.Read(fact)
		return strings.TrimSpace(fmt.Sprintf("flight %s of %s is %s %s", f.ID, f.TargetAgentID, f.State, text.Clip(cmp.Or(f.Error, f.Output), 200)))
	case collab.EventDecisionAsked.Name, collab.EventDecisionChanged.Name:
		a, _ := collab.EventDecisionChanged.Read(fact)
		return decision(&a)
	case collab.EventObligationOpened.Name, collab.EventObligationChanged.Name:
		d, _ := collab.EventObligationChanged.Read(fact)
		return Obligation(&d)
	case collab.EventWakeDecided.Name, collab.EventWoken.Name, collab.EventDelivery.Name, collab.EventDeliveryChanged.Name:
		return wake(fact)
	}
	return strings.TrimPrefix(fact.Type, "collab.")
}

// decision describes a decision: what is asked of people, or how it was decided.
func decision(a *collab.Approval) string {
	if a.State != collab.ApprovalPending {
		return fmt.Sprintf("decision %s: %s", a.ID, a.Describe())
	}
	return fmt.Sprintf("decision %s: may %s run %s with %s (sha256 %s) for %s? %s may decide until %s, then: %s", a.ID, a.AskedByID, text.EscapeInvisible(a.Tool),
		text.Clip(text.EscapeInvisible(cmp.Or(a.Arguments, "no arguments")), 200), a.Digest, cmp.Or(a.EventID, "no event"),
		cmp.Or(strings.Join(a.MayDecide, ", "), "people at the command line"), a.ExpiresAt, a.Default)
}

// Obligation describes who waits for whom because of an event, and the latest act.
func Obligation(d *collab.EventObligation) string {
	said := fmt.Sprintf("obligation of %s to %s: %s", d.Recipient, d.Author, d.State)
	if len(d.Acts) > 0 {
		last := d.Acts[len(d.Acts)-1]
		return strings.TrimSpace(fmt.Sprintf("%s, after %s: %s %s", said, last.Actor, last.Kind, last.Signal))
	}
	return said + ", " + d.Blocks + " meanwhile: " + text.Clip(d.Title, 200)
}

func workItem(fact *protocol.CollabEvent, w *collab.WorkItem) string {
	var meta collab.StepMetadata
	_ = json.Unmarshal(fact.Metadata, &meta) // without metadata, say less
	said := fmt.Sprintf("%s: %s, owner %s", cmp.Or(string(meta.Step), "changed"), w.State, Name(w.OwnerID, w.OwnerIdentity))
	if !w.Terminal() {
		said += ", next move " + Name(w.NextMoveOwnerID, w.NextMoveOwnerIdentity)
	}
	if w.WaitingOn != nil {
		said += ", waits for " + cmp.Or(w.WaitingOn.Label, w.WaitingOn.TargetID)
	}
	if w.AcceptanceState != collab.AcceptanceNone {
		said += ", " + string(w.AcceptanceState)
	}
	if meta.Step == collab.StepCreated {
		said += ": " + w.Title
	}
	return said
}

// wake describes whom an event was to wake, and the outcome.
func wake(fact *protocol.CollabEvent) string {
	switch fact.Type {
	case collab.EventWakeDecided.Name:
		w, _ := collab.EventWakeDecided.Read(fact)
		said := Wake(&w.Decision)
		if w.Sweep && w.Decision.Outcome == collab.OutcomeNobody && w.Decision.TargetAgentID != "" { // a person
			said = "tells " + w.Decision.Reason
		} else if w.Decision.Outcome != collab.OutcomeNobody {
			said += " (" + w.Decision.Reason + ")"
		}
		if w.Sweep {
			said = "reminder, as nothing had happened: " + said
		}
		return said
	case collab.EventWoken.Name:
		w, _ := collab.EventWoken.Read(fact)
		return fmt.Sprintf("the wake of %s goes to %s (%s)", w.TargetAgentID, w.EndpointID, w.Reason)
	case collab.EventDeliveryChanged.Name:
		d, _ := collab.EventDeliveryChanged.Read(fact)
		var why struct{ Reason string }
		_ = json.Unmarshal(fact.Metadata, &why) // the reason is optional
		switch {
		case d.Status != collab.DeliveryPending:
			return strings.TrimSpace(fmt.Sprintf("the wake of %s is %s %s", d.TargetAgentID, d.Status, why.Reason))
		case d.Wake == collab.WakeMissed:
			return fmt.Sprintf("the wake of %s reached nobody, and is sent again when it announces itself", d.TargetAgentID)
		case d.Wake == collab.WakeWoken:
			return fmt.Sprintf("the wake of %s goes again, to %s", d.TargetAgentID, d.EndpointID)
		}
	}
	return ""
}

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// A step is one event of the broker about a record, in words.
type step struct {
	At      time.Time `json:"ts"`
	EventID string    `json:"eventId"`
	By      string    `json:"by"`
	Type    string    `json:"type"`
	What    string    `json:"what"`
	fact    protocol.CollabEvent
}

// stepsOf reads what the broker told about a record or event, the oldest first.
func stepsOf(ctx context.Context, r *activitylog.Reader, id string, since time.Time) (steps []*step, err error) {
	err = r.Facts(ctx, id, since, func(at time.Time, fact *protocol.CollabEvent) error {
		if what := factInWords(fact); what != "" {
			steps = append(steps, &step{at, fact.ID, fact.Source, fact.Type, what, *fact})
		}
		return nil
	})
	return steps, err
}

// factInWords says an event of the broker, "" if another one says it.
func factInWords(fact *protocol.CollabEvent) string {
	switch fact.Type {
	case collab.EventWorkCreated.Name, collab.EventWorkUpdated.Name:
		w, _ := collab.EventWorkUpdated.Read(fact)
		return workInWords(fact, &w)
	case collab.EventQuestionCreated.Name, collab.EventQuestionAnswered.Name, collab.EventQuestionUpdated.Name:
		q, _ := collab.EventQuestionUpdated.Read(fact)
		said := fmt.Sprintf("question %s (%s), asked of %s: %s", q.ID, q.State, shown(q.AskedOfID, q.AskedOfIdentity), q.Title)
		if q.Answer != "" {
			said += "; the answer: " + text.Clip(q.Answer, 200)
		}
		return said
	case collab.EventMessagePosted.Name:
		m, _ := collab.EventMessagePosted.Read(fact)
		var meta collab.PostMetadata
		_ = json.Unmarshal(fact.Metadata, &meta) // an older one says less
		return fmt.Sprintf("said %q in %s: %s (%s)", text.Clip(m.Text, 200), m.ConversationID, wakeLine(&meta.Wake), meta.Wake.Reason)
	case collab.EventInvocation.Name:
		i, _ := collab.EventInvocation.Read(fact)
		return fmt.Sprintf("handed to %s: %q", shown(i.TargetAgentID, i.TargetIdentity), text.Clip(i.Text, 200))
	case collab.EventFlight.Name:
		f, _ := collab.EventFlight.Read(fact)
		return strings.TrimSpace(fmt.Sprintf("flight %s of %s is %s %s", f.ID, f.TargetAgentID, f.State, text.Clip(cmp.Or(f.Error, f.Output), 200)))
	case collab.EventDecisionAsked.Name, collab.EventDecisionChanged.Name:
		a, _ := collab.EventDecisionChanged.Read(fact)
		return decisionInWords(&a)
	case collab.EventObligationOpened.Name, collab.EventObligationChanged.Name:
		d, _ := collab.EventObligationChanged.Read(fact)
		return dutyInWords(&d)
	case collab.EventWakeDecided.Name, collab.EventWoken.Name, collab.EventDelivery.Name, collab.EventDeliveryChanged.Name:
		return wakeInWords(fact)
	}
	return strings.TrimPrefix(fact.Type, "collab.")
}

// decisionInWords says what a person is asked, or how it was decided.
func decisionInWords(a *collab.Approval) string {
	if a.State != collab.ApprovalPending {
		return fmt.Sprintf("decision %s: %s", a.ID, a.Describe())
	}
	return fmt.Sprintf("decision %s: may %s run %s with %s (sha256 %s) for %s? %s may decide until %s, then: %s", a.ID, a.AskedByID, text.Spelled(a.Tool),
		text.Clip(text.Spelled(cmp.Or(a.Arguments, "no arguments")), 200), a.Digest, cmp.Or(a.EventID, "no event"),
		cmp.Or(strings.Join(a.MayDecide, ", "), "people at the command line"), a.ExpiresAt, a.Default)
}

// dutyInWords says who waits for whom on account of an event, and what was done about it last.
func dutyInWords(d *collab.EventObligation) string {
	said := fmt.Sprintf("obligation of %s to %s: %s", d.Recipient, d.Author, d.State)
	if len(d.Acts) > 0 {
		last := d.Acts[len(d.Acts)-1]
		return strings.TrimSpace(fmt.Sprintf("%s, after %s: %s %s", said, last.Actor, last.Kind, last.Signal))
	}
	return said + ", " + d.Blocks + " meanwhile: " + text.Clip(d.Title, 200)
}

func workInWords(fact *protocol.CollabEvent, w *collab.WorkItem) string {
	var meta collab.StepMetadata
	_ = json.Unmarshal(fact.Metadata, &meta) // an older one says less
	said := fmt.Sprintf("%s: %s, owner %s", cmp.Or(string(meta.Step), "changed"), w.State, shown(w.OwnerID, w.OwnerIdentity))
	if !w.Terminal() {
		said += ", next move " + shown(w.NextMoveOwnerID, w.NextMoveOwnerIdentity)
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

// wakeInWords says who was to be woken, and what became of it.
func wakeInWords(fact *protocol.CollabEvent) string {
	switch fact.Type {
	case collab.EventWakeDecided.Name:
		w, _ := collab.EventWakeDecided.Read(fact)
		said := wakeLine(&w.Decision)
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
		_ = json.Unmarshal(fact.Metadata, &why) // there need not be any
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

// nowInWords says how a record stands after its last event, as far as steps tell.
func nowInWords(steps []*step) (said string) {
	var wake, flight string
	for _, s := range steps {
		switch s.Type {
		case collab.EventWorkCreated.Name, collab.EventWorkUpdated.Name, collab.EventQuestionCreated.Name,
			collab.EventQuestionAnswered.Name, collab.EventQuestionUpdated.Name:
			_, said, _ = strings.Cut(s.What, ": ")
			if strings.HasPrefix(s.What, "question ") {
				said = s.What
			}
		case collab.EventFlight.Name:
			flight = s.What
		case collab.EventWakeDecided.Name, collab.EventMessagePosted.Name, collab.EventDeliveryChanged.Name:
			wake = s.What
		}
	}
	if said == "" && flight != "" { // its own, or an invocation's
		return flight
	}
	if wake != "" {
		said = strings.TrimPrefix(said+"; last: "+wake, "; last: ")
	}
	return said
}

func printSteps(p *printer, id string, steps []*step, titles *view.Titles) {
	p.line("%s", p.Paint(term.Bold, term.Printable(id)))
	for _, s := range steps {
		p.line("  %s  %s  %s", p.Paint(term.Dim, s.At.Local().Format("15:04:05.000")), term.Printable(s.By), term.Printable(s.What))
		if s.Type == collab.EventWoken.Name {
			p.line("%16s%s", "", p.Paint(term.Dim, term.Printable("what it made of it: hubbub why "+s.EventID)))
		}
	}
	if now := nowInWords(steps); now != "" {
		p.line("  since %s: %s", steps[len(steps)-1].At.Local().Format("15:04:05.000"), term.Printable(now))
	}
}

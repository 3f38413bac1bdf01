package activity

import (
	"context"
	"strings"
	"time"

	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/term"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// A brokerEvent is an event from the broker about a record, with its description.
type brokerEvent struct {
	At      time.Time `json:"ts"`
	EventID string    `json:"eventId"`
	By      string    `json:"by"`
	Type    string    `json:"type"`
	What    string    `json:"what"`
	event   protocol.CollabEvent
}

// readBrokerEvents reads the broker's events about a record or event, oldest first.
func readBrokerEvents(
	ctx context.Context, r *read.Reader, id string, since time.Time,
) (steps []*brokerEvent, err error) {
	err = r.CollabEvents(ctx, id, since, func(at time.Time, fact *protocol.CollabEvent) error {
		if what := collab.DescribeEvent(fact, collab.NameOf); what != "" {
			steps = append(steps, &brokerEvent{at, fact.ID, fact.Source, fact.Type, what, *fact})
		}
		return nil
	})
	return steps, err
}

// describeState describes the state of a record after its latest event.
func describeState(steps []*brokerEvent) (said string) {
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
	if said == "" && flight != "" { // the record is a flight or its invocation
		return flight
	}
	if wake != "" {
		said = strings.TrimPrefix(said+"; last: "+wake, "; last: ")
	}
	return said
}

func printBrokerEvents(p *output.Printer, id string, steps []*brokerEvent, titles *view.Titles) {
	p.Linef("%s", p.Paint(term.Bold, term.Printable(id)))
	for _, s := range steps {
		p.Linef(
			"  %s  %s  %s", p.Paint(term.Dim, s.At.Local().Format(clock)), term.Printable(s.By),
			term.Printable(s.What),
		)
		if s.Type == collab.EventWoken.Name {
			p.Linef("%16s%s", "", p.Paint(term.Dim, term.Printable("see: hubbub why "+s.EventID)))
		}
	}
	if now := describeState(steps); now != "" {
		p.Linef("  since %s: %s", steps[len(steps)-1].At.Local().Format(clock), term.Printable(now))
	}
}

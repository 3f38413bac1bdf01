package console

import (
	"encoding/json"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// The broker's records, whose times are read, and what the log told of them.
type (
	workItem struct {
		collab.WorkItem
		CreatedAt time.Time `json:"createdAt"`
		UpdatedAt time.Time `json:"updatedAt"`
		Steps     []step    `json:"-"`
	}
	question struct {
		collab.Question
		CreatedAt time.Time `json:"createdAt"`
		UpdatedAt time.Time `json:"updatedAt"`
		Steps     []step    `json:"-"`
	}
	flight struct {
		collab.Flight
		UpdatedAt time.Time `json:"updatedAt"`
	}
	claim struct {
		collab.Claim
		At   time.Time `json:"-"`
		Last string    `json:"-"` // type of the last event
	}
	endpoint struct {
		collab.Endpoint
		LastHeartbeatAt time.Time `json:"lastHeartbeatAt"`
	}
)

// A step is one event about a record.
type step struct {
	At        time.Time
	MessageID string
	Type      string
	Source    string
	Text      string
}

const maxSteps = 60

// collab takes one fact of the broker.
func (f *facts) collab(e *activitylog.Entry, m *protocol.Message, at time.Time) {
	var ev protocol.CollabEvent
	if m.From != protocol.PeerBroker || json.Unmarshal(m.Content, &ev) != nil {
		return
	}
	if protocol.Topic(e.Topic) != protocol.TopicCollabEvents {
		return // the same fact, told to the one whom it wakes
	}
	s := step{At: at, MessageID: e.MessageID, Type: ev.Type, Source: ev.Source}
	kind, last, _ := strings.Cut(strings.TrimPrefix(ev.Type, "collab."), ".")
	switch {
	case kind == "work_item":
		f.changeWork(payload[workItem](&ev), s)
	case kind == "question":
		if q := payload[question](&ev); q.ID != "" {
			s.Text = string(q.State)
			kept := f.asked.touch(q.ID)
			q.Steps = appendStep(kept.Steps, s)
			*kept = q
		}
	case ev.Type == collab.EventFlight.Name:
		f.changeFlight(payload[flight](&ev), s)
	case kind == "claim":
		if c := payload[claim](&ev); c.EventID != "" {
			c.At, c.Last = at, last
			*f.claims.touch(c.EventID) = c
		}
	case kind == "agent":
		if p := payload[endpoint](&ev); p.EndpointID != "" {
			*f.places.touch(p.EndpointID) = p
		}
	case ev.Type == collab.EventWakeDecided.Name:
		f.decideWake(&ev, s)
	}
}

// payload reads the record of an event; it is zero if it cannot be read.
func payload[R any](ev *protocol.CollabEvent) (r R) {
	if json.Unmarshal(ev.Payload, &r) != nil {
		return *new(R)
	}
	return r
}

func (f *facts) changeWork(w workItem, s step) {
	if w.ID == "" {
		return
	}
	kept := f.work.touch(w.ID)
	s.Text = string(w.State)
	if w.WaitingOn != nil {
		s.Text += ", on " + w.WaitingOn.Label
	}
	w.Title, w.Summary = text.Clip(w.Title, maxText), text.Clip(w.Summary, 10*maxText)
	w.Steps = appendStep(kept.Steps, s)
	*kept = w
}

func (f *facts) changeFlight(x flight, s step) {
	if x.ID == "" {
		return
	}
	x.Output, x.Error = text.Clip(x.Output, maxText), text.Clip(x.Error, maxText)
	*f.flights.touch(x.ID) = x
	if w := f.work.get(x.WorkItemID); w != nil {
		s.Text = "flight " + string(x.State) + " at " + x.TargetAgentID
		w.Steps = appendStep(w.Steps, s)
	}
}

// decideWake takes why somebody, or nobody, was woken for a record.
func (f *facts) decideWake(ev *protocol.CollabEvent, s step) {
	d, err := collab.EventWakeDecided.Read(ev)
	if err != nil {
		return
	}
	s.Text = string(d.Decision.Rule) + ": " + text.Clip(d.Decision.Reason, maxText)
	if d.Sweep {
		s.Text = "swept: " + s.Text
	}
	if w := f.work.get(d.RecordID); w != nil {
		w.Steps = appendStep(w.Steps, s)
	} else if q := f.asked.get(d.RecordID); q != nil {
		q.Steps = appendStep(q.Steps, s)
	}
}

func appendStep(steps []step, s step) []step {
	if len(steps) >= maxSteps {
		steps = append(steps[:0:0], steps[maxSteps/2:]...)
	}
	return append(steps, s)
}

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
	switch {
	case strings.HasPrefix(ev.Type, "collab.work_item."):
		f.changeWork(&ev, s)
	case strings.HasPrefix(ev.Type, "collab.question."):
		var q question
		if json.Unmarshal(ev.Payload, &q) == nil && q.ID != "" {
			kept := f.asked.touch(q.ID)
			s.Text = string(q.State)
			q.Steps = appendStep(kept.Steps, s)
			*kept = q
		}
	case ev.Type == collab.EventFlight.Name:
		f.changeFlight(&ev, s)
	case strings.HasPrefix(ev.Type, "collab.claim."):
		var c claim
		if json.Unmarshal(ev.Payload, &c) == nil && c.EventID != "" {
			c.At, c.Last = at, strings.TrimPrefix(ev.Type, "collab.claim.")
			*f.claims.touch(c.EventID) = c
		}
	case strings.HasPrefix(ev.Type, "collab.agent."):
		var p endpoint
		if json.Unmarshal(ev.Payload, &p) == nil && p.EndpointID != "" {
			*f.places.touch(p.EndpointID) = p
		}
	case ev.Type == collab.EventWakeDecided.Name:
		f.decideWake(&ev, s)
	}
}

func (f *facts) changeWork(ev *protocol.CollabEvent, s step) {
	var w workItem
	if json.Unmarshal(ev.Payload, &w) != nil || w.ID == "" {
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

func (f *facts) changeFlight(ev *protocol.CollabEvent, s step) {
	var x flight
	if json.Unmarshal(ev.Payload, &x) != nil || x.ID == "" {
		return
	}
	x.Output, x.Error = text.Clip(x.Output, maxText), text.Clip(x.Error, maxText)
	*f.flights.touch(x.ID) = x
	if w, ok := f.work.get(x.WorkItemID); ok {
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
	if w, ok := f.work.get(d.RecordID); ok {
		w.Steps = appendStep(w.Steps, s)
	} else if q, ok := f.asked.get(d.RecordID); ok {
		q.Steps = appendStep(q.Steps, s)
	}
}

func appendStep(steps []step, s step) []step {
	if len(steps) >= maxSteps {
		steps = append(steps[:0:0], steps[maxSteps/2:]...)
	}
	return append(steps, s)
}

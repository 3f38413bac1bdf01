package console

import (
	"encoding/json"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// An agent is what the log tells of one agent.
type agent struct {
	activitylog.AgentTally
	ID      string
	Online  time.Time // when it last said that it is there
	Last    time.Time // when it last recorded anything
	Chats   []string
	Replies int64

	Events []*agentEvent // the newest last
	byID   map[string]*agentEvent
}

// An agentEvent is one event as one agent sees it.
type agentEvent struct {
	activitylog.EventTally
	ID        string
	At        time.Time
	MessageID string // of the chat message that brought it
	Chat      string
	Author    string
	Text      string
}

func (f *facts) agent(id string) *agent {
	a := f.agents.touch(id)
	if a.byID == nil {
		*a = agent{ID: id, AgentTally: activitylog.AgentTally{Keep: 4 * maxEvents}, byID: map[string]*agentEvent{}}
	}
	return a
}

func (a *agent) event(id string) *agentEvent {
	e := a.byID[id]
	if e == nil {
		e = &agentEvent{ID: id}
		a.Events = keepByID(a.Events, a.byID, e, func(e *agentEvent) string { return e.ID })
	}
	return e
}

func (e *agentEvent) tell(c *chatEvent, chat string) {
	if e.At.IsZero() {
		e.At, e.MessageID, e.Chat, e.Author, e.Text = c.At, c.MessageID, chat, c.Author, c.Text
	}
}

// Open counts the open events among those remembered.
func (a *agent) Open() (n int) {
	for _, e := range a.Events {
		if e.Open() {
			n++
		}
	}
	return n
}

// agentEvent applies a record of an agent.
func (f *facts) agentEvent(e *activitylog.Entry, m *protocol.Message, at time.Time) {
	var r activitylog.AttentionRecord
	if json.Unmarshal(m.Content, &r) != nil || protocol.RoleOf(m.From) != protocol.RoleAgent {
		return
	}
	switch {
	case protocol.Topic(e.Topic) == protocol.TopicAgents && r.Event == "online":
		a := f.agent(string(m.From))
		a.Online, a.Last = at, at
	case protocol.Topic(e.Topic) == protocol.TopicAttention:
		a := f.agent(string(m.From))
		a.Last = at
		a.record(&r, at)
	}
}

func (a *agent) record(r *activitylog.AttentionRecord, at time.Time) {
	r.At, r.Reason = at, text.Clip(r.Reason, maxText)
	a.Add(r, func(id string) *activitylog.EventTally { return &a.event(id).EventTally })
	if r.Event == activitylog.RecordDecision {
		if e := a.event(r.EventID); e.At.IsZero() {
			e.At = at
		}
	}
}

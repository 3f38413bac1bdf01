package console

import (
	"encoding/json"
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// An agent is what is known of one.
type agent struct {
	ID       string
	Online   time.Time // when it last said that it is there
	Last     time.Time // when it last recorded anything
	Chats    []string
	Replies  int64
	Refusals int64
	Decided  int64
	Injected int64
	Knocks   int64
	Withheld int64
	Turns    int64
	Attempts int64
	Ends     map[string]int64 // dispositions as they stand
	stands   standing         // of all its events

	Events []*agentEvent // the newest last
	byID   map[string]*agentEvent
	turns  map[string]bool // of the turns seen lately
}

// An agentEvent is one event as one agent sees it.
type agentEvent struct {
	ID        string
	At        time.Time
	MessageID string // of the chat message that brought it
	Chat      string
	Author    string
	Text      string

	Decided      time.Time
	Directedness string
	Policy       string
	Injection    string
	Priority     string
	Reason       string

	Turn      string // id of the last one
	TurnState string
	Attempt   int
	Merged    int // events in its turn
	turned    bool
	stands    standing // as it is counted

	Disposition       string
	DispositionReason string
	Ended             time.Time
	Refusals          []refusal
}

type refusal struct {
	At           time.Time
	Tool, Reason string
}

const (
	maxAgentChats  = 100
	maxRefusals    = 10
	maxTurnsKept   = 4 * maxEvents
	maxEndingNames = 32
)

func (f *facts) agent(id string) *agent {
	return f.agents.touch(id, func() *agent {
		return &agent{ID: id, Ends: map[string]int64{}, byID: map[string]*agentEvent{}, turns: map[string]bool{}}
	})
}

func (a *agent) talks(chat string) {
	if !slices.Contains(a.Chats, chat) && len(a.Chats) < maxAgentChats {
		a.Chats = append(a.Chats, chat)
	}
}

func (a *agent) event(id string) *agentEvent {
	if e := a.byID[id]; e != nil {
		return e
	}
	if len(a.Events) >= 2*maxEvents {
		for _, old := range a.Events[:maxEvents] {
			delete(a.byID, old.ID)
		}
		a.Events = append(a.Events[:0], a.Events[maxEvents:]...)
	}
	e := &agentEvent{ID: id}
	a.Events, a.byID[id] = append(a.Events, e), e
	return e
}

func (e *agentEvent) tell(c *chatEvent, chat string) {
	if e.At.IsZero() {
		e.At, e.MessageID, e.Chat, e.Author, e.Text = c.At, c.MessageID, chat, c.Author, c.Text
	}
}

// Open reports whether the event waits for its end.
func (e *agentEvent) Open() bool {
	return !e.Decided.IsZero() && !activitylog.FinalDisposition(e.Disposition)
}

// A standing counts events by what became of them: one of an event, more of an
// agent.
type standing struct {
	Spared int64 // ended, and no turn is recorded for it
	Shown  int64 // its content was to be shown, and no later one superseded it
	Both   int64
}

func (e *agentEvent) standing() (s standing) {
	if e.Decided.IsZero() {
		return s
	}
	if !e.turned && !e.Open() {
		s.Spared = 1
	}
	if (e.Injection == "immediate" || e.Injection == "buffered") && e.Disposition != "superseded" {
		s.Shown = 1
	}
	s.Both = s.Spared * s.Shown
	return s
}

// weigh counts an event anew. What ended without a turn may get one after all: a
// digest brings it, or an edit.
func (a *agent) weigh(e *agentEvent) {
	old := e.stands
	e.stands = e.standing()
	a.stands.Spared += e.stands.Spared - old.Spared
	a.stands.Shown += e.stands.Shown - old.Shown
	a.stands.Both += e.stands.Both - old.Both
}

// turnsRun and avoided count as the log's reader does: an agent that records no
// turns is taken to run one for each event that it was shown.
func (a *agent) turnsRun() int64 {
	if a.Attempts == 0 {
		return a.stands.Shown
	}
	return a.Turns
}

func (a *agent) avoided() int64 {
	if a.Attempts == 0 {
		return a.stands.Spared - a.stands.Both
	}
	return a.stands.Spared
}

// Open counts the events that wait for their end, of those remembered.
func (a *agent) Open() (n int) {
	for _, e := range a.Events {
		if e.Open() {
			n++
		}
	}
	return n
}

// agentEvent takes what an agent records.
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
	switch r.Event {
	case activitylog.RecordDecision:
		a.decide(a.event(r.EventID), r, at)
	case activitylog.RecordDisposition:
		e := a.event(r.EventID)
		if e.Disposition != "" {
			a.Ends[e.Disposition]--
		}
		if _, ok := a.Ends[r.Disposition]; ok || len(a.Ends) < maxEndingNames {
			a.Ends[r.Disposition]++
		}
		e.Disposition, e.DispositionReason, e.Ended = r.Disposition, text.Clip(r.Reason, maxText), at
		a.weigh(e)
	case activitylog.RecordRefusal:
		a.Refusals++
		if e := a.event(r.EventID); len(e.Refusals) < maxRefusals {
			e.Refusals = append(e.Refusals, refusal{at, r.Tool, text.Clip(r.Reason, maxText)})
		}
	case activitylog.RecordTurn:
		a.turn(r, at)
	}
}

func (a *agent) decide(e *agentEvent, r *activitylog.AttentionRecord, at time.Time) {
	if e.Decided.IsZero() {
		a.Decided++
		a.count(r.Injection, 1)
	} else if e.Injection != r.Injection {
		a.count(e.Injection, -1)
		a.count(r.Injection, 1)
	}
	if e.At.IsZero() {
		e.At = at
	}
	e.Decided = at
	e.Directedness, e.Policy, e.Injection, e.Priority, e.Reason = r.Directedness, r.Policy, r.Injection, r.Priority, text.Clip(r.Reason, maxText)
	a.weigh(e)
}

func (a *agent) count(injection string, n int64) {
	switch injection {
	case "immediate", "buffered":
		a.Injected += n
	case "notify":
		a.Knocks += n
	default:
		a.Withheld += n
	}
}

func (a *agent) turn(r *activitylog.AttentionRecord, at time.Time) {
	key := r.TurnID
	if key == "" {
		key = r.EventID
	}
	if r.State == "started" {
		a.Attempts++
		if len(a.turns) >= maxTurnsKept {
			clear(a.turns)
		}
		if !a.turns[key] {
			a.turns[key] = true
			a.Turns++
		}
	}
	for _, id := range append([]string{r.EventID}, r.MergedEventIDs...) {
		e := a.event(id)
		e.Turn, e.TurnState, e.Attempt, e.Merged = key, r.State, r.Attempt, max(len(r.MergedEventIDs), 1)
		e.turned = e.turned || r.State == "started"
		a.weigh(e)
	}
}

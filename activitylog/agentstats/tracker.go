package agentstats

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/read"
	"hubbub/protocol"
)

// Stats count what one agent did with its events.
type Stats struct {
	Agent        string           `json:"agent"`
	Events       int64            `json:"events"`       // events that it decided on
	Injected     int64            `json:"injected"`     // events whose content went to the model
	Knocks       int64            `json:"knocks"`       // events that were announced to the model without their content
	Withheld     int64            `json:"withheld"`     // events kept in the mailbox or for a digest
	TurnsRun     int64            `json:"turnsRun"`     // turns of the harness; a retried turn counts once
	Attempts     int64            `json:"attempts"`     // runs of the harness
	TurnsAvoided int64            `json:"turnsAvoided"` // events that ended without a turn
	Merged       int64            `json:"merged"`       // events that shared the turn of another event
	Tokens       int64            `json:"tokens"`       // tokens that turns used
	OverBudget   int64            `json:"overBudget"`   // turns that a budget prevented
	Refusals     int64            `json:"refusals"`     // actions that the policy refused
	Open         int64            `json:"open"`         // events without a final disposition
	Dispositions map[string]int64 `json:"dispositions"` // number of events by their last disposition
}

// Add adds the numbers of another agent.
func (s *Stats) Add(o *Stats) {
	for _, n := range []struct{ sum, more *int64 }{
		{&s.Events, &o.Events}, {&s.Injected, &o.Injected}, {&s.Knocks, &o.Knocks}, {&s.Withheld, &o.Withheld},
		{&s.TurnsRun, &o.TurnsRun},
		{&s.Attempts, &o.Attempts}, {&s.TurnsAvoided, &o.TurnsAvoided}, {&s.Merged, &o.Merged},
		{&s.Refusals, &o.Refusals}, {&s.Open, &o.Open},
		{&s.Tokens, &o.Tokens}, {&s.OverBudget, &o.OverBudget},
	} {
		*n.sum += *n.more
	}
	for d, n := range o.Dispositions {
		s.Dispositions[d] += n
	}
}

// An EventState is one agent's handling of one event: the last record of each kind, empty if
// there is none.
type EventState struct {
	Decision  protocol.AttentionDecision
	DecidedAt time.Time
	Turn      protocol.TurnRecord
	End       protocol.Disposition // final or not
	Refusals  []protocol.Refusal   // at most maxRefusals

	turned  bool
	counted eventCounts
}

// Decided reports whether the agent has decided on the event.
func (e *EventState) Decided() bool { return e.Decision.Event != "" }

// Open reports whether the event was decided on and has not ended.
func (e *EventState) Open() bool {
	return e.Decided() && !activitylog.FinalDisposition(e.End.Disposition)
}

// The counts that one event adds to those of its agent, each 0 or 1.
const (
	countDecided = iota
	countInjected
	countKnocks
	countWithheld
	countOpen
	countTurned // it had a turn
	countSpared // it ended without a recorded turn
	countShown  // its content went to the model, and no later event superseded it
	countBoth   // countSpared and countShown
	countKinds
)

type eventCounts [countKinds]int64

func (e *EventState) counts() (c eventCounts) {
	if !e.Decided() {
		return c
	}
	injection := e.Decision.Injection
	injected, knock := injection == "immediate" || injection == "buffered", injection == "notify"
	spared, shown := !e.turned && !e.Open(), injected && e.End.Disposition != "superseded"
	for kind, holds := range [countKinds]bool{
		countDecided: true, countInjected: injected, countKnocks: knock, countWithheld: !injected && !knock,
		countOpen: e.Open(), countTurned: e.turned, countSpared: spared, countShown: shown, countBoth: spared && shown,
	} {
		if holds {
			c[kind] = 1
		}
	}
	return c
}

// A Tracker counts the attention records of one agent. The zero Tracker is ready to use.
type Tracker struct {
	// MaxEvents, if positive, bounds the turns that are remembered, and the names of
	// dispositions. A turn is remembered so that a later attempt does not count as another turn.
	MaxEvents int

	sum      eventCounts
	attempts int64
	turns    int64
	refusals int64
	tokens   int64
	held     int64 // turns that a budget prevented
	ends     map[string]int64
	known    map[string]bool // ids of turns
}

// maxRefusals bounds the refusals kept for one event.
const maxRefusals = 10

// Add adds the next record, whose Reason the caller may have shortened. The callback event
// returns the state of the event with that id, which the caller keeps.
func (t *Tracker) Add(r *activitylog.AttentionRecord, event func(id string) *EventState) {
	switch c := r.Content.(type) {
	case *protocol.AttentionDecision:
		t.change(event(r.EventID), func(e *EventState) {
			e.Decision, e.DecidedAt = *c, r.At
			e.Decision.Reason = r.Reason
		})
	case *protocol.Disposition:
		t.change(event(r.EventID), func(e *EventState) {
			e.End = *c
			e.End.Reason = r.Reason
		})
	case *protocol.Refusal:
		t.refusals++
		if e := event(r.EventID); len(e.Refusals) < maxRefusals {
			refusal := *c
			refusal.Reason = r.Reason
			e.Refusals = append(e.Refusals, refusal)
		}
	case *protocol.BudgetRecord:
		t.held++
	case *protocol.TurnRecord:
		t.tokens += c.InputTokens + c.OutputTokens
		started := c.State == "started"
		if started {
			t.start(cmp.Or(c.TurnID, r.EventID))
		}
		turn := *c
		turn.Reason = r.Reason
		for _, id := range append([]string{r.EventID}, c.MergedEventIDs...) {
			t.change(event(id), func(e *EventState) { e.Turn, e.turned = turn, e.turned || started })
		}
	}
}

func (t *Tracker) start(turn string) {
	t.attempts++
	if t.known == nil || t.MaxEvents > 0 && len(t.known) >= t.MaxEvents {
		t.known = map[string]bool{}
	}
	if !t.known[turn] {
		t.known[turn] = true
		t.turns++
	}
}

// change updates the state of an event and its counts. An event that ended without a turn may get
// one later, through a digest or an edit.
func (t *Tracker) change(e *EventState, change func(*EventState)) {
	before := e.End.Disposition
	change(e)
	now := e.counts()
	for kind := range now {
		t.sum[kind] += now[kind] - e.counted[kind]
	}
	if t.ends == nil {
		t.ends = map[string]int64{}
	}
	if e.counted[countDecided] > 0 {
		if t.ends[before]--; t.ends[before] <= 0 {
			delete(t.ends, before)
		}
	}
	end := e.End.Disposition
	if _, ok := t.ends[end]; e.Decided() && end != "" && (ok || t.MaxEvents == 0 || len(t.ends) < t.MaxEvents) {
		t.ends[end]++
	}
	e.counted = now
}

// Stats returns the counts. If the agent recorded no turns, Stats assumes one for each event
// whose content was injected and that no later event superseded.
func (t *Tracker) Stats(agent string) Stats {
	s := Stats{
		Agent: agent, Events: t.sum[countDecided], Injected: t.sum[countInjected], Knocks: t.sum[countKnocks],
		Withheld: t.sum[countWithheld],
		Open:     t.sum[countOpen], TurnsRun: t.turns, TurnsAvoided: t.sum[countSpared], Attempts: t.attempts,
		Refusals: t.refusals,
		Tokens:   t.tokens, OverBudget: t.held, Dispositions: maps.Clone(t.ends),
	}
	if t.attempts == 0 {
		s.TurnsRun, s.TurnsAvoided = t.sum[countShown], t.sum[countSpared]-t.sum[countBoth]
	} else {
		s.Merged = max(t.sum[countTurned]-t.turns, 0)
	}
	if s.Dispositions == nil {
		s.Dispositions = map[string]int64{}
	}
	return s
}

// Read returns the statistics of each agent, sorted by name, from the
// attention records between two times.
func Read(ctx context.Context, r *read.Reader, since, until time.Time) ([]Stats, error) {
	type agent struct {
		Tracker
		events map[string]*EventState
	}
	agents := map[string]*agent{}
	f := read.AttentionFilter{Since: since, Until: until}
	err := r.Attention(ctx, f, func(a *activitylog.AttentionRecord) error {
		t := agents[a.Agent]
		if t == nil {
			t = &agent{events: map[string]*EventState{}}
			agents[a.Agent] = t
		}
		t.Add(a, func(id string) *EventState {
			if t.events[id] == nil {
				t.events[id] = &EventState{}
			}
			return t.events[id]
		})
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []Stats
	for _, name := range slices.Sorted(maps.Keys(agents)) {
		list = append(list, agents[name].Stats(name))
	}
	return list, nil
}

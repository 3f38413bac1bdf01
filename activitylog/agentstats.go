package activitylog

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"
)

// AgentStats says what one agent's attention did with what was said around it.
type AgentStats struct {
	Agent        string           `json:"agent"`
	Events       int64            `json:"events"`       // that it decided on
	Injected     int64            `json:"injected"`     // those whose content its model was to see
	Knocks       int64            `json:"knocks"`       // those of which its model was only to be told
	Withheld     int64            `json:"withheld"`     // those that were kept in the mailbox, or for a digest
	TurnsRun     int64            `json:"turnsRun"`     // turns of its harness, each once however often it was tried
	Attempts     int64            `json:"attempts"`     // runs of its harness
	TurnsAvoided int64            `json:"turnsAvoided"` // events that ended without a turn
	Merged       int64            `json:"merged"`       // events that shared the turn of another one
	Refusals     int64            `json:"refusals"`     // actions that policy forbade
	Open         int64            `json:"open"`         // events without a final disposition
	Dispositions map[string]int64 `json:"dispositions"` // how events ended, or stand
}

// agentTally gathers what AgentStats is made of.
type agentTally struct {
	events   map[string]*eventTally
	turns    map[string]bool
	attempts int64
	refusals int64
}

type eventTally struct {
	decided     bool
	injection   string
	disposition string
	turned      bool
}

// AgentStats returns a line for each agent, by name, from the attention records
// of a time.
func (r *Reader) AgentStats(ctx context.Context, since, until time.Time) ([]AgentStats, error) {
	tallies := map[string]*agentTally{}
	err := r.Attention(ctx, AttentionFilter{Since: since, Until: until}, func(a *AttentionRecord) error {
		t := tallies[a.Agent]
		if t == nil {
			t = &agentTally{events: map[string]*eventTally{}, turns: map[string]bool{}}
			tallies[a.Agent] = t
		}
		t.add(a)
		return nil
	})
	if err != nil {
		return nil, err
	}
	var list []AgentStats
	for _, agent := range slices.Sorted(maps.Keys(tallies)) {
		list = append(list, tallies[agent].stats(agent))
	}
	return list, nil
}

func (t *agentTally) event(id string) *eventTally {
	e := t.events[id]
	if e == nil {
		e = &eventTally{}
		t.events[id] = e
	}
	return e
}

func (t *agentTally) add(a *AttentionRecord) {
	switch a.Event {
	case RecordDecision:
		e := t.event(a.EventID)
		e.decided, e.injection = true, a.Injection
	case RecordDisposition:
		t.event(a.EventID).disposition = a.Disposition
	case RecordRefusal:
		t.refusals++
	case RecordTurn:
		if a.State != "started" {
			return
		}
		t.attempts++
		t.turns[cmp.Or(a.TurnID, a.EventID)] = true
		t.event(a.EventID).turned = true
		for _, id := range a.MergedEventIDs {
			t.event(id).turned = true
		}
	}
}

// stats sums up. An agent that records no turns is taken to run one for each
// event whose content was injected and that no later one superseded.
func (t *agentTally) stats(agent string) AgentStats {
	s := AgentStats{Agent: agent, Attempts: t.attempts, Refusals: t.refusals, TurnsRun: int64(len(t.turns)), Dispositions: map[string]int64{}}
	recordsTurns := len(t.turns) > 0
	turned := int64(0)
	for _, e := range t.events {
		if !e.decided {
			continue
		}
		s.Events++
		switch e.injection {
		case "immediate", "buffered":
			s.Injected++
			e.turned = e.turned || !recordsTurns && e.disposition != "superseded"
		case "notify":
			s.Knocks++
		default:
			s.Withheld++
		}
		ended := FinalDisposition(e.disposition)
		switch {
		case e.turned:
			turned++
		case ended:
			s.TurnsAvoided++
		}
		if e.disposition != "" {
			s.Dispositions[e.disposition]++
		}
		if !ended {
			s.Open++
		}
	}
	if !recordsTurns {
		s.TurnsRun = turned
	}
	s.Merged = max(turned-s.TurnsRun, 0)
	return s
}

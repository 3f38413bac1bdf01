package activitylog

import (
	"encoding/json"
	"slices"
	"time"

	"hubbub/protocol"
)

// The kinds of a Span.
const (
	SpanWait = "wait" // an event waits for its turn, from the decision on
	SpanTurn = "turn" // a turn runs
)

// A Span is what goes on at an agent between the message that reports its beginning
// and the one that reports its end.
type Span struct {
	Kind  string
	Until time.Time
}

// Turns remembers what stood at the start of each turn that goes on, by its agent
// and id.
type Turns[T any] map[string]T

// Follow takes an agent's record. It returns what stood at the start of the turn
// that the record ends; false if it ends none.
func (t Turns[T]) Follow(agent string, r *AttentionRecord, start T) (begun T, ended bool) {
	key := agent + " " + r.TurnID
	switch {
	case r.Event != RecordTurn, r.State == "accepted": // it goes on
		return begun, false
	case r.State != "started":
		begun, ended = t[key]
		delete(t, key)
		return begun, ended
	}
	if _, again := t[key]; !again {
		t[key] = start
	}
	return begun, false
}

// Spans finds what goes on between the messages of a chain, by the id of the
// message with which each begins.
func (c *Chain) Spans() map[string]Span {
	spans, turns := map[string]Span{}, Turns[string]{}
	waits := map[string]string{} // the message of the decision, by agent and event
	for _, s := range slices.Concat(c.Causes, c.Steps) {
		var p struct{ Content AttentionRecord }
		if s.Type != string(protocol.TypeAgentEvent) || json.Unmarshal(s.Payload, &p) != nil {
			continue
		}
		r := &p.Content
		if r.Event == RecordDecision {
			waits[s.From+" "+r.EventID] = s.ID
		}
		if id, ended := turns.Follow(s.From, r, s.ID); ended {
			spans[id] = Span{SpanTurn, s.Begin()}
		}
		if r.Event != RecordTurn || r.State != "started" {
			continue
		}
		for _, id := range append([]string{r.EventID}, r.MergedEventIDs...) {
			if decision := waits[s.From+" "+id]; decision != "" {
				spans[decision] = Span{SpanWait, s.Begin()}
				delete(waits, s.From+" "+id)
			}
		}
	}
	return spans
}

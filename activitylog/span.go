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

// A Span is what goes on at an agent after a message by which it told of its
// beginning, until another by which it told of its end.
type Span struct {
	Kind  string
	Until time.Time
}

// Spans finds what goes on between the messages of a chain, by the id of the
// message with which each begins.
func (c *Chain) Spans() map[string]Span {
	type beginning struct {
		id   string
		done bool
	}
	spans, waits, turns := map[string]Span{}, map[string]*beginning{}, map[string]string{}
	for _, s := range slices.Concat(c.Causes, c.Steps) {
		var p struct{ Content AttentionRecord }
		if s.Type != string(protocol.TypeAgentEvent) || json.Unmarshal(s.Payload, &p) != nil {
			continue
		}
		r := &p.Content
		turn := s.From + " " + r.TurnID
		switch {
		case r.Event == RecordDecision:
			waits[s.From+" "+r.EventID] = &beginning{id: s.ID}
		case r.Event != RecordTurn, r.State == "accepted": // it goes on
		case r.State == "started":
			if _, again := turns[turn]; !again {
				turns[turn] = s.ID
			}
			for _, id := range append([]string{r.EventID}, r.MergedEventIDs...) {
				if w := waits[s.From+" "+id]; w != nil && !w.done {
					w.done, spans[w.id] = true, Span{SpanWait, s.Begin()}
				}
			}
		default:
			if id, ok := turns[turn]; ok {
				delete(turns, turn)
				spans[id] = Span{SpanTurn, s.Begin()}
			}
		}
	}
	return spans
}

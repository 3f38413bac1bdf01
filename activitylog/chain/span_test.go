package chain_test

import (
	"encoding/json"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/chain"
	"hubbub/activitylog/read"

	"github.com/google/go-cmp/cmp"
)

// TestSpans_JoinDecisionTurnAndEnd checks that an event waits from its decision
// to its turn, and that a turn lasts until its end, even if a program accepts it
// in between.
func TestSpans_JoinDecisionTurnAndEnd(t *testing.T) {
	at := time.Unix(0, 0).UTC()
	c := &chain.Chain{}
	record := func(id string, after time.Duration, content string) {
		m := &read.Message{ID: id, Type: "agent_event", From: "agent:a", Payload: json.RawMessage(`{"content":` + content + `}`)}
		m.Rows = []activitylog.Entry{{TS: at.Add(after).Format(time.RFC3339Nano)}}
		c.Steps = append(c.Steps, chain.Step{Message: m})
	}
	record("d1", 0, `{"event":"attention_decision","eventId":"e1"}`)
	record("d2", time.Second, `{"event":"attention_decision","eventId":"e2"}`)
	record("d3", time.Second, `{"event":"attention_decision","eventId":"e3"}`)
	record("s1", 2*time.Second, `{"event":"turn","eventId":"e2","mergedEventIds":["e1","e2"],"turnId":"t1","state":"started"}`)
	record("a1", 3*time.Second, `{"event":"turn","eventId":"e2","turnId":"t1","state":"accepted"}`)
	record("f1", 9*time.Second, `{"event":"turn","eventId":"e2","turnId":"t1","state":"finished"}`)
	record("s2", 10*time.Second, `{"event":"turn","eventId":"e3","turnId":"t2","state":"started"}`)
	record("x", 11*time.Second, `{"event":"turn","eventId":"e4","turnId":"t9","state":"failed"}`)
	want := map[string]chain.Span{
		"d1": {Kind: chain.SpanWait, Until: at.Add(2 * time.Second)}, "d2": {Kind: chain.SpanWait, Until: at.Add(2 * time.Second)},
		"d3": {Kind: chain.SpanWait, Until: at.Add(10 * time.Second)}, "s1": {Kind: chain.SpanTurn, Until: at.Add(9 * time.Second)},
	}
	if diff := cmp.Diff(want, c.Spans()); diff != "" {
		t.Error(diff)
	}
}

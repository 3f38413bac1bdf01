package activitylog_test

import (
	"encoding/json"
	"testing"
	"time"

	"hubbub/activitylog"

	"github.com/google/go-cmp/cmp"
)

// TestSpansJoinDecisionTurnAndEnd: an event waits from its decision to its turn,
// and a turn lasts until it ended, be it accepted by a program on the way.
func TestSpansJoinDecisionTurnAndEnd(t *testing.T) {
	at := time.Unix(0, 0).UTC()
	c := &activitylog.Chain{}
	record := func(id string, after time.Duration, content string) {
		m := &activitylog.Message{ID: id, Type: "agent_event", From: "agent:a", Payload: json.RawMessage(`{"content":` + content + `}`)}
		m.Rows = []activitylog.Entry{{TS: at.Add(after).Format(time.RFC3339Nano)}}
		c.Steps = append(c.Steps, activitylog.Step{Message: m})
	}
	record("d1", 0, `{"event":"attention_decision","eventId":"e1"}`)
	record("d2", time.Second, `{"event":"attention_decision","eventId":"e2"}`)
	record("d3", time.Second, `{"event":"attention_decision","eventId":"e3"}`)
	record("s1", 2*time.Second, `{"event":"turn","eventId":"e2","mergedEventIds":["e1","e2"],"turnId":"t1","state":"started"}`)
	record("a1", 3*time.Second, `{"event":"turn","eventId":"e2","turnId":"t1","state":"accepted"}`)
	record("f1", 9*time.Second, `{"event":"turn","eventId":"e2","turnId":"t1","state":"finished"}`)
	record("s2", 10*time.Second, `{"event":"turn","eventId":"e3","turnId":"t2","state":"started"}`)
	record("x", 11*time.Second, `{"event":"turn","eventId":"e4","turnId":"t9","state":"failed"}`)
	want := map[string]activitylog.Span{
		"d1": {Kind: activitylog.SpanWait, Until: at.Add(2 * time.Second)}, "d2": {Kind: activitylog.SpanWait, Until: at.Add(2 * time.Second)},
		"d3": {Kind: activitylog.SpanWait, Until: at.Add(10 * time.Second)}, "s1": {Kind: activitylog.SpanTurn, Until: at.Add(9 * time.Second)},
	}
	if diff := cmp.Diff(want, c.Spans()); diff != "" {
		t.Error(diff)
	}
}

func TestGist(t *testing.T) {
	for content, want := range map[string]string{
		`{"method":"identity.heartbeat","requestId":"r"}`:                               "identity.heartbeat",
		`{"requestId":"r","ok":true}`:                                                   "ok",
		`{"requestId":"r","ok":false,"error":{"code":"conflict","message":"is taken"}}`: "conflict: is taken",
		`{"id":"evt","type":"collab.agent.heartbeat","source":"x"}`:                     "collab.agent.heartbeat",
		`{"event":"exited","agent":"agent:a","reason":"killed"}`:                        "exited: killed",
		`{"messageId":"m","status":"delivered"}`:                                        "delivered",
		`{"typing":true}`:                                                               "is typing",
		`{"signal":"done"}`:                                                             "signal done",
		`{"topic":"tg:1","agent":"agent:a"}`:                                            "tg:1 · agent:a",
		`{"method":{"a":1},"status":7,"topic":"tg:1"}`:                                  "tg:1",
		`[1,2]`:   "",
		`{"x":1}`: "",
		``:        "",
	} {
		if got := activitylog.Summary(json.RawMessage(content)); got != want {
			t.Errorf("%s is %q; want %q", content, got, want)
		}
	}
}

package agentstats

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"hubbub/activitylog"

	"github.com/google/go-cmp/cmp"
)

// newRow returns the row of the nth record.
func newRow(n int, agent, content string) activitylog.Row {
	return activitylog.Row{
		At: time.Date(2026, 2, 17, 12, 0, n, 0, time.UTC).UnixMicro(), Event: activitylog.SendStart,
		MessageID: fmt.Sprint("m", n), RPCID: "1", Actor: agent, Topic: "system:attention", Status: activitylog.StatusStart,
		Payload: fmt.Appendf(nil, `{"messageId":"m%d","type":"agent_event","from":%q,"content":%s}`, n, agent, content),
	}
}

// newLog writes rows to a log and opens it.
func newLog(t *testing.T, rows []activitylog.Row) *activitylog.Reader {
	t.Helper()
	path := filepath.Join(t.TempDir(), "activity.db")
	w := activitylog.NewWriter(path, nil)
	w.Append(rows...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	r := activitylog.Open(path)
	t.Cleanup(r.Close)
	return r
}

// attentionLog records what two agents did with five events each.
func attentionLog(t *testing.T) *activitylog.Reader {
	var rows []activitylog.Row
	record := func(agent, content string, args ...any) {
		rows = append(rows, newRow(len(rows), agent, fmt.Sprintf(content, args...)))
	}
	decide := func(agent, event, injection string) {
		record(agent, `{"event":"attention_decision","eventId":%q,"agent":%q,"directedness":"d","policy":"p","injection":%q,"priority":"normal","reason":"why"}`, event, agent, injection)
	}
	decide("agent:a", "e1", "buffered")
	decide("agent:a", "e2", "buffered")
	record("agent:a", `{"event":"turn","eventId":"e2","mergedEventIds":["e1","e2"],"agent":"agent:a","turnId":"t1","attempt":1,"state":"started"}`)
	record("agent:a", `{"event":"turn","eventId":"e2","mergedEventIds":["e1","e2"],"agent":"agent:a","turnId":"t1","attempt":2,"state":"started"}`)
	record("agent:a", `{"event":"turn","eventId":"e2","agent":"agent:a","turnId":"t1","attempt":2,"state":"finished"}`)
	record("agent:a", `{"event":"disposition","eventId":"e1","agent":"agent:a","disposition":"superseded"}`)
	record("agent:a", `{"event":"disposition","eventId":"e2","agent":"agent:a","disposition":"claimed"}`)
	record("agent:a", `{"event":"disposition","eventId":"e2","agent":"agent:a","disposition":"responded"}`)
	decide("agent:a", "e3", "notify")
	decide("agent:a", "e4", "tool_mailbox")
	record("agent:a", `{"event":"refusal","eventId":"e4","agent":"agent:a","tool":"send_message","reason":"must_not_respond"}`)
	record("agent:a", `{"event":"disposition","eventId":"e4","agent":"agent:a","disposition":"ignored"}`)
	decide("agent:a", "e10", "silent")
	record("agent:a", `{"event":"disposition","eventId":"e10","agent":"agent:a","disposition":"deferred"}`)
	// One that records no turns, and lies about who it is.
	decide("agent:b", "e1", "immediate")
	record("agent:b", `{"event":"attention_decision","eventId":"e2","agent":"agent:a","injection":"silent"}`)
	record("agent:b", `{"event":"disposition","eventId":"e2","agent":"agent:b","disposition":"ignored"}`)
	// What is none of it.
	record("agent:b", `{"event":"mood","eventId":"e1"}`)
	record("agent:b", `{"event":17}`)
	record("agent:b", `{"event":"post","eventId":"","messageId":"m-post","target":"tg:1"}`)
	record("agent:b", `{"event":"delivery","eventId":"","messageId":"m-post","status":"failed"}`)
	return newLog(t, rows)
}

func TestStats(t *testing.T) {
	got, err := Read(t.Context(), attentionLog(t), time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	want := []Stats{
		{
			Agent: "agent:a", Events: 5, Injected: 2, Knocks: 1, Withheld: 2, TurnsRun: 1, Attempts: 2, TurnsAvoided: 1, Merged: 1,
			Refusals: 1, Open: 2, Dispositions: map[string]int64{"superseded": 1, "responded": 1, "ignored": 1, "deferred": 1},
		},
		{Agent: "agent:b", Events: 2, Injected: 1, Withheld: 1, TurnsRun: 1, TurnsAvoided: 1, Open: 1, Dispositions: map[string]int64{"ignored": 1}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestSpending: what turns took for each day, agent and chat; one that runs again is one turn, and its tokens are those of all runs.
func TestSpending(t *testing.T) {
	var rows []activitylog.Row
	record := func(agent, content string) { rows = append(rows, newRow(len(rows), agent, content)) }
	for _, r := range []string{
		`{"event":"turn","chat":"tg:1","turnId":"t1","attempt":1,"state":"started"}`,
		`{"event":"turn","chat":"tg:1","turnId":"t1","attempt":1,"state":"interrupted","inputTokens":5}`,
		`{"event":"turn","chat":"tg:1","turnId":"t1","attempt":2,"state":"started"}`,
		`{"event":"turn","chat":"tg:1","turnId":"t1","attempt":2,"state":"finished","inputTokens":10,"outputTokens":2}`,
		`{"event":"turn","chat":"tg:2","turnId":"t2","attempt":1,"state":"started"}`,
		`{"event":"budget","chat":"tg:2","turnId":"t3","state":"withheld","reason":"budget_turns"}`,
		`{"event":"turn","turnId":"t4","attempt":1,"state":"started"}`,
	} {
		record("agent:b", r)
	}
	record("agent:a", `{"event":"turn","chat":"tg:1","turnId":"t1","attempt":1,"state":"started"}`)
	record("agent:a", `{"event":"disposition","eventId":"e1","chat":"tg:1","disposition":"ignored"}`)
	got, err := ReadSpending(t.Context(), newLog(t, rows), time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	day := got[0].Day
	want := []Spending{
		{Day: day, Agent: "agent:a", Chat: "tg:1", Turns: 1},
		{Day: day, Agent: "agent:b", Turns: 1},
		{Day: day, Agent: "agent:b", Chat: "tg:1", Turns: 1, Tokens: 17},
		{Day: day, Agent: "agent:b", Chat: "tg:2", Turns: 1, Held: 1},
	}
	if diff := cmp.Diff(want, got); diff != "" || day < "2020-01-01" {
		t.Error(day, diff)
	}
}

package agentstats

import (
	"fmt"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/writetest"
	"hubbub/activitylog/read"

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
func newLog(t *testing.T, rows []activitylog.Row) *read.Reader {
	t.Helper()
	r := read.Open(writetest.Log(&logtest.Script{T: t, Rows: rows}, ""))
	t.Cleanup(r.Close)
	return r
}

func TestRead_CountsEventsOfEachAgent(t *testing.T) {
	got, err := Read(t.Context(), newLog(t, logtest.AttentionScript(t).Rows), time.Time{}, time.Time{})
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

// TestReadSpending_SumsByDayAgentAndChat checks that a retried turn counts once, with the tokens of
// all its attempts.
func TestReadSpending_SumsByDayAgentAndChat(t *testing.T) {
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

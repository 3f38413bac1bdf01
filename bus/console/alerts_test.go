package console

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog/write"
	"hubbub/bus/report"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

func TestAlertFinder_FindsAndSorts(t *testing.T) {
	now := time.Unix(10_000, 0)
	f := newReadModel()
	quiet := &alertFinder{Now: now, Status: &busStatus{}}
	if list := quiet.find(f); len(list) != 0 {
		t.Fatalf("alerts without a cause: %+v", list)
	}
	for range 3 {
		f.addFailure(StateFailure{At: now.Add(-time.Minute), Peer: "agent:a", Status: "timeout", Error: "no answer"})
	}
	f.addFailure(StateFailure{At: now.Add(-time.Second), From: "tg:1", Topic: "x", Status: "rejected", Error: "not allowed"})
	c := f.chat("tg:7")
	c.Title, c.State, c.Last = "<script>", "asked for an agent", now.Add(-time.Minute)
	a := f.agent("agent:gone")
	a.event("e1").Decision.Event, a.event("e1").DecidedAt = protocol.RecordDecision, now.Add(-time.Minute)
	stuck := f.agent("agent:stuck")
	stuck.event("e2").Decision.Event, stuck.event("e2").DecidedAt = protocol.RecordDecision, now.Add(-time.Hour)
	f.agent("agent:spent").BudgetRecord = protocol.BudgetRecord{Reason: "budget_turns", Bound: 5, Until: protocol.FormatTime(now.Add(time.Hour))}
	f.agent("agent:again").BudgetRecord = protocol.BudgetRecord{Reason: "budget_turns", Bound: 5, Until: protocol.FormatTime(now)}
	f.broker.decisions.touch("d1").State, f.broker.decisions.touch("d1").ExpiresAt = collab.ApprovalPending, protocol.FormatTime(now.Add(time.Minute))
	f.broker.decisions.touch("d2").State, f.broker.decisions.touch("d2").ExpiresAt = collab.ApprovalPending, protocol.FormatTime(now)
	p := &busStatus{Counters: report.Counters{Log: &write.Stats{Lost: 12, Gaps: 1}, Partial: true, Missing: []string{"west"}}}
	list := (&alertFinder{Now: now, Status: p, DeadLetters: 1, Limited: 2, Peers: []peerLine{
		{StatePeer: StatePeer{Peer: report.Peer{ID: "agent:stuck", Queued: 5, Unanswered: 256}, Connected: true}, WindowPct: 100, WindowMax: 256, QueueMax: 1024},
	}}).find(f)
	var got []string
	for _, o := range list {
		got = append(got, o.Tone+" "+o.Title)
	}
	want := []string{
		"bad rejected: 1 message refused from tg:1", "bad timeout: 3 deliveries failed at a", "bad 12 rows of the activity log were lost since the start",
		"bad Out of reach: west", "bad 1 dead letter waits for a person", "bad gone is not connected",
		"warn <script> waits for an agent", "warn Limits were reached 2 times", "warn stuck does not keep up", "warn stuck is stuck",
		"warn spent has used up a budget", "warn 1 decision waits for a person",
	}
	slices.Sort(want)
	sorted := slices.Sorted(slices.Values(got))
	if !slices.Equal(sorted, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(sorted, "\n"), strings.Join(want, "\n"))
	}
	if !slices.IsSortedFunc(list, func(a, b alert) int { return strings.Compare(a.Tone, b.Tone) }) {
		t.Errorf("what is bad does not come first: %q", got)
	}
	if list := (&alertFinder{Now: now.Add(24 * time.Hour), Status: &busStatus{}}).find(f); slices.ContainsFunc(list, func(o alert) bool { return strings.Contains(o.Title, "failed at") }) {
		t.Errorf("a failure of yesterday is still odd: %+v", list)
	}
}

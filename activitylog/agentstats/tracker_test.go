package agentstats

import (
	"fmt"
	"testing"

	"hubbub/activitylog"
	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

func TestStats_OfAgentsAddUp(t *testing.T) {
	sum := Stats{
		Agent: "all", Events: 1, Injected: 2, Knocks: 3, Withheld: 4, TurnsRun: 5, Attempts: 6, TurnsAvoided: 7, Merged: 8, Tokens: 9, OverBudget: 10,
		Refusals: 11, Open: 12, Dispositions: map[string]int64{"responded": 1, "ignored": 2},
	}
	sum.Add(&Stats{
		Agent: "one", Events: 100, Injected: 200, Knocks: 300, Withheld: 400, TurnsRun: 500, Attempts: 600, TurnsAvoided: 700, Merged: 800, Tokens: 900,
		OverBudget: 1000, Refusals: 1100, Open: 1200, Dispositions: map[string]int64{"responded": 10, "deferred": 30},
	})
	want := Stats{
		Agent: "all", Events: 101, Injected: 202, Knocks: 303, Withheld: 404, TurnsRun: 505, Attempts: 606, TurnsAvoided: 707, Merged: 808, Tokens: 909,
		OverBudget: 1010, Refusals: 1111, Open: 1212, Dispositions: map[string]int64{"responded": 11, "ignored": 2, "deferred": 30},
	}
	if diff := cmp.Diff(want, sum); diff != "" {
		t.Error(diff)
	}
}

// countRecords counts records of one agent, and returns its events.
func countRecords(tracker *Tracker, records ...activitylog.AttentionRecord) map[string]*EventState {
	events := map[string]*EventState{}
	for i := range records {
		tracker.Add(&records[i], func(id string) *EventState {
			if events[id] == nil {
				events[id] = &EventState{}
			}
			return events[id]
		})
	}
	return events
}

func recorded(kind, event string, content any) activitylog.AttentionRecord {
	return activitylog.AttentionRecord{Record: protocol.Record{Event: kind, EventID: event, Content: content}}
}

func decided(event, injection string) activitylog.AttentionRecord {
	return recorded(protocol.RecordDecision, event,
		&protocol.AttentionDecision{Event: protocol.RecordDecision, EventID: event, Injection: injection})
}

func ended(event, disposition string) activitylog.AttentionRecord {
	return recorded(protocol.RecordDisposition, event, &protocol.Disposition{Disposition: disposition})
}

func turned(state, turn, event string, merged ...string) activitylog.AttentionRecord {
	return recorded(protocol.RecordTurn, event, &protocol.TurnRecord{State: state, TurnID: turn, MergedEventIDs: merged})
}

func TestTracker_CountsRecords(t *testing.T) {
	none := map[string]int64{}
	budget := recorded(protocol.RecordBudget, "e", &protocol.BudgetRecord{})
	costs := turned("finished", "t", "e")
	costs.Content.(*protocol.TurnRecord).TurnCost = protocol.TurnCost{InputTokens: 30, OutputTokens: 4, CachedTokens: 20}
	for name, c := range map[string]struct {
		records []activitylog.AttentionRecord
		want    Stats
	}{
		"nothing":                   {nil, Stats{Dispositions: none}},
		"an end without a decision": {[]activitylog.AttentionRecord{ended("e", "ignored")}, Stats{Dispositions: none}},
		"an end before its decision": {[]activitylog.AttentionRecord{ended("e", "ignored"), decided("e", "silent")},
			Stats{Events: 1, Withheld: 1, TurnsAvoided: 1, Dispositions: map[string]int64{"ignored": 1}}},
		"immediate": {[]activitylog.AttentionRecord{decided("e", "immediate")}, Stats{Events: 1, Injected: 1, Open: 1, TurnsRun: 1, Dispositions: none}},
		"buffered":  {[]activitylog.AttentionRecord{decided("e", "buffered")}, Stats{Events: 1, Injected: 1, Open: 1, TurnsRun: 1, Dispositions: none}},
		"a knock":   {[]activitylog.AttentionRecord{decided("e", "notify")}, Stats{Events: 1, Knocks: 1, Open: 1, Dispositions: none}},
		"withheld":  {[]activitylog.AttentionRecord{decided("e", "tool_mailbox")}, Stats{Events: 1, Withheld: 1, Open: 1, Dispositions: none}},
		"decided twice": {[]activitylog.AttentionRecord{decided("e", "notify"), decided("e", "immediate")},
			Stats{Events: 1, Injected: 1, Open: 1, TurnsRun: 1, Dispositions: none}},
		"answered, and no turn told": {[]activitylog.AttentionRecord{decided("e", "immediate"), ended("e", "responded")},
			Stats{Events: 1, Injected: 1, TurnsRun: 1, Dispositions: map[string]int64{"responded": 1}}},
		"superseded, and no turn told": {[]activitylog.AttentionRecord{decided("e", "immediate"), ended("e", "superseded")},
			Stats{Events: 1, Injected: 1, TurnsAvoided: 1, Dispositions: map[string]int64{"superseded": 1}}},
		"claimed": {[]activitylog.AttentionRecord{decided("e", "immediate"), ended("e", "claimed")},
			Stats{Events: 1, Injected: 1, Open: 1, TurnsRun: 1, Dispositions: map[string]int64{"claimed": 1}}},
		"claimed, then answered": {[]activitylog.AttentionRecord{decided("e", "immediate"), ended("e", "claimed"), ended("e", "responded")},
			Stats{Events: 1, Injected: 1, TurnsRun: 1, Dispositions: map[string]int64{"responded": 1}}},
		"two alike, one of which goes on": {[]activitylog.AttentionRecord{decided("e", "silent"), decided("f", "silent"), ended("e", "deferred"), ended("f", "deferred"), ended("f", "ignored")},
			Stats{Events: 2, Withheld: 2, Open: 1, TurnsAvoided: 1, Dispositions: map[string]int64{"deferred": 1, "ignored": 1}}},
		"a turn": {[]activitylog.AttentionRecord{decided("e", "immediate"), turned("started", "t", "e"), turned("finished", "t", "e"), ended("e", "responded")},
			Stats{Events: 1, Injected: 1, TurnsRun: 1, Attempts: 1, Dispositions: map[string]int64{"responded": 1}}},
		"one that waits": {[]activitylog.AttentionRecord{decided("e", "immediate"), turned("waiting", "t", "e")},
			Stats{Events: 1, Injected: 1, Open: 1, TurnsRun: 1, Dispositions: none}},
		"one tried twice": {[]activitylog.AttentionRecord{decided("e", "immediate"), turned("started", "t", "e"), turned("failed", "t", "e"), turned("started", "t", "e")},
			Stats{Events: 1, Injected: 1, Open: 1, TurnsRun: 1, Attempts: 2, Dispositions: none}},
		"two without a name": {[]activitylog.AttentionRecord{decided("e", "silent"), decided("f", "silent"), turned("started", "", "e"), turned("started", "", "f")},
			Stats{Events: 2, Withheld: 2, Open: 2, TurnsRun: 2, Attempts: 2, Dispositions: none}},
		"two events in one": {[]activitylog.AttentionRecord{decided("e", "silent"), decided("f", "silent"), turned("started", "t", "f", "e", "f"), ended("e", "ignored")},
			Stats{Events: 2, Withheld: 2, Open: 1, TurnsRun: 1, Attempts: 1, Merged: 1, Dispositions: map[string]int64{"ignored": 1}}},
		"more turns than events": {[]activitylog.AttentionRecord{decided("e", "silent"), turned("started", "t", "e"), turned("started", "u", "e")},
			Stats{Events: 1, Withheld: 1, Open: 1, TurnsRun: 2, Attempts: 2, Dispositions: none}},
		"tokens":   {[]activitylog.AttentionRecord{costs, costs}, Stats{Tokens: 68, Dispositions: none}},
		"a bound":  {[]activitylog.AttentionRecord{budget, budget}, Stats{OverBudget: 2, Dispositions: none}},
		"the rest": {[]activitylog.AttentionRecord{recorded("tool", "e", &protocol.ToolCall{}), recorded("claim", "e", &protocol.ClaimRecord{}), recorded("mood", "e", nil)}, Stats{Dispositions: none}},
	} {
		var tracker Tracker
		countRecords(&tracker, c.records...)
		c.want.Agent = "agent:a"
		if diff := cmp.Diff(c.want, tracker.Stats("agent:a")); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestTracker_KeepsTheShortReason checks that the tracker keeps a record's reason and not
// the one in its content.
func TestTracker_KeepsTheShortReason(t *testing.T) {
	records := []activitylog.AttentionRecord{
		recorded(protocol.RecordDecision, "e", &protocol.AttentionDecision{Reason: "a long reason"}),
		recorded(protocol.RecordTurn, "e", &protocol.TurnRecord{Reason: "a long reason"}),
		recorded(protocol.RecordRefusal, "e", &protocol.Refusal{Reason: "a long reason"}),
		recorded(protocol.RecordDisposition, "e", &protocol.Disposition{Reason: "a long reason"}),
	}
	for i := range records {
		records[i].Reason = fmt.Sprint("short ", i)
	}
	e := countRecords(&Tracker{}, records...)["e"]
	got := []string{e.Decision.Reason, e.Turn.Reason, e.Refusals[0].Reason, e.End.Reason}
	if diff := cmp.Diff([]string{"short 0", "short 1", "short 2", "short 3"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTracker_IsBounded(t *testing.T) {
	var records []activitylog.AttentionRecord
	for range 12 {
		records = append(records, recorded(protocol.RecordRefusal, "e", &protocol.Refusal{}))
	}
	var tracker Tracker
	if e := countRecords(&tracker, records...)["e"]; len(e.Refusals) != 10 || tracker.Stats("").Refusals != 12 {
		t.Errorf("%d refusals are kept of %d", len(e.Refusals), tracker.Stats("").Refusals)
	}
	// One turn more than the bound makes the tracker forget all of them, so a retried
	// turn counts again.
	for keep, want := range map[int]int64{0: 3, 2: 4, 3: 4, 4: 3} {
		tracker = Tracker{MaxEvents: keep}
		countRecords(&tracker, turned("started", "t", "e"), turned("started", "u", "e"), turned("started", "v", "e"), turned("started", "t", "e"))
		if s := tracker.Stats(""); s.TurnsRun != want || s.Attempts != 4 {
			t.Errorf("of %d that are kept, %d turns and %d attempts", keep, s.TurnsRun, s.Attempts)
		}
	}
	for keep, want := range map[int]string{0: "map[d0:2 d1:1 d2:1 d3:1]", 2: "map[d0:2 d1:1]", 3: "map[d0:2 d1:1 d2:1]"} {
		tracker, records = Tracker{MaxEvents: keep}, nil
		for i := range 4 {
			records = append(records, decided(fmt.Sprint(i), "silent"), ended(fmt.Sprint(i), fmt.Sprint("d", i)))
		}
		countRecords(&tracker, append(records, decided("again", "silent"), ended("again", "d0"))...)
		if got := fmt.Sprint(tracker.Stats("").Dispositions); got != want {
			t.Errorf("of %d names that are kept: %s; want %s", keep, got, want)
		}
	}
}

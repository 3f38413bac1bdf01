package protocol

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestRecord_Encoding checks each kind of record byte for byte, and that it is read as it was
// written.
func TestRecord_Encoding(t *testing.T) {
	const a, until = PeerID("agent:a"), "2026-11-28T15:00:00Z"
	obligation := ObligationRecord{Event: RecordObligation, EventID: "e<1", Agent: a, ObligationID: "o1", Author: "tg:77",
		Recipient: "agent:a", Blocks: "work", Age: "2h"}
	of := func(state string, change func(*ObligationRecord)) *ObligationRecord {
		r := obligation
		r.State = state
		change(&r)
		return &r
	}
	for _, c := range []struct {
		record any
		want   string
	}{
		{&AttentionDecision{Event: RecordDecision, EventID: "e<1", Agent: a, Directedness: "to_me", Policy: "must_respond", Injection: "buffered", Priority: "urgent", Reason: "direct_message"},
			`{"event":"attention_decision","eventId":"e\u003c1","agent":"agent:a","directedness":"to_me","policy":"must_respond","injection":"buffered","priority":"urgent","reason":"direct_message"}`},
		{&Disposition{Event: RecordDisposition, EventID: "e<1", Agent: a, Disposition: "responded"},
			`{"event":"disposition","eventId":"e\u003c1","agent":"agent:a","disposition":"responded","reason":""}`},
		{&Refusal{Event: RecordRefusal, EventID: "e<1", Agent: a, Tool: "chat.react", Reason: "left"},
			`{"event":"refusal","eventId":"e\u003c1","agent":"agent:a","tool":"chat.react","reason":"left"}`},
		{&ToolCall{Event: RecordTool, EventID: "e<1", Agent: a, TurnID: "t1", Tool: "search", Arguments: json.RawMessage(`{"q":"\u003cx\u003e"}`), ArgumentsBytes: 7, ResultBytes: 6, ResultSHA256: "0123456789abcdef", Failed: true},
			`{"event":"tool","eventId":"e\u003c1","agent":"agent:a","turnId":"t1","tool":"search","arguments":{"q":"\u003cx\u003e"},"argumentsBytes":7,"resultBytes":6,"resultSha256":"0123456789abcdef","failed":true}`},
		{&TurnRecord{Event: RecordTurn, EventID: "e<1", MergedEventIDs: []string{"e<1", "e2"}, Agent: a, Chat: "tg:1", TurnID: "t1", Attempt: 2, Mode: "immediate", State: "finished", Reason: "r", TurnCost: TurnCost{Model: "m", InputTokens: 100, CachedTokens: 60, OutputTokens: 7, USD: 0.0025, ToolCalls: 3, DurationMS: 1234}},
			`{"event":"turn","eventId":"e\u003c1","mergedEventIds":["e\u003c1","e2"],"agent":"agent:a","chat":"tg:1","turnId":"t1","attempt":2,"mode":"immediate","state":"finished","reason":"r","model":"m","inputTokens":100,"cachedTokens":60,"outputTokens":7,"usd":0.0025,"toolCalls":3,"durationMs":1234}`},
		{&TurnRecord{Event: RecordTurn, EventID: "e<1", Agent: a, Chat: "tg:1", TurnID: "t1", Attempt: 1, Mode: "immediate", State: "started"},
			`{"event":"turn","eventId":"e\u003c1","agent":"agent:a","chat":"tg:1","turnId":"t1","attempt":1,"mode":"immediate","state":"started"}`},
		{&ApprovalRecord{Event: RecordApproval, EventID: "e<1", Agent: a, State: "allowed", DecisionID: "dec_1", By: "tg:77", Tool: "shell", Scope: "once", Digest: "0123456789abcdef", Reason: "r"},
			`{"event":"decision","eventId":"e\u003c1","agent":"agent:a","state":"allowed","decisionId":"dec_1","by":"tg:77","tool":"shell","scope":"once","digest":"0123456789abcdef","reason":"r"}`},
		{&ApprovalRecord{Event: RecordApproval, EventID: "e<1", Agent: a, State: "cancelled", DecisionID: "dec_1", Tool: "shell", Digest: "01"},
			`{"event":"decision","eventId":"e\u003c1","agent":"agent:a","state":"cancelled","decisionId":"dec_1","by":"","tool":"shell","digest":"01"}`},
		{&HaltRecord{Event: RecordHalt, Agent: a, State: "halted", Scope: "tg:1", By: "tg:77", Stopped: []string{"e2"}},
			`{"event":"halt","eventId":"","agent":"agent:a","state":"halted","scope":"tg:1","by":"tg:77","stopped":["e2"]}`},
		{&BudgetRecord{Event: RecordBudget, EventID: "e<1", Agent: a, Chat: "tg:1", TurnID: "t1", State: "withheld", Reason: "budget_turns", Bound: 5, Until: until},
			`{"agent":"agent:a","bound":5,"chat":"tg:1","event":"budget","eventId":"e\u003c1","reason":"budget_turns","state":"withheld","turnId":"t1","until":"2026-11-28T15:00:00Z"}`},
		{&DeliveryRecord{Event: RecordDelivery, EventID: "e<1", Agent: a, MessageID: "m1", Kind: "text", Status: "failed", Reason: "r"},
			`{"agent":"agent:a","event":"delivery","eventId":"e\u003c1","kind":"text","messageId":"m1","reason":"r","status":"failed"}`},
		{&PostRecord{Event: RecordPost, Agent: a, MessageID: "m1", Target: "tg:1", Directedness: "ambient", Reason: "r"},
			`{"agent":"agent:a","directedness":"ambient","event":"post","eventId":"","messageId":"m1","reason":"r","target":"tg:1"}`},
		{&ReminderRecord{Event: RecordReminder, EventID: "e<1", Agent: a, ReminderID: "r-1", State: "set", Target: "tg:1", Reason: "r", Due: until},
			`{"agent":"agent:a","due":"2026-11-28T15:00:00Z","event":"reminder","eventId":"e\u003c1","reason":"r","reminderId":"r-1","state":"set","target":"tg:1"}`},
		{&ReminderRecord{Event: RecordReminder, EventID: "e<1", Agent: a, ReminderID: "r-1", State: "cancelled", Target: "tg:1"},
			`{"agent":"agent:a","event":"reminder","eventId":"e\u003c1","reason":"","reminderId":"r-1","state":"cancelled","target":"tg:1"}`},
		{of("escalated", func(r *ObligationRecord) { r.Reason, r.Rung, r.To = "r", "lead", "agent:boss" }),
			`{"age":"2h","agent":"agent:a","author":"tg:77","blocks":"work","event":"obligation","eventId":"e\u003c1","obligationId":"o1","reason":"r","recipient":"agent:a","rung":"lead","state":"escalated","to":"agent:boss"}`},
		{of("returned", func(r *ObligationRecord) { r.Reason, r.ReturnID, r.Slot = "r", "ret", new(int64) }),
			`{"age":"2h","agent":"agent:a","author":"tg:77","blocks":"work","event":"obligation","eventId":"e\u003c1","obligationId":"o1","reason":"r","recipient":"agent:a","returnId":"ret","slot":0,"state":"returned"}`},
		{of("paused", func(r *ObligationRecord) { r.By = new("") }),
			`{"age":"2h","agent":"agent:a","author":"tg:77","blocks":"work","by":"","event":"obligation","eventId":"e\u003c1","obligationId":"o1","recipient":"agent:a","state":"paused"}`},
		{of("extend", func(r *ObligationRecord) { r.By, r.Signal = new("tg:77"), new("working") }),
			`{"age":"2h","agent":"agent:a","author":"tg:77","blocks":"work","by":"tg:77","event":"obligation","eventId":"e\u003c1","obligationId":"o1","recipient":"agent:a","signal":"working","state":"extend"}`},
		{of("missed", func(r *ObligationRecord) { r.Reason, r.Until = "r", until }),
			`{"age":"2h","agent":"agent:a","author":"tg:77","blocks":"work","event":"obligation","eventId":"e\u003c1","obligationId":"o1","reason":"r","recipient":"agent:a","state":"missed","until":"2026-11-28T15:00:00Z"}`},
		{&EscalationRecord{Event: RecordEscalation, EventID: "e<1", Agent: a, Rung: "lead", To: "agent:boss", Reason: "unanswered"},
			`{"agent":"agent:a","event":"escalation","eventId":"e\u003c1","reason":"unanswered","rung":"lead","to":"agent:boss"}`},
		{&EscalationRecord{Event: RecordEscalation, EventID: "e<1", Agent: a, Rung: "lead", To: "agent:boss", State: "answered", By: "agent:boss"},
			`{"agent":"agent:a","by":"agent:boss","event":"escalation","eventId":"e\u003c1","rung":"lead","state":"answered","to":"agent:boss"}`},
		{&EscalationRecord{Event: RecordEscalation, EventID: "e<1", Agent: a, With: "agent:b", Reason: "exchange_limit"},
			`{"agent":"agent:a","event":"escalation","eventId":"e\u003c1","reason":"exchange_limit","with":"agent:b"}`},
		{&ProgressRecord{Event: RecordProgress, EventID: "e<1", Agent: a, TurnID: "t1", Message: "half", Progress: 1.5, ProgressToken: "tok"},
			`{"agent":"agent:a","event":"progress","eventId":"e\u003c1","message":"half","progress":1.5,"progressToken":"tok","total":0,"turnId":"t1"}`},
		{&ProgressRecord{Event: RecordProgress, Agent: a, TurnID: "t1", Message: "half", Progress: 1},
			`{"agent":"agent:a","event":"progress","message":"half","progress":1,"total":0,"turnId":"t1"}`},
		{&ClaimRecord{Event: RecordClaim, EventID: "e<1", Agent: a, Granted: true, Owner: "agent:a", Token: 3, Via: "local"},
			`{"event":"claim","eventId":"e\u003c1","agent":"agent:a","granted":true,"owner":"agent:a","token":3,"via":"local"}`},
		{&ClaimRecord{Event: RecordClaim, EventID: "e<1", Agent: a, Owner: "agent:b", Via: "broker"},
			`{"event":"claim","eventId":"e\u003c1","agent":"agent:a","granted":false,"owner":"agent:b","via":"broker"}`},
	} {
		content, err := json.Marshal(c.record)
		if err != nil {
			t.Fatal(err)
		}
		if string(content) != c.want {
			t.Errorf("%T is written as\n%s\nwant\n%s", c.record, content, c.want)
		}
		r, err := ParseRecord(content)
		if err != nil || !reflect.DeepEqual(r.Content, c.record) {
			t.Errorf("%s is read as %#v, %v", content, r.Content, err)
		}
	}
}

package collab

import (
	"encoding/json"
	"testing"
	"time"

	"hubbub/protocol"
)

// TestResults_HaveTheirWireFormat checks that results are written as clients from other vendors
// expect them, and read back unchanged.
func TestResults_HaveTheirWireFormat(t *testing.T) {
	work := WorkItem{ID: "wi_1", Kind: KindWorkItem, State: WorkOpen, AcceptanceState: AcceptanceNone}
	const workJSON = `{"id":"wi_1","kind":"work_item","title":"","createdById":"","state":"open","acceptanceState":"none","createdAt":"","updatedAt":""}`
	decision := Decision{
		TargetAgentID: "lead", EndpointID: "e1", Rule: RuleOwner, Reason: "a <b>", Outcome: OutcomeWoken,
		Candidates: []Candidate{{AgentID: "lead", Rule: RuleOwner, Chosen: true, Reason: "owns it"}},
	}
	const decisionJSON = `{"targetAgentId":"lead","endpointId":"e1","rule":"owner","candidates":[{"agentId":"lead","rule":"owner","chosen":true,"reason":"owns it"}],"reason":"a <b>","outcome":"woken"}`
	const wakeJSON = `{"targetAgentId":"lead","endpointId":"e1","rule":"owner","candidates":[{"agentId":"lead","rule":"owner","chosen":true,"reason":"owns it"}],"reason":"a <b>"}`
	const listedJSON = `{"id":"wi_1","later":true}`
	for _, tt := range []struct {
		value, into any
		want        string
	}{
		{Result{WorkItem: work}, &Result{}, `{"work_item":` + workJSON + `}`},
		{Result{WorkItem: work, Duplicate: true}, &Result{}, `{"duplicate":true,"work_item":` + workJSON + `}`},
		{
			Result{WorkItem: work, Decision: &decision, Wake: AskedWake{true, decision.Summary()}}, &Result{},
			`{"decision":` + decisionJSON + `,"wake":` + wakeJSON + `,"work_item":` + workJSON + `}`,
		},
		{Result{WorkItem: work, Wake: AskedWake{Asked: true}}, &Result{}, `{"wake":null,"work_item":` + workJSON + `}`},
		{
			Explanation{decision, decision.Summary(), false}, &Explanation{},
			`{"candidates":[{"agentId":"lead","chosen":true,"reason":"owns it","rule":"owner"}],"endpointId":"e1","outcome":"woken","reason":"a <b>","rule":"owner","targetAgentId":"lead","wake":` + wakeJSON + `}`,
		},
		{Page[WorkItem]{Items: []Listed[WorkItem]{}}, &Page[WorkItem]{}, `{"next":null,"work_items":[]}`},
		{
			Page[WorkItem]{Items: []Listed[WorkItem]{{json.RawMessage(listedJSON)}}, Next: new("wi_1")}, &Page[WorkItem]{},
			`{"next":"wi_1","work_items":[` + listedJSON + `]}`,
		},
		{Page[Endpoint]{}, &Page[Endpoint]{}, `{"identities":null,"next":null}`},
		{Page[Question]{}, &Page[Question]{}, `{"next":null,"questions":null}`},
		{Page[Delivery]{}, &Page[Delivery]{}, `{"deliveries":null,"next":null}`},
		{DeliveryResult{}, &DeliveryResult{}, `{"delivery":null}`},
		{Grant{Owner: "lead"}, &Grant{}, `{"granted":false,"owner":"lead","expiresAt":""}`},
	} {
		raw, err := Encode(tt.value)
		if err != nil || string(raw) != tt.want {
			t.Errorf("%T is written as\n%s, %v; want\n%s", tt.value, raw, err, tt.want)
			continue
		}
		if err := json.Unmarshal(raw, tt.into); err != nil {
			t.Errorf("%s is not read: %v", raw, err)
			continue
		}
		if again, err := Encode(tt.into); err != nil || string(again) != tt.want {
			t.Errorf("what was read of\n%s is written as\n%s, %v", raw, again, err)
		}
	}
}

func TestSettleClaim_MakesARequest(t *testing.T) {
	m := SettleClaim("agent:lead", "evt_1", 7, true)
	var r protocol.CollabRequest
	if err := json.Unmarshal(m.Content, &r); err != nil || m.From != "agent:lead" || m.Type != protocol.TypeCollabRequest {
		t.Fatalf("%+v, %v", m, err)
	}
	if r.Method != "claim.release" || string(r.Params) != `{"eventId":"evt_1","token":7,"answered":true}` || r.RequestID == "" {
		t.Errorf("answered: %+v, params %s", r, r.Params)
	}
	if m := SettleClaim("agent:lead", "evt_1", 7, false); json.Unmarshal(m.Content, &r) != nil || r.Method != "claim.decline" || string(r.Params) != `{"eventId":"evt_1"}` {
		t.Errorf("not answered: %s", m.Content)
	}
}

func TestReadResult_ReturnsResultOrRefusal(t *testing.T) {
	if raw, err := ReadResult(&protocol.CollabResult{OK: true, Result: json.RawMessage(`{"a":1}`)}); err != nil || string(raw) != `{"a":1}` {
		t.Errorf("ok: %s, %v", raw, err)
	}
	_, err := ReadResult(&protocol.CollabResult{Error: &protocol.CollabError{Code: "not_found", Message: "there is no such thing", Details: json.RawMessage(`{"x":1}`)}})
	if Refusal(err) != CodeNotFound || err.Error() != "there is no such thing (not_found)" {
		t.Errorf("refused: %v", err)
	}
	if raw, _ := Encode(err); string(raw) != `{"code":"not_found","message":"there is no such thing","details":{"x":1}}` {
		t.Errorf("the refusal is written as %s", raw)
	}
	if _, err := ReadResult(&protocol.CollabResult{}); Refusal(err) != CodeInvalid {
		t.Errorf("without a reason: %v", err)
	}
	if Refusal(ErrNoBroker) != "" || Refusal(nil) != "" {
		t.Error("what is no refusal has a code")
	}
}

func TestParseTime(t *testing.T) {
	want := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for text, ok := range map[string]bool{`"2026-01-02T03:04:05Z"`: true, `"2026-01-02t03:04:05z"`: true, `1767323045000`: true, `"yesterday"`: false, `{}`: false} {
		var m Moment
		if err := json.Unmarshal([]byte(text), &m); (err == nil) != ok || ok && !m.Equal(want) {
			t.Errorf("%s is read as %v, %v", text, m.Time, err)
		}
	}
	if !ParseTime("").IsZero() || !ParseTime(protocol.FormatTime(want)).Equal(want) || !ParseTime("2026-01-02t03:04:05z").Equal(want) {
		t.Error("a record's time is not read")
	}
}

func TestEventType_ReadsItsPayload(t *testing.T) {
	c, err := EventClaimOffered.Read(&protocol.CollabEvent{Payload: json.RawMessage(`{"eventId":"evt_1"}`)})
	if err != nil || c.EventID != "evt_1" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := EventClaimOffered.Read(&protocol.CollabEvent{Payload: json.RawMessage(`[]`)}); err == nil {
		t.Error("an array is read as a claim")
	}
}

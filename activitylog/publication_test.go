package activitylog

import (
	"strings"
	"testing"
)

// TestALiveAssemblerForgets: a pass that is finished is forgotten, a row whose
// send_start was not seen belongs to none, and what never ends is bounded.
func TestALiveAssemblerForgets(t *testing.T) {
	a := Assembler{MaxPending: 2}
	add := func(event Event, id, rpc string) (*Publication, *Delivery) {
		return a.Add(&Entry{Event: event.String(), MessageID: id, RPCID: rpc, Actor: "agent:a", Topic: "agent:a", Status: "ok"})
	}
	if p, d := add(ProcessFinish, "unseen", "7"); p != nil || d != nil {
		t.Errorf("a row of an unseen message belongs to %+v", p)
	}
	begun, _ := add(SendStart, "m", "1")
	if p, d := add(ProcessStart, "m", "7"); p != begun || d == nil {
		t.Errorf("the delivery belongs to %+v", p)
	}
	if p, d := add(ProcessFinish, "m", "7"); p != begun || d != begun.Deliveries[0] || d.Status != "ok" {
		t.Errorf("its end belongs to %+v of %+v", d, p)
	}
	if p, _ := add(SendFinish, "m", "1"); p != begun || p.Status != "ok" || len(a.publications) != 0 {
		t.Errorf("the end of the pass belongs to %+v, and %d are left", p, len(a.publications))
	}
	for i := range 10 {
		if add(SendStart, strings.Repeat("x", i+1), "1"); len(a.publications) > 3 {
			t.Fatalf("%d passes are under way", len(a.publications))
		}
	}
}

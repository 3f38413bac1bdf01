package activitylog

import (
	"strings"
	"testing"
)

// TestAssembler_ForgetsWhenLive checks that a live Assembler forgets a finished publication,
// skips a row whose send_start it has not seen, and bounds publications that never end.
func TestAssembler_ForgetsWhenLive(t *testing.T) {
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
	if p, _ := add(SendFinish, "m", "1"); p != begun || p.Status != "ok" || len(a.All()) != 0 {
		t.Errorf("the end of the pass belongs to %+v, and %d are left", p, len(a.All()))
	}
	for i := range 10 {
		if add(SendStart, strings.Repeat("x", i+1), "1"); len(a.All()) > 3 {
			t.Fatalf("%d passes are under way", len(a.All()))
		}
	}
}

package collab

import (
	"testing"

	"hubbub/protocol"
)

func TestNameOf_TellsAPersonFromTheAgentOfTheName(t *testing.T) {
	for _, c := range []struct {
		name string
		id   protocol.PeerID
		want string
	}{{"lead", "agent:lead", "lead"}, {"lead", "tg:77", "lead (tg:77)"}, {"lead", "", "lead"}, {"", "tg:77", ""}} {
		if got := NameOf(c.name, c.id); got != c.want {
			t.Errorf("%q, %q is %q; want %q", c.name, c.id, got, c.want)
		}
	}
}

func TestWorkItem_DescribesWhoIsResponsible(t *testing.T) {
	w := WorkItem{
		ID: "wi_1", State: WorkWaiting, OwnerID: "lead", OwnerIdentity: "agent:lead",
		NextMoveOwnerID: "will", NextMoveOwnerIdentity: "cli:will",
		WaitingOn: &WaitingOn{Label: "the key"}, AcceptanceState: AcceptancePending,
	}
	want := "waiting, owner lead, waits for the key, next move will (cli:will), not accepted yet"
	if got := w.Describe(NameOf); got != want {
		t.Errorf("it is described as %q; want %q", got, want)
	}
	w.State, w.WaitingOn, w.AcceptanceState = WorkDone, nil, AcceptanceAccepted
	if got := w.Describe(NameOf); got != "done, owner lead, accepted" {
		t.Errorf("finished work is described as %q", got)
	}
}

func TestDescribeEvent_DescribesEveryTypeOrNamesIt(t *testing.T) {
	for typ, c := range map[string][3]string{
		EventWorkCreated.Name:     {`{"state":"open","ownerId":"lead","title":"T"}`, `{"step":"created"}`, "created: open, owner lead: T"},
		EventDelivery.Name:        {`{}`, ``, ""},
		EventDeliveryChanged.Name: {`{"status":"cancelled","targetAgentId":"lead"}`, `{"reason":"done"}`, "the wake of lead is cancelled done"},
		EventWakeDecided.Name:     {`{"decision":{"outcome":"woken","targetAgentId":"lead","reason":"r"}}`, ``, "woke lead (r)"},
		EventBinding.Name:         {`{}`, ``, "binding.set"},
	} {
		e := protocol.CollabEvent{Type: typ, Payload: []byte(c[0]), Metadata: []byte(c[1])}
		if got := DescribeEvent(&e, NameOf); got != c[2] {
			t.Errorf("%s is %q; want %q", typ, got, c[2])
		}
	}
}

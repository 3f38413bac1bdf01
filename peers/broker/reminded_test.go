package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/protocol/collab"

	"github.com/google/go-cmp/cmp"
)

// TestWakeReminded_ListsReminders lists each until something happens to it, once only: own
// work, owned work, work asked for, and follow-ups.
func TestWakeReminded_ListsReminders(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	group(d, "")
	want := func(who string, want ...string) {
		t.Helper()
		var got []string
		for _, r := range d.do("agent:x", "wake.reminded", m{"remindedId": who}).list("reminders") {
			got = append(got, fmt.Sprintf("%s %s (%s): %s %s", r["kind"], r["id"], r["title"], r["remindedIdentity"], r["reason"]))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("reminders of %s (-want +got):\n%s", who, diff)
		}
	}
	d.do("cli:bob", "work_item.create", m{"id": "own", "title": "mine", "ownerId": "cli:bob", "nextMoveOwnerId": "cli:bob", "state": "waiting",
		"waitingOn": m{"kind": "artifact", "label": "the build"}})
	d.do("cli:bob", "work_item.create", m{"id": "ghost's", "title": "t", "ownerId": "cli:bob", "nextMoveOwnerId": "ghost", "wake": true})
	d.do("cli:bob", "message.post", m{"id": "m", "conversationId": "c", "text": "@lead look", "followUp": true})
	flight := d.do("cli:bob", "invocation.create", m{"targetAgentId": "lead", "text": "do it"}).at("flight", "id")
	want("")
	d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"})
	d.now = d.now.Add(time.Second)
	d.loseWakes("agent:lead")
	d.sweep(11 * time.Minute)
	all := []string{
		fmt.Sprintf("flight %s (do it): cli:bob asked for it, and lead is away", flight),
		"work_item ghost's (t): cli:bob owns ghost's, and ghost has not taken its wake",
		"message m (@lead look): cli:bob asked for it, and lead has not taken its wake",
		"work_item own (mine): cli:bob has the next move on own, which waits for the build",
	}
	want("cli:bob", all...)
	want("cli:will")
	want("lead")
	d.do("cli:bob", "work_item.arrived", m{"name": "the build"})
	d.do("cli:bob", "flight.update", m{"id": flight, "state": "cancelled"})
	d.sweep(time.Hour)
	want("cli:bob", all[1], all[2])
	d.checkRebuild()
}

// loseWakes makes the wakes that were sent to a party reach nobody.
func (d *fixture) loseWakes(to string) {
	d.t.Helper()
	t := d.turn("collab:broker")
	t.caller = rules.BrokerCaller
	for _, s := range d.sent {
		if s.deliveryID != "" && string(s.to) == to {
			wakeHandler{t}.missed(s.deliveryID, s.to, formatTime(d.now))
		}
	}
	d.end(t)
}

// TestWorkArrived_ContinuesAllWork checks that an answer lists as many items as fit, and counts
// the rest. It is never a refusal.
func TestWorkArrived_ContinuesAllWork(t *testing.T) {
	d := newFixture(t)
	const n = 700
	for i := range n {
		d.do("agent:w", "work_item.create", m{"id": fmt.Sprint("w", i), "title": strings.Repeat("t", 900), "ownerId": "agent:w", "nextMoveOwnerId": "agent:w",
			"state": "waiting", "waitingOn": m{"kind": "artifact", "label": "the build"}})
	}
	got := d.do("agent:w", "work_item.arrived", m{"name": "the build"})
	if others, arrived := got["others"].(float64), len(got.list("arrived")); arrived == 0 || others == 0 || arrived+int(others) != n {
		t.Errorf("%d were told of, and %v others", arrived, others)
	}
	if left := d.do("agent:w", "work_item.list", m{"state": "waiting"}).list("work_items"); len(left) != 0 {
		t.Errorf("%d wait on", len(left))
	}
}

func TestInvocation_RefusesABlankID(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"})
	for _, id := range []string{"", "  "} {
		d.mustRefuse(collab.CodeInvalid, "agent:w", "invocation.create", m{"id": id, "targetAgentId": "lead", "text": "x"})
	}
}

// TestDelivery_IsIndexedAfterARestart also checks that it is cancelled with the work.
func TestDelivery_IsIndexedAfterARestart(t *testing.T) {
	d := newStoredFixture(t)
	d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "ghost", "nextMoveOwnerId": "ghost", "wake": true})
	d.do("cli:will", "question.ask", m{"id": "q", "title": "t", "askedOfId": "ghost"})
	d.restart()
	d.do("cli:will", "work_item.update", m{"id": "w", "state": "done"})
	d.do("cli:will", "question.close", m{"id": "q"})
	if open := d.do("cli:will", "delivery.list", m{"targetAgentId": "ghost", "status": "pending"}).list("deliveries"); len(open) != 0 {
		t.Errorf("still owed: %v", open)
	}
	if len(d.state.openByTarget)+len(d.state.openByRecord) != 0 {
		t.Errorf("still open: %v %v", d.state.openByTarget, d.state.openByRecord)
	}
}

package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

// pass sweeps for a while; these agents send signs of life all the time.
func (d *fixture) pass(total time.Duration, there ...string) {
	d.t.Helper()
	for range int(total / (20 * time.Second)) {
		d.sweep(20 * time.Second)
		for _, name := range there {
			d.do(protocol.PeerID("agent:"+name), "identity.heartbeat", m{"endpointId": "e-" + name})
		}
	}
}

// sentTypes returns the types of what was sent to a party since the last call of sentTypes or
// wakes.
func (d *fixture) sentTypes(to protocol.PeerID) (list []string) {
	for _, s := range d.sent {
		if s.to == to {
			list = append(list, strings.TrimPrefix(s.event.Type, "collab."))
		}
	}
	d.sent = nil
	return list
}

func (d *fixture) explained(what, id string) string {
	d.t.Helper()
	why := d.do("cli:will", "wake.explain", m{what: id})
	return fmt.Sprint(why["outcome"], ": ", why["reason"])
}

func wantText(t *testing.T, got, want string) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestReminder_IsSentOncePerPeriod checks that the conversation's master is reminded next, then
// the sender if it asked for that, and a person last.
func TestReminder_IsSentOncePerPeriod(t *testing.T) {
	for _, followUp := range []bool{false, true} {
		d := newFixture(t)
		d.announce("lead", "boss", "w")
		group(d, "boss")
		d.do("agent:w", "message.post", m{"id": "m", "conversationId": "c", "text": "look", "targets": []string{"lead"}, "followUp": followUp})
		d.wantWakes("agent:lead explicit_mention")
		d.pass(9*time.Minute, "lead", "boss", "w")
		d.wantWakes()
		d.pass(2*time.Minute, "lead", "boss", "w")
		if w := parse(t, d.sent[0].event.Payload); w["sweep"] != true || w.at("message", "id") != "m" {
			t.Errorf("the reminder is %v", w)
		}
		d.wantWakes("agent:lead explicit_mention")
		d.pass(10*time.Minute, "lead", "boss", "w")
		d.wantWakes("agent:boss conversation_master")
		wantText(t, d.explained("messageId", "m"), "woken: boss: answers for the conversation, and lead was reminded before; endpoint e-boss: it is the only one; boss has not acknowledged that wake yet, and may be stuck")
		d.pass(10*time.Minute, "lead", "boss", "w")
		if followUp {
			d.wantWakes("agent:w requester")
		} else {
			d.wantWakes()
		}
		d.pass(time.Hour, "lead", "boss", "w")
		d.wantWakes()
		d.checkRebuild()
	}
}

// TestReminder_SkipsAcknowledgedMessages also skips messages that only hint at an agent.
func TestReminder_SkipsAcknowledgedMessages(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "other")
	group(d, "")
	got := d.do("cli:will", "message.post", m{"conversationId": "c", "text": "@lead @other look", "followUp": true})
	d.wantWakes("agent:lead explicit_mention")
	d.do("agent:lead", "delivery.ack", m{"id": got.list("deliveries")[0]["id"]})
	d.pass(time.Hour, "lead", "other")
	d.wantWakes()
}

// TestReminder_ReachesTheSenderOfAFollowUp checks that the sender is reminded only if the
// message says so.
func TestReminder_ReachesTheSenderOfAFollowUp(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	group(d, "lead")
	d.do("agent:lead", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead"})
	d.do("agent:lead", "message.post", m{"conversationId": "c", "text": "later", "workItemId": "w"})
	d.wantWakes()
	d.do("agent:lead", "message.post", m{"conversationId": "c", "text": "later", "workItemId": "w", "followUp": true})
	d.wantWakes("agent:lead next_move_owner")
}

// TestReminder_PassesOverAnAbsentAgent checks that the requester of the work is reminded instead,
// and that the agent gets its wake when it returns, as wake.explain reports.
func TestReminder_PassesOverAnAbsentAgent(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	d.do("tg:42", "conversation.create", m{"id": "x", "kind": "group"})
	d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"})
	d.do("tg:42", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "wake": true})
	d.pass(11 * time.Minute)
	if diff := cmp.Diff([]string{"wake.decided"}, d.sentTypes("tg:42")); diff != "" {
		t.Errorf("a person in their own chat was told (-want +got):\n%s", diff)
	}
	wantText(t, d.explained("workItemId", "w"), "nobody: 42: asked for it, and lead has not taken its wake; 42 is a person, and people are not woken")
	d.pass(time.Hour)
	if got := d.sentTypes("tg:42"); got != nil {
		t.Errorf("then it was told %v", got)
	}
	d.announce("lead")
	d.now = d.now.Add(time.Second)
	wantText(t, d.explained("workItemId", "w"), "woken: lead: its wake waited; woken when e-lead announced itself")
	if diff := cmp.Diff([]string{"delivery.woken"}, d.sentTypes("tg:42")); diff != "" {
		t.Errorf("when it came (-want +got):\n%s", diff)
	}
	d.checkRebuild()
}

// TestReminder_OfAFlightWithoutItsAgent checks that the requester is notified, and that the
// spawner is asked for the agent. An agent that is present and has begun gets no reminder.
func TestReminder_OfAFlightWithoutItsAgent(t *testing.T) {
	for _, there := range []bool{false, true} {
		d := newFixture(t)
		d.announce("lead", "boss")
		made := d.do("agent:boss", "invocation.create", m{"id": "i", "targetAgentId": "lead", "text": "go"})
		flight := made.at("flight", "id").(string)
		d.do("agent:lead", "delivery.ack", m{"id": made.at("delivery", "id")})
		d.do("agent:lead", "flight.update", m{"id": flight, "state": "running"})
		d.wantWakes("agent:lead explicit_mention")
		if there {
			d.pass(time.Hour, "lead", "boss")
			d.wantWakes()
			continue
		}
		d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"})
		d.wants = nil
		d.pass(11*time.Minute, "boss")
		w := parse(t, d.sent[0].event.Payload)
		if w["invocation"] != nil || w["flight"] != nil || w["reason"] != "boss: asked for it, and lead is away; endpoint e-boss: it is the only one" {
			t.Errorf("who asked is told %v", w)
		}
		d.wantWakes("agent:boss requester")
		if len(d.wants) != 1 || d.wants[0].agent != "agent:lead" {
			t.Errorf("asked for: %v", d.wants)
		}
		d.pass(time.Hour, "boss")
		d.wantWakes()
		d.checkRebuild()
	}
}

// TestReminder_IgnoresFlightsOfEndedWork covers a flight whose wake waits for its agent, and one that
// its agent began and left. The spawner is not asked for the agent.
func TestReminder_IgnoresFlightsOfEndedWork(t *testing.T) {
	for _, begun := range []bool{false, true} {
		d := newFixture(t)
		d.announce("dev")
		leave := func() { d.do("agent:dev", "identity.leave", m{"endpointId": "e-dev"}) }
		if !begun {
			leave()
		}
		made := d.do("tg:42", "work_item.assign", m{"id": "w", "title": "Fix it", "ownerId": "dev"})
		if begun {
			d.do("agent:dev", "delivery.ack", m{"id": made.at("delivery", "id")})
			d.do("agent:dev", "flight.update", m{"id": made.at("flight", "id"), "state": "running"})
			leave()
		}
		d.do("tg:42", "work_item.update", m{"id": "w", "state": "done"})
		if open := d.state.flights.openIDs(); !begun && len(open) != 0 {
			t.Errorf("the flight waits on: %v", open)
		}
		d.sent, d.wants = nil, nil
		d.pass(11 * time.Minute)
		if got := d.sentTypes("tg:42"); got != nil || d.wants != nil {
			t.Errorf("begun %t: who asked was told %v, and the spawner %v", begun, got, d.wants)
		}
		d.announce("dev")
		d.wantWakes()
		d.checkRebuild()
	}
}

// TestReminder_CombinesWorkAndFlight checks that the agent is woken once, for the flight, and
// that the requester is notified once, about the work. The spawner is asked for an absent agent.
func TestReminder_CombinesWorkAndFlight(t *testing.T) {
	for _, there := range []bool{true, false} {
		d := newFixture(t)
		d.announce("lead")
		d.do("tg:42", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead"})
		made := d.do("tg:42", "invocation.create", m{"targetAgentId": "lead", "text": "go", "workItemId": "w"})
		d.wantWakes("agent:lead explicit_mention")
		if there {
			d.pass(11*time.Minute, "lead")
			if w := parse(t, d.sent[0].event.Payload); w.at("flight", "id") != made.at("flight", "id") || w["sweep"] != true {
				t.Errorf("its agent is reminded by %v", w)
			}
			d.wantWakes("agent:lead next_move_owner")
			d.pass(10*time.Minute, "lead")
		} else {
			d.do("agent:lead", "delivery.ack", m{"id": made.at("delivery", "id")})
			d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"})
			d.wants = nil
			d.pass(11 * time.Minute)
			if len(d.wants) != 1 || d.wants[0].agent != "agent:lead" {
				t.Errorf("asked for: %v", d.wants)
			}
		}
		if diff := cmp.Diff([]string{"wake.decided"}, d.sentTypes("tg:42")); diff != "" {
			t.Errorf("with an agent there %t, who asked was told (-want +got):\n%s", there, diff)
		}
		d.pass(time.Hour, "lead")
		if got := d.sentTypes("tg:42"); got != nil {
			t.Errorf("then they were told %v", got)
		}
		d.checkRebuild()
	}
}

// TestChat_IsNotifiedOfAWake checks that a chat is notified if the requested wake reached nobody,
// and when the agent came.
func TestChat_IsNotifiedOfAWake(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	d.do("tg:-100", "conversation.create", m{"id": "tg:-100", "kind": "group"})
	d.do("tg:42", "invocation.create", m{"targetAgentId": "lead", "text": "go", "conversationId": "tg:-100"})
	wake := d.sent[0]
	d.sent = nil
	d.now = d.now.Add(time.Second)
	tx := d.turn("collab:broker")
	tx.caller = rules.BrokerCaller
	wakeHandler{tx}.missed(wake.deliveryID, wake.to, formatTime(d.now))
	d.end(tx)
	if diff := cmp.Diff([]string{"delivery.updated"}, d.sentTypes("tg:-100")); diff != "" {
		t.Errorf("the chat was told (-want +got):\n%s", diff)
	}
	d.announce("lead")
	if diff := cmp.Diff([]string{"delivery.updated"}, d.sentTypes("tg:-100")); diff != "" {
		t.Errorf("and then (-want +got):\n%s", diff)
	}
}

// TestWorkArrived_ContinuesWork checks that all waiting work that the caller may move continues,
// by the thing's name or its words, and that the party with the next move is woken.
func TestWorkArrived_ContinuesWork(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "other")
	wait := func(id, kind, target string) {
		d.do("cli:will", "work_item.create", m{
			"id": id, "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "state": "waiting", "waitingOn": m{"kind": kind, "label": "the build", "targetId": target},
		})
	}
	wait("a", "artifact", "build-42")
	wait("b", "condition", "")
	wait("c", "actor", "agent:other") // does not exist
	arrived := func(by protocol.PeerID, name string, want ...string) {
		t.Helper()
		var got []string
		for _, one := range d.do(by, "work_item.arrived", m{"name": name}).list("arrived") {
			got = append(got, fmt.Sprint(one.at("work_item", "id"), " ", one.at("work_item", "state"), " ", one.at("wake", "targetAgentId")))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	arrived("chorus:gateway", "build-41")
	arrived("agent:other", "build-42") // is not its work
	arrived("chorus:gateway", "build-42", "a working lead")
	arrived("chorus:gateway", "build-42")
	arrived("agent:lead", "the build", "b working <nil>") // the caller is not woken by its own request
	d.wantWakes("agent:lead next_move_owner")
	d.checkRebuild()
}

// TestReminder_OutlivesItsMessage checks that an agent that comes after the message has left the
// log is not refused.
func TestReminder_OutlivesItsMessage(t *testing.T) {
	d := newStoredFixture(t)
	d.announce("lead", "boss")
	group(d, "boss")
	d.do("cli:will", "message.post", m{"id": "m", "conversationId": "c", "text": "@lead look"})
	d.sweep(20 * time.Minute) // both have fallen silent
	d.sweep(20 * time.Minute)
	d.wakes()
	d.pruned().Exec(`UPDATE published SET seq = (SELECT max(seq) FROM events)`)
	d.sweep(90*24*time.Hour - 39*time.Minute)
	if got := d.do("agent:boss", "delivery.claim", m{"targetAgentId": "boss"}); got["delivery"] != nil {
		t.Errorf("boss takes what nobody can tell any more: %v", got)
	}
	d.announce("boss")
	d.wantWakes()
}

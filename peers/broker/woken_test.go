package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestWakeExplain_ReportsWokenOnlyWhileTrue checks that a wake that reached nobody is reported as
// missed to the sender, and is sent again to the process that returns, which is named.
func TestWakeExplain_ReportsWokenOnlyWhileTrue(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "boss")
	group(d, "")
	d.do("agent:boss", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "wake": true})
	d.do("agent:boss", "message.post", m{"id": "m", "conversationId": "c", "text": "go", "targets": []string{"lead"}})
	d.do("agent:boss", "work_item.create", m{"id": "handed", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead"})
	d.do("agent:boss", "invocation.create", m{"targetAgentId": "lead", "text": "go", "workItemId": "handed"})
	wakes := d.sent
	d.wantWakes("agent:lead next_move_owner", "agent:lead explicit_mention", "agent:lead explicit_mention")
	for _, s := range wakes {
		tr := d.turn(peerID("collab:broker"))
		wakeHandler{tr}.missed(s.deliveryID, s.to, formatTime(d.now))
		d.end(tr)
	}
	for _, s := range d.sent {
		if s.to != "agent:boss" || s.event.Type != collab.EventDeliveryChanged.Name || parse(t, s.event.Payload)["wake"] != "missed" {
			t.Errorf("told %s: %s", s.to, s.event.Payload)
		}
	}
	if len(d.sent) != 3 {
		t.Errorf("who asked was told %d times; want 3", len(d.sent))
	}
	d.sent = nil
	for _, about := range []m{{"workItemId": "w"}, {"workItemId": "handed"}, {"messageId": "m"}} {
		why := d.do("cli:will", "wake.explain", about)
		if why["outcome"] != "missed" || why["wake"] != nil || !strings.Contains(why["reason"].(string), "reached nobody") {
			t.Errorf("explained as %v", why)
		}
	}
	d.do("agent:lead", "identity.announce", m{"endpointId": "e-new"})
	d.wantWakes("agent:lead next_move_owner", "agent:lead explicit_mention", "agent:lead explicit_mention")
	for _, about := range []m{{"workItemId": "w"}, {"workItemId": "handed"}, {"messageId": "m"}} {
		why := d.do("cli:will", "wake.explain", about)
		if why["outcome"] != "woken" || why.at("wake", "endpointId") != "e-new" || !strings.Contains(why["reason"].(string), "e-new") {
			t.Errorf("explained as %v", why)
		}
	}
	d.checkRebuild()
}

// TestWakeExplain_ReportsAMissingAcknowledgement checks that a moment without one is
// reported until it comes: a frozen process sends none.
func TestWakeExplain_ReportsAMissingAcknowledgement(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	made := d.do("agent:boss", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "wake": true})
	want := "woken: lead: has the next move on w; endpoint e-lead: it is the only one"
	wantText(t, d.explained("workItemId", "w"), want)
	d.now = d.now.Add(ackPatience)
	wantText(t, d.explained("workItemId", "w"), want+"; lead has not acknowledged that wake yet, and may be stuck")
	d.do("agent:lead", "delivery.ack", m{"id": made.at("delivery", "id")})
	wantText(t, d.explained("workItemId", "w"), want)
}

// TestMessage_AboutFinishedWorkWaitsForItsAgent checks that only messages from before its end are
// cancelled.
func TestMessage_AboutFinishedWorkWaitsForItsAgent(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "boss")
	group(d, "")
	d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"})
	d.do("agent:boss", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "boss"})
	say := m{"conversationId": "c", "text": "look", "targets": []string{"lead"}, "workItemId": "w"}
	d.mustRefuse(collab.CodeUnavailable, "agent:boss", "message.post", say)
	d.do("agent:boss", "work_item.update", m{"id": "w", "state": "done"})
	d.now = d.now.Add(time.Second)
	d.mustRefuse(collab.CodeUnavailable, "agent:boss", "message.post", say)
	d.mustRefuse(collab.CodeUnavailable, "agent:boss", "invocation.create", m{"targetAgentId": "lead", "text": "tell why", "workItemId": "w"})
	d.sent = nil
	d.announce("lead")
	d.wantWakes("agent:lead explicit_mention", "agent:lead explicit_mention")
}

// TestLeave_TakesAnEndpointOffline checks that nobody is reported as woken there afterwards.
func TestLeave_TakesAnEndpointOffline(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	group(d, "lead")
	d.mustRefuse(collab.CodeForbidden, "agent:evil", "identity.leave", m{"endpointId": "e-lead"})
	d.mustRefuse(collab.CodeNotFound, "agent:lead", "identity.leave", m{"endpointId": "nowhere"})
	if got := d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"}); got.at("identity", "status") != "offline" {
		t.Errorf("left: %v", got)
	}
	d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"}) // said twice
	d.mustRefuse(collab.CodeUnavailable, "cli:will", "message.post", m{"conversationId": "c", "text": "@lead hi"})
	d.wantWakes()
	d.announce("lead")
	d.wantWakes("agent:lead explicit_mention")
}

// TestAnnounce_ReplacesTheOldEndpoint covers endpoints of the same identity in the same
// place.
func TestAnnounce_ReplacesTheOldEndpoint(t *testing.T) {
	d := newFixture(t)
	at := func(endpoint, workspace string) m { return m{"endpointId": endpoint, "workspaceId": workspace} }
	d.do("agent:lead", "identity.announce", at("e1", "main"))
	d.do("agent:lead", "identity.announce", at("e2", "main"))
	d.do("agent:lead", "identity.announce", at("e3", "dev"))
	d.do("agent:lead", "identity.announce", at("e2", "main")) // again
	for id, want := range map[string]string{"e1": "offline", "e2": "online", "e3": "online"} {
		if e := d.state.Endpoints[id]; e != nil && e.Status != want {
			t.Errorf("%s is %s; want %s", id, e.Status, want)
		}
	}
}

// TestPresence_TakesDepartedAgentsOffline checks that an agent that left the bus is offline at
// once, that one on the bus needs no heartbeats, and that one that was out of reach returns
// without an announcement.
func TestPresence_TakesDepartedAgentsOffline(t *testing.T) {
	d := newFixture(t)
	synced := false
	r := newPresenceTracker(func() bool { return synced }, func() time.Time { return d.now })
	hear := func(state string, ids ...protocol.PeerID) {
		for _, id := range ids {
			r.onPresence(protocol.Presence{Peer: id, State: state})
		}
	}
	turn := func(do func(tr *tx)) {
		tr := d.turn("collab:broker")
		tr.presence = r
		do(tr)
		d.end(tr)
	}
	take := func() (next time.Duration) {
		news, next := r.takeChanges()
		turn(func(tr *tx) { identityHandler{tr}.applyPresence(news) })
		return next
	}
	want := func(when string, status ...string) {
		t.Helper()
		for i, id := range []string{"e-a", "e-b"} {
			if e := d.state.Endpoints[id]; e.Status != status[i] {
				t.Errorf("%s: %s is %s; want %s", when, id, e.Status, status[i])
			}
		}
	}
	d.announce("a", "b") // in a former run
	d.now = d.now.Add(time.Second)
	hear(protocol.PresenceJoined, "agent:a")
	take()
	want("before the bus told of all", "online", "online")
	synced = true
	hear(protocol.PresenceJoined, "collab:broker")
	take()
	want("b was not there", "online", "offline")
	hear(protocol.PresenceJoined, "agent:b")
	d.announce("b")
	d.now = d.now.Add(time.Hour)
	turn(func(tr *tx) { identityHandler{tr}.expireAll() })
	want("an hour without heartbeats", "online", "online")
	r.onAnnounce("agent:b") // the bus has reported it as present
	r.onAnnounce("agent:a")
	if next := take(); next != 0 && next != rejoinGrace {
		t.Errorf("looks again after %s", next)
	}
	hear(protocol.PresenceLeft, "agent:a", "agent:b")
	d.now = d.now.Add(time.Millisecond)
	d.announce("b") // which is a new process by then
	take()
	want("both left", "offline", "online")
	hear(protocol.PresenceJoined, "agent:a", "agent:b")
	if next := take(); next != rejoinGrace {
		t.Errorf("looks again after %s", next)
	}
	want("a came back", "offline", "online")
	d.now = d.now.Add(rejoinGrace)
	take()
	want("and did not announce itself", "online", "online")
	d.do("agent:a", "identity.leave", m{"endpointId": "e-a"})
	hear(protocol.PresenceLeft, "agent:a")
	hear(protocol.PresenceJoined, "agent:a")
	d.now = d.now.Add(rejoinGrace)
	take()
	want("a said that it stops", "offline", "online")
	d.announce("a")
	hear(protocol.PresenceLeft, "agent:a")
	take()
	d.now = d.now.Add(time.Millisecond)
	d.announce("a")
	r.onAnnounce("agent:a") // it has left before the bus reported it
	if next := take(); next != joinTimeout {
		t.Errorf("looks again after %s", next)
	}
	want("a came", "online", "online")
	d.now = d.now.Add(joinTimeout)
	take()
	want("a came and went at once", "offline", "online")
}

// TestWake_RequestsAnAbsentAgent checks that the spawner is asked for the absent agent of a
// delivery, under its earlier identity, and for no one that is present or is not an agent.
func TestWake_RequestsAnAbsentAgent(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "boss")
	group(d, "")
	wanted := func(want ...string) {
		t.Helper()
		var got []string
		for _, w := range d.wants {
			if d.state.deliveries.get(w.deliveryID) == nil {
				t.Errorf("%s is wanted for %q, which is no delivery", w.agent, w.deliveryID)
			}
			got = append(got, string(w.agent))
		}
		if d.wants = nil; !slices.Equal(got, want) {
			t.Errorf("asked for %q; want %q", got, want)
		}
	}
	post := func(id string) m {
		return m{"id": id, "conversationId": "c", "text": "go", "targets": []string{"lead"}}
	}
	d.do("agent:boss", "message.post", post("there"))
	wanted()
	missed := d.sent[len(d.sent)-1]
	tr := d.turn(peerID("collab:broker"))
	wakeHandler{tr}.missed(missed.deliveryID, missed.to, formatTime(d.now))
	d.end(tr)
	wanted("agent:lead")
	d.do("agent:lead", "identity.announce", m{"endpointId": "e-lead"})
	d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"})
	d.mustRefuse(collab.CodeUnavailable, "agent:boss", "message.post", post("away"))
	wanted("agent:lead")
	d.do("agent:lead", "identity.announce", m{"endpointId": "e-lead", "wakePolicy": "manual"})
	d.mustRefuse(collab.CodeUnavailable, "agent:boss", "message.post", post("manual"))
	wanted()
}

// TestAnnounce_TakesUnansweredWakesOver checks that an agent that ended with a wake gets it again
// at its new endpoint, and that the sender is notified of both.
func TestAnnounce_TakesUnansweredWakesOver(t *testing.T) {
	d := newFixture(t)
	at := func(endpoint, workspace string) m { return m{"endpointId": endpoint, "workspaceId": workspace} }
	d.do("agent:lead", "identity.announce", at("e1", "main"))
	d.announce("helper")
	group(d, "")
	d.do("agent:helper", "message.post", m{"conversationId": "c", "text": "hi", "targets": []string{"lead"}})
	if len(d.sent) != 1 || d.sent[0].deliveryID == "" {
		t.Fatalf("sent %+v; want one wake", d.sent)
	}
	wake := d.sent[0]
	d.sent = nil
	d.do("agent:lead", "identity.announce", at("e9", "dev")) // beside it
	d.do("agent:lead", "identity.announce", at("e1", "main"))
	if len(d.sent) != 0 {
		t.Errorf("while the endpoint is there: sent %+v", d.sent)
	}
	d.now = d.now.Add(time.Second)
	d.do("agent:lead", "identity.announce", at("e2", "main"))
	var again *sending
	var heard []string
	for i, s := range d.sent {
		if s.to == "agent:helper" {
			heard = append(heard, d.state.deliveries.get(wake.deliveryID).ID)
		} else {
			again = &d.sent[i]
		}
	}
	if again == nil || again.event.ID != wake.event.ID || !strings.Contains(string(again.event.Payload), `"endpointId":"e2"`) || len(heard) != 2 {
		t.Errorf("sent %+v; want the wake at e2, and two events for its sender", d.sent)
	}
	if got := d.state.deliveries.get(wake.deliveryID); got.EndpointID != "e2" || got.Wake != collab.WakeWoken {
		t.Errorf("the delivery is %+v", got)
	}
	d.do("agent:lead", "delivery.ack", m{"id": wake.deliveryID})
	d.sent = nil
	d.do("agent:lead", "identity.announce", at("e3", "main"))
	if len(d.sent) != 0 {
		t.Errorf("an acknowledged wake is sent again: %+v", d.sent)
	}
	d.checkRebuild()
}

package broker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/outbox"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestResolution_GivesTheReasonOfTheChoice checks that wakeable endpoints come first, then near
// ones, then the latest sign of life, and that the reason says so.
func TestResolution_GivesTheReasonOfTheChoice(t *testing.T) {
	d := newFixture(t)
	announce := func(who, endpoint, workspace, project, policy string) {
		d.do(protocol.PeerID(who), "identity.announce", m{"endpointId": endpoint, "workspaceId": workspace, "projectPath": project, "wakePolicy": policy})
	}
	want := func(who protocol.PeerID, endpoint, why string) {
		t.Helper()
		got := d.do(who, "identity.resolve", m{"label": "lead"})
		if got.at("identity", "endpointId") != endpoint || !strings.HasSuffix(got["reason"].(string), ": "+why) {
			t.Errorf("%s is given %v, %v; want %s, since %s", who, got.at("identity", "endpointId"), got["reason"], endpoint, why)
		}
	}
	announce("agent:near", "n", "v", "/p", "auto")
	announce("agent:beside", "b", "v", "", "auto")
	announce("agent:lead", "e1", "v", "/q", "auto")
	want("cli:will", "e1", "it is the only one")
	announce("agent:lead", "e2", "w", "/p", "auto")
	announce("agent:lead", "e3", "x", "/r", "auto")
	want("cli:will", "e3", "it has the latest sign of life")
	want("agent:near", "e2", "it is in the sender's project")
	want("agent:beside", "e1", "it is in the sender's workspace")
	d.do("agent:lead", "identity.heartbeat", m{"endpointId": "e1"})
	want("cli:will", "e1", "it has the latest sign of life")
	announce("agent:lead", "e4", "y", "", "manual")
	want("cli:will", "e1", "it has the latest sign of life")
	for _, id := range []string{"e1", "e2", "e3"} {
		d.do("agent:lead", "identity.leave", m{"endpointId": id})
	}
	want("agent:near", "e4", "it has the latest sign of life") // which alone is online
	d.do("agent:lead", "identity.leave", m{"endpointId": "e4"})
	want("agent:near", "e2", "it is in the sender's project")
}

// TestDelivery_HasItsReason covers the woken agent, others that were mentioned, and the author of
// the answered message.
func TestDelivery_HasItsReason(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "other", "author", "owner")
	group(d, "lead")
	d.do("cli:will", "conversation.create", m{"id": "dm", "kind": "dm", "memberIds": []string{"cli:will", "lead"}})
	d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "owner", "nextMoveOwnerId": "owner"})
	d.do("agent:author", "message.post", m{"id": "first", "conversationId": "c", "text": "x", "kind": "status"})
	d.do("agent:lead", "message.post", m{"id": "leads", "conversationId": "c", "text": "x", "kind": "status"})
	for _, c := range []struct {
		what string
		post m
		want string
	}{
		{"the master", m{"conversationId": "c", "text": "x"}, "lead conversation_visibility must_ack"},
		{"a direct conversation", m{"conversationId": "dm", "text": "x"}, "lead direct_message must_ack"},
		{"two that are named", m{"conversationId": "c", "text": "@lead @other x"}, "lead mention must_ack, other mention durable"},
		{"thanks", m{"conversationId": "c", "text": "@other thanks"}, "other mention durable"},
		{"an answer to another", m{"conversationId": "c", "text": "x", "inReplyTo": "first"}, "lead conversation_visibility must_ack, author thread_reply best_effort"},
		{"an answer to who is woken", m{"conversationId": "c", "text": "x", "inReplyTo": "leads"}, "lead thread_reply must_ack"},
		{"work", m{"conversationId": "c", "text": "x", "workItemId": "w"}, "owner invocation must_ack"},
		{"nothing is expected", m{"conversationId": "c", "text": "x", "kind": "final"}, ""},
	} {
		var got []string
		for _, one := range d.do("cli:will", "message.post", c.post).list("deliveries") {
			got = append(got, fmt.Sprint(one["targetAgentId"], " ", one["reason"], " ", one["policy"]))
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s: %q; want %q", c.what, got, c.want)
		}
	}
	var why []string
	for _, e := range d.log {
		if e.Type == collab.EventDelivery.Name && strings.Contains(string(e.Metadata), "named, but") {
			why = append(why, parse(t, e.Metadata)["reason"].(string))
		}
	}
	if want := []string{"named, but lead is woken", "named, but the message only says thanks, which needs no answer"}; !slices.Equal(why, want) {
		t.Errorf("%q", why)
	}
}

// TestEnqueue_ParksAWakeThatDoesNotFit checks that it waits until the next announcement, and that
// one that fits is sent.
func TestEnqueue_ParksAWakeThatDoesNotFit(t *testing.T) {
	d := newStoredFixture(t)
	d.announce("lead")
	group(d, "")
	for _, id := range []string{"m1", "m2"} {
		d.do("cli:will", "message.post", m{"id": id, "conversationId": "c", "text": "@lead hi"})
	}
	opts := (*Options)(nil).withDefaults()
	b := &Broker{opts: opts, outbox: outbox.New(d.db, nil, &outbox.Options{Name: "letters", MaxPending: 1})}
	wakes := d.sent
	tr := d.turn("collab:broker")
	wakes[0].again = 7
	for _, s := range wakes {
		b.enqueue(tr, s)
	}
	d.end(tr)
	items, err := b.outbox.List(t.Context(), nil)
	if err != nil || len(items) != 1 || items[0].Destination != "agent:lead" || items[0].Key != wakes[0].event.ID+"/7" {
		t.Fatalf("%+v, %v", items, err)
	}
	var l outboxItem
	if err := json.Unmarshal(items[0].Body, &l); err != nil || l.To != "agent:lead" || l.DeliveryID != wakes[0].deliveryID || string(l.Message.MessageID) != "msg_"+wakes[0].event.ID+"_to" {
		t.Errorf("%s, %v", items[0].Body, err)
	}
	for i, want := range []string{collab.WakeWoken, collab.WakeMissed} {
		if got := d.state.deliveries.get(wakes[i].deliveryID).Wake; got != want {
			t.Errorf("wake %d is %s; want %s", i, got, want)
		}
	}
}

// TestPresenceTracker_KnowsWhenChangesAreDue checks the time of the first awaited change.
func TestPresenceTracker_KnowsWhenChangesAreDue(t *testing.T) {
	now, synced := time.Unix(1000, 0), true
	r := newPresenceTracker(func() bool { return synced }, func() time.Time { return now })
	joined := func(id protocol.PeerID) { r.onPresence(protocol.Presence{Peer: id, State: protocol.PresenceJoined}) }
	take := func(after, next time.Duration, back ...protocol.PeerID) presenceChanges {
		t.Helper()
		now = now.Add(after)
		a, got := r.takeChanges()
		if got != next || !slices.Equal(a.returned, back) {
			t.Errorf("looks again after %v, back are %v; want %v and %v", got, a.returned, next, back)
		}
		return a
	}
	joined("agent:a")
	now = now.Add(time.Second)
	joined("agent:b")
	if a := take(0, rejoinGrace-time.Second); !a.since.Equal(time.Unix(1000, 0)) {
		t.Errorf("the bus told of all since %v", a.since)
	}
	if a := take(rejoinGrace-time.Second-1, 1); !a.since.IsZero() {
		t.Error("told of all twice")
	}
	take(1, time.Second, "agent:a")
	r.onAnnounce("agent:c")
	r.onAnnounce("agent:a") // it is there
	if a := take(joinTimeout-1, 1); len(a.left) != 0 {
		t.Errorf("left are %v", a.left)
	}
	if a := take(1, 0, "agent:b"); len(a.left) != 1 || a.left["agent:c"] != now {
		t.Errorf("left are %v", a.left)
	}
	joined("agent:d")
	r.onPresence(protocol.Presence{Peer: "agent:d", State: protocol.PresenceLeft})
	if a := take(0, 0); len(a.left) != 1 || r.isOnline("agent:d") || !r.isOnline("agent:a") {
		t.Errorf("left are %v", a.left)
	}
	r.onAnnounce("agent:e")
	joined("agent:e") // as it should
	if a := take(joinTimeout, rejoinGrace-joinTimeout); len(a.left) != 0 {
		t.Errorf("left are %v", a.left)
	}
	synced = false
	r.onAnnounce("agent:f")
	if _, waits := r.announced["agent:f"]; waits || r.isOnline("agent:a") || (*presenceTracker)(nil).isOnline("agent:a") || (*presenceTracker)(nil).watching() {
		t.Error("a bus that tells nothing is trusted")
	}
	if rejoinGrace != 5*time.Second || joinTimeout != time.Second {
		t.Errorf("it waits %v and %v", rejoinGrace, joinTimeout)
	}
}

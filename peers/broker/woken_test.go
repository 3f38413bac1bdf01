package broker

import (
	"strings"
	"testing"

	"hubbub/protocol/collab"
)

// TestWokenIsSaidWhileItIsTrue: a wake that reached nobody is missed, who asked is told, and
// it is sent again to the process that comes back, which is named.
func TestWokenIsSaidWhileItIsTrue(t *testing.T) {
	d := newDesk(t)
	d.announce("lead", "boss")
	group(d, "")
	d.do("agent:boss", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "wake": true})
	d.do("agent:boss", "message.post", m{"id": "m", "conversationId": "c", "text": "go", "targets": []string{"lead"}})
	wakes := d.sent
	d.wantWakes("agent:lead next_move_owner", "agent:lead explicit_mention")
	for _, s := range wakes {
		tr := d.turn(peerID("collab:broker"))
		tr.missed(s.deliveryID, s.to, stamp(d.now))
		d.end(tr)
	}
	for _, s := range d.sent {
		if s.to != "agent:boss" || s.event.Type != collab.EventDeliveryChanged.Name || parse(t, s.event.Payload)["wake"] != "missed" {
			t.Errorf("told %s: %s", s.to, s.event.Payload)
		}
	}
	if len(d.sent) != 2 {
		t.Errorf("who asked was told %d times; want 2", len(d.sent))
	}
	d.sent = nil
	for _, about := range []m{{"workItemId": "w"}, {"messageId": "m"}} {
		why := d.do("cli:will", "wake.explain", about)
		if why["outcome"] != "missed" || why["wake"] != nil || !strings.Contains(why["reason"].(string), "reached nobody") {
			t.Errorf("explained as %v", why)
		}
	}
	d.do("agent:lead", "identity.announce", m{"endpointId": "e-new"})
	d.wantWakes("agent:lead next_move_owner", "agent:lead explicit_mention")
	for _, about := range []m{{"workItemId": "w"}, {"messageId": "m"}} {
		why := d.do("cli:will", "wake.explain", about)
		if why["outcome"] != "woken" || why.at("wake", "endpointId") != "e-new" || !strings.Contains(why["reason"].(string), "e-new") {
			t.Errorf("explained as %v", why)
		}
	}
	d.checkRebuild()
}

// TestACleanStopAnnouncesItself: from then on nobody is said to be woken there.
func TestACleanStopAnnouncesItself(t *testing.T) {
	d := newDesk(t)
	d.announce("lead")
	group(d, "lead")
	d.refuse(collab.CodeForbidden, "agent:evil", "identity.leave", m{"endpointId": "e-lead"})
	d.refuse(collab.CodeNotFound, "agent:lead", "identity.leave", m{"endpointId": "nowhere"})
	if got := d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"}); got.at("identity", "status") != "offline" {
		t.Errorf("left: %v", got)
	}
	d.do("agent:lead", "identity.leave", m{"endpointId": "e-lead"}) // said twice
	d.refuse(collab.CodeUnavailable, "cli:will", "message.post", m{"conversationId": "c", "text": "@lead hi"})
	d.wantWakes()
	d.announce("lead")
	d.wantWakes("agent:lead explicit_mention")
}

// TestANewEndpointEndsTheOldOne of the same identity in the same place.
func TestANewEndpointEndsTheOldOne(t *testing.T) {
	d := newDesk(t)
	at := func(endpoint, workspace string) m { return m{"endpointId": endpoint, "workspaceId": workspace} }
	d.do("agent:lead", "identity.announce", at("e1", "main"))
	d.do("agent:lead", "identity.announce", at("e2", "main"))
	d.do("agent:lead", "identity.announce", at("e3", "dev"))
	d.do("agent:lead", "identity.announce", at("e2", "main")) // again
	for id, want := range map[string]string{"e1": "offline", "e2": "online", "e3": "online"} {
		if e := d.state.endpoints[id]; e != nil && e.Status != want {
			t.Errorf("%s is %s; want %s", id, e.Status, want)
		}
	}
}

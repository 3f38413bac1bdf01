package protocol_test

import (
	"slices"
	"strings"
	"testing"

	"hubbub/protocol"
)

// sends is the table of section 9, and of the extensions, written by hand again:
// who may send what.
var sends = map[protocol.PeerID]string{
	"tg:42":         "spawn_request configure tg_message delivery_status collab_request",
	"agent:system":  "spawn_result route_assigned agent_event",
	"agent:lead":    "tg_reply agent_event delivery_status chat_reply collab_request",
	"chorus:ops":    "spawn_request configure chat_message delivery_status collab_request",
	"mx:!r:hs":      "spawn_request configure chat_message delivery_status collab_request",
	"collab:broker": "collab_event collab_result agent_event",
	"cli:op": "spawn_request spawn_result route_assigned configure tg_message tg_reply delivery_status agent_event " +
		"chat_message chat_reply collab_request collab_result collab_event",
	"tg:": "", "mx:": "", "mx": "", "MX:!r:hs": "", "agent:": "", "tg": "", "collab:other": "", "bus": "", "web:1": "", "TG:42": "", ":42": "",
}

func TestMaySend_IsTheMatrix(t *testing.T) {
	for id, list := range sends {
		allowed := strings.Fields(list)
		for _, kind := range protocol.AllTypes {
			err := protocol.MaySend(id, kind)
			if want := slices.Contains(allowed, string(kind)); (err == nil) != want {
				t.Errorf("%q sends %s: %v; want allowed=%t", id, kind, err, want)
			}
			if err != nil && !strings.Contains(err.Error(), string(id)) {
				t.Errorf("the refusal does not say whom it refuses: %v", err)
			}
		}
		if err := protocol.MaySend(id, "gossip"); err == nil {
			t.Errorf("%q may send a type that does not exist", id)
		}
		if got, want := protocol.IsIdentity(protocol.Topic(id)), list != ""; got != want {
			t.Errorf("%q is written like an identity: %t; want %t", id, got, want)
		}
	}
}

func TestMaySendForFamily_OnlyBridges(t *testing.T) {
	for id, want := range map[protocol.PeerID]bool{
		"tg:bot": true, "mx:@bot:hs": true, "mx:": false, "chorus:gateway": true, "agent:lead": false, "agent:system": false, "cli:op": false, "collab:broker": false, "tg:": false,
	} {
		if got := protocol.MaySendForFamily(id); got != want {
			t.Errorf("%q speaks for its family: %t; want %t", id, got, want)
		}
	}
}

func TestPeerID_Names(t *testing.T) {
	for _, c := range []struct {
		id           protocol.PeerID
		family, name string
	}{{"tg:42", "tg", "42"}, {"agent:a:b", "agent", "a:b"}, {"bus", "", ""}, {"tg:", "tg", ""}} {
		if c.id.Family() != c.family || c.id.Name() != c.name || string(c.id.Topic()) != string(c.id) {
			t.Errorf("%q is %q and %q at %q", c.id, c.id.Family(), c.id.Name(), c.id.Topic())
		}
	}
}

func TestCommandPrefix(t *testing.T) {
	for chat, want := range map[protocol.Topic]string{
		"mx:!r:hs": "!", "mx:@will:hs": "!", "tg:42": "/", "chorus:ops": "/", "agent:lead": "/", "": "/",
	} {
		if got := protocol.CommandPrefix(chat); got != want {
			t.Errorf("%q: %q, want %q", chat, got, want)
		}
	}
}

package bus

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/protocol"
)

// TestRemote_UnchangedPeersStayRoutable sends a bus the members of another one
// again: lookups find the unchanged peers at any time.
func TestRemote_UnchangedPeersStayRoutable(t *testing.T) {
	type members = map[protocol.PeerID]map[protocol.Pattern]bool
	srv := New(nil, nil)
	set := func(peers members, all, observing int, changes bool) {
		t.Helper()
		before := srv.index.generation.Load()
		sessions := map[protocol.PeerID]Stamp{}
		for id := range peers {
			sessions[id] = Stamp{At: 1, Bus: "west"}
		}
		srv.RetainRemotePeers("west", sessions)
		for id, patterns := range peers {
			srv.RemoteJoined("west", Member{id, sessions[id], patterns})
		}
		if changed := srv.index.generation.Load() != before; changed != changes {
			t.Errorf("%v changed the index: %t", peers, changed)
		}
		if a, o := srv.Subscriptions(); a != all || o != observing {
			t.Errorf("%v: %d subscriptions, %d of them observe; want %d and %d", peers, a, o, all, observing)
		}
	}
	set(members{"agent:a": {"t": false, "u": true}, "agent:b": {"t": false}}, 3, 1, true)
	set(members{"agent:a": {"t": false, "u": true}, "agent:b": {"t": false}}, 3, 1, false)
	kept := srv.index.targets("t")
	set(members{"agent:a": {"t": false, "u": false}, "agent:c": {"v": true}}, 3, 1, true)
	now := srv.index.targets("t")
	if len(kept) != 2 || len(now) != 1 || now[0].peer != "agent:a" {
		t.Errorf("the targets were %v and are %v; want agent:a, as it was", kept, now)
	}
	set(members{}, 0, 0, true)
	set(nil, 0, 0, false)
}

// TestStamp_IsNewerThanAllThatItsBusHasSeen joins a peer after another bus, whose
// clock is ahead, has reported its earlier session.
func TestStamp_IsNewerThanAllThatItsBusHasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := New(nil, &Options{Name: "east"})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- srv.run(ctx, nil) }()
		ahead := Stamp{At: time.Now().Add(time.Minute).UnixNano(), Bus: "west"}
		srv.RemoteJoined("west", Member{Peer: "agent:x", Stamp: ahead})
		enters(t, srv, "agent:x", "t")
		if _, ok := srv.RemoteJoined("west", Member{Peer: "agent:x", Stamp: ahead}); !ok || len(srv.Peers()) != 1 {
			t.Error("the former session, of another bus, has replaced the new one")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

package bridge

import (
	"slices"
	"testing"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestEveryStateHasItsWays: whatever happens to a chat, it ends in a state of the
// table; only one that asks comes back to itself; and a chat gets an agent from
// every state.
func TestEveryStateHasItsWays(t *testing.T) {
	states := []State{Idle, Asking, Assigned}
	all := []news{said, gone, failed, routed, heard, ended}
	for _, from := range states {
		for n, to := range ways[from] {
			if !slices.Contains(states, to) || !slices.Contains(all, n) {
				t.Errorf("%s leads from %s to %s", n, from, to)
			}
			if from == to && from != Asking && n != routed {
				t.Errorf("%s leaves a chat %s, and need not be in the table", n, from)
			}
		}
		if ways[from][routed] != Assigned {
			t.Errorf("a route leads from %s to %q", from, ways[from][routed])
		}
	}
	if len(ways) != len(states) {
		t.Errorf("%d states have ways; there are %d", len(ways), len(states))
	}
}

// TestWhoMayAnswer has one row for each way in which a reply and the claim on its
// event can stand to each other.
func TestWhoMayAnswer(t *testing.T) {
	both := []protocol.PeerID{"agent:a", "agent:b"}
	shown := func(token int64) *protocol.ReplyClaim { return &protocol.ReplyClaim{EventID: "e", Token: token} }
	held := func(by protocol.PeerID, token int64) collab.Claim {
		return collab.Claim{Owner: by.Name(), Identity: by, Token: token, State: collab.ClaimHeld}
	}
	for name, tt := range map[string]struct {
		view  claimView
		want  string
		taken bool
	}{
		"the only agent":              {view: claimView{receivers: both[:1], broker: true}},
		"directed at this agent":      {view: claimView{receivers: both, direct: true, broker: true, newest: held("agent:b", 3)}, taken: true},
		"no broker":                   {view: claimView{receivers: both}},
		"no claim yet":                {view: claimView{receivers: both, broker: true}, want: "several agents could answer this message, so it needs a claim"},
		"the newest token":            {view: claimView{receivers: both, broker: true, shown: shown(3), newest: held("agent:a", 3)}},
		"another's claim":             {view: claimView{receivers: both, broker: true, newest: held("agent:b", 3)}, want: "the claim on this message is held by b; show the claim's token to answer", taken: true},
		"an old token":                {view: claimView{receivers: both, broker: true, shown: shown(2), newest: held("agent:b", 3)}, want: "the claim is stale: token 2 was followed by 3", taken: true},
		"a token that was seen older": {view: claimView{receivers: both, shown: shown(2), seen: 4}, want: "the claim is stale: token 2 was followed by 4"},
		"a token made up":             {view: claimView{receivers: both, broker: true, shown: shown(9), newest: held("agent:a", 3)}, want: "nobody was given this claim, or it has expired"},
		"another's token":             {view: claimView{receivers: both, broker: true, shown: shown(3), newest: held("agent:b", 3)}, want: "the claim on this message is held by b", taken: true},
		"answered": {view: claimView{receivers: both, broker: true, newest: collab.Claim{Owner: "b", Token: 3, State: collab.ClaimAnswered}},
			want: "this message was answered by b", taken: true},
		"offered again": {view: claimView{receivers: both, broker: true, newest: collab.Claim{Owner: "b", Token: 3, State: collab.ClaimOffered}},
			want: "several agents could answer this message, so it needs a claim"},
	} {
		tt.view.agent = "agent:a"
		if got := tt.view.judge(); got != tt.want || tt.view.taken() != tt.taken {
			t.Errorf("%s: %q, taken by another %v; want %q, %v", name, got, tt.view.taken(), tt.want, tt.taken)
		}
	}
}

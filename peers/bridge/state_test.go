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
	all := []trigger{triggerMessage, triggerAgentLost, triggerSpawnFailed, triggerRoute, triggerAgentBack, triggerClosed}
	for _, from := range states {
		for n, to := range transitions[from] {
			if !slices.Contains(states, to) || !slices.Contains(all, n) {
				t.Errorf("%s leads from %s to %s", n, from, to)
			}
			if from == to && from != Asking && n != triggerRoute {
				t.Errorf("%s leaves a chat %s, and need not be in the table", n, from)
			}
		}
		if transitions[from][triggerRoute] != Assigned {
			t.Errorf("a route leads from %s to %q", from, transitions[from][triggerRoute])
		}
	}
	if len(transitions) != len(states) {
		t.Errorf("%d states have ways; there are %d", len(transitions), len(states))
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
		view  replyCheck
		want  string
		taken bool
	}{
		"the only agent":              {view: replyCheck{receivers: both[:1], hasBroker: true}},
		"directed at this agent":      {view: replyCheck{receivers: both, directed: true, hasBroker: true, newest: held("agent:b", 3)}, taken: true},
		"no broker":                   {view: replyCheck{receivers: both}},
		"no claim yet":                {view: replyCheck{receivers: both, hasBroker: true}, want: "several agents could answer this message, so it needs a claim"},
		"the newest token":            {view: replyCheck{receivers: both, hasBroker: true, claim: shown(3), newest: held("agent:a", 3)}},
		"another's claim":             {view: replyCheck{receivers: both, hasBroker: true, newest: held("agent:b", 3)}, want: "the claim on this message is held by b; show the claim's token to answer", taken: true},
		"an old token":                {view: replyCheck{receivers: both, hasBroker: true, claim: shown(2), newest: held("agent:b", 3)}, want: "the claim is stale: token 2 was followed by 3", taken: true},
		"a token that was seen older": {view: replyCheck{receivers: both, claim: shown(2), seenToken: 4}, want: "the claim is stale: token 2 was followed by 4"},
		"a token made up":             {view: replyCheck{receivers: both, hasBroker: true, claim: shown(9), newest: held("agent:a", 3)}, want: "nobody was given this claim, or it has expired"},
		"another's token":             {view: replyCheck{receivers: both, hasBroker: true, claim: shown(3), newest: held("agent:b", 3)}, want: "the claim on this message is held by b", taken: true},
		"answered": {view: replyCheck{receivers: both, hasBroker: true, newest: collab.Claim{Owner: "b", Token: 3, State: collab.ClaimAnswered}},
			want: "this message was answered by b", taken: true},
		"offered again": {view: replyCheck{receivers: both, hasBroker: true, newest: collab.Claim{Owner: "b", Token: 3, State: collab.ClaimOffered}},
			want: "several agents could answer this message, so it needs a claim"},
	} {
		tt.view.agent = "agent:a"
		if got := tt.view.refusal(); got != tt.want || tt.view.answeredByOther() != tt.taken {
			t.Errorf("%s: %q, taken by another %v; want %q, %v", name, got, tt.view.answeredByOther(), tt.want, tt.taken)
		}
	}
}

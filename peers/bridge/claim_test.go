package bridge

import (
	"testing"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestReplyCheck_RefusesWithoutTheNewestClaim uses one case for each relation between a
// reply and the claim on its event.
func TestReplyCheck_RefusesWithoutTheNewestClaim(t *testing.T) {
	both := []protocol.PeerID{"agent:a", "agent:b"}
	present := func(token int64) *protocol.ReplyClaim { return &protocol.ReplyClaim{EventID: "e", Token: token} }
	held := func(by protocol.PeerID, token int64) collab.Claim {
		return collab.Claim{Owner: by.Name(), Identity: by, Token: token, State: collab.ClaimHeld}
	}
	settled := func(state collab.ClaimState) collab.Claim {
		return collab.Claim{Owner: "b", Token: 3, State: state}
	}
	const needsClaim = "several agents could answer this message, so it needs a claim; claim it first"
	for name, c := range map[string]struct {
		check   replyCheck
		want    string
		byOther bool
	}{
		"the only agent": {
			check: replyCheck{receivers: both[:1], hasBroker: true},
		},
		"directed at this agent": {
			check:   replyCheck{receivers: both, directed: true, hasBroker: true, newest: held("agent:b", 3)},
			byOther: true,
		},
		"no broker": {
			check: replyCheck{receivers: both},
		},
		"no claim yet": {
			check: replyCheck{receivers: both, hasBroker: true},
			want:  needsClaim,
		},
		"the newest token": {
			check: replyCheck{receivers: both, hasBroker: true, claim: present(3), newest: held("agent:a", 3)},
		},
		"no token, held by the other": {
			check:   replyCheck{receivers: both, hasBroker: true, newest: held("agent:b", 3)},
			want:    "the claim on this message is held by b; present the claim's token to answer",
			byOther: true,
		},
		"an old token": {
			check:   replyCheck{receivers: both, hasBroker: true, claim: present(2), newest: held("agent:b", 3)},
			want:    "the claim is stale: token 2 was followed by 3",
			byOther: true,
		},
		"older than a token seen": {
			check: replyCheck{receivers: both, claim: present(2), seenToken: 4},
			want:  "the claim is stale: token 2 was followed by 4",
		},
		"an invented token": {
			check: replyCheck{receivers: both, hasBroker: true, claim: present(9), newest: held("agent:a", 3)},
			want:  "this claim was never granted, or it has expired; claim the message again",
		},
		"the other's token": {
			check:   replyCheck{receivers: both, hasBroker: true, claim: present(3), newest: held("agent:b", 3)},
			want:    "the claim on this message is held by b",
			byOther: true,
		},
		"answered": {
			check:   replyCheck{receivers: both, hasBroker: true, newest: settled(collab.ClaimAnswered)},
			want:    "this message was answered by b",
			byOther: true,
		},
		"offered again": {
			check: replyCheck{receivers: both, hasBroker: true, newest: settled(collab.ClaimOffered)},
			want:  needsClaim,
		},
	} {
		c.check.agent = "agent:a"
		if got := c.check.refusal(); got != c.want || c.check.answeredByOther() != c.byOther {
			t.Errorf("%s: refusal %q, answered by other %v; want %q, %v", name, got, c.check.answeredByOther(), c.want, c.byOther)
		}
	}
}

package tg_test

import (
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
)

func TestClaim_LostReplyCausesNoNotice(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		team, will, w3, w4 := h.team()
		var sources []string
		for _, text := range []string{"hello again", "who can look?", "and who at this?", "and at that?"} {
			if len(sources) > 0 {
				h.api.Say(team, will, text)
				next(t, w4)
			}
			sources = append(sources, next(t, w3).SourceID)
		}
		held, answered, free := sources[1], sources[2], sources[3]
		h.broker(t, map[string]any{
			held:     map[string]any{"owner": "w3", "ownerIdentity": "agent:w3", "token": 7, "state": "held"},
			answered: map[string]any{"owner": "w3", "ownerIdentity": "agent:w3", "token": 8, "state": "answered"},
			free:     map[string]any{"owner": "w3", "ownerIdentity": "agent:w3", "token": 9, "state": "offered"},
		})
		for _, lost := range []protocol.ChatReply{
			{Text: "without a claim", InReplyTo: held},
			{Text: "with an old one", InReplyTo: held, Claim: &protocol.ReplyClaim{EventID: held, Token: 6}},
			{Text: "with another's", InReplyTo: held, Claim: &protocol.ReplyClaim{EventID: held, Token: 7}},
			{Text: "too late", InReplyTo: answered},
		} {
			reply(t, w4, team.ID, lost)
			if s := status(t, w4); s.Status != protocol.StatusFailed || s.Reason == "" {
				t.Errorf("%q: %+v", lost.Text, s)
			}
		}
		h.pass(time.Minute)
		h.texts(team.ID, 0)
		if letters := h.deadLetters(); len(letters) != 0 {
			t.Errorf("dead letters %+v", letters)
		}
		reply(t, w4, team.ID, protocol.ChatReply{Text: "nobody answers this", InReplyTo: free})
		if got := h.texts(team.ID, 1); !strings.Contains(got[0], "could not be shown") {
			t.Errorf("of an answer that is lost Will reads %q", got)
		}
		if letters := h.deadLetters(); len(letters) != 1 {
			t.Errorf("dead letters %+v", letters)
		}
	})
}

func TestClaim_StaleIsRefusedWithoutBroker(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		claims := map[string]any{source: map[string]any{"owner": "lead", "token": 9}}
		k := h.broker(t, claims)
		for _, token := range []int64{9, 8} {
			if token == 8 {
				k.Leave()
			}
			reply(t, lead, dm.ID, protocol.ChatReply{Text: "x", InReplyTo: source, Claim: &protocol.ReplyClaim{EventID: source, Token: token}})
			want := map[int64]string{9: "delivered", 8: "failed"}[token]
			if s := status(t, lead); s.Status != want {
				t.Errorf("token %d: %+v", token, s)
			}
		}
	})
}

// TestClaim_WaitsForStartingBroker checks that a reply is not shown before the broker can say who
// holds the claim.
func TestClaim_WaitsForStartingBroker(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		team, will, w3, w4 := h.team()
		h.api.Say(team, will, "who can look?")
		next(t, w4)
		next(t, w3)
		source := next(t, w3).SourceID
		claims := map[string]any{source: map[string]any{"owner": "w3", "ownerIdentity": "agent:w3", "token": 7, "state": "held"}}
		k := h.broker(t, claims)
		reply(t, w4, team.ID, protocol.ChatReply{Text: "without a claim", InReplyTo: source})
		if s := status(t, w4); s.Status != protocol.StatusFailed {
			t.Fatalf("%+v", s)
		}
		k.Leave()
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		reply(t, w4, team.ID, protocol.ChatReply{Text: "before the broker is back", InReplyTo: source, IdempotencyKey: "again"})
		h.pass(5 * time.Second)
		h.texts(team.ID, 0)
		h.broker(t, claims)
		s := status(t, w4)
		for s.Status == protocol.StatusAccepted { // attempts before the broker is back
			s = status(t, w4)
		}
		if s.Status != protocol.StatusFailed {
			t.Errorf("%+v", s)
		}
		h.texts(team.ID, 0)
	})
}

package agent_test

import (
	"testing"
	"time"

	"hubbub/peers/agent"
)

// TestClaim_RefusedEndsIgnored checks that a refused claim immediately ends the event and its
// turn.
func TestClaim_RefusedEndsIgnored(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{Roles: []string{"backend-agents"}, HarnessType: "c2a", Deadline: time.Minute}, func(t *testing.T, w *fixture) {
		b := joinBroker(t, w)
		b.mu.Lock()
		b.owners["e1"] = "w4"
		b.mu.Unlock()
		w.say(post("e1", "@backend-agents who can look?"))
		w.sleep(time.Second)
		call(w.tools(), "chat.claim", map[string]any{"eventId": "e1"})
		w.sleep(time.Second)
		w.wantDispositions("e1 ignored")
		equal(t, "turns", w.turnStates(), []string{"e1 1 started", "e1 1 accepted", "e1 1 finished"})
		if r, _ := call(w.tools(), "chat.send_message", map[string]any{"inReplyTo": "e1", "text": "me too"}); r["reason"] != "claimed_by_other" {
			t.Errorf("an answer to what another agent has gives %v", r)
		}
	})
}

// TestClaim_TakenByASignal takes the claim as chat.claim does. The holder gets the content, and others
// are refused. Other signals need no claim.
func TestClaim_TakenByASignal(t *testing.T) {
	for _, c := range []struct{ owner, signal, reason, ends string }{
		{"", "claimed", "", "e1 claimed"}, {"", "working", "", "e1 claimed"},
		{"w4", "claimed", "claimed_by_other", "e1 ignored"}, {"w4", "working", "claimed_by_other", "e1 ignored"},
		{"w4", "declined", "", "e1 ignored"}, {"w4", "seen", "", "e1 acknowledged"},
	} {
		h := newStub(accepting)
		withFixture(t, h, &agent.Options{Roles: []string{"backend-agents"}, HarnessType: "c2a", Deadline: time.Minute}, func(t *testing.T, w *fixture) {
			b := joinBroker(t, w)
			if c.owner != "" {
				b.mu.Lock()
				b.owners["e1"] = c.owner
				b.mu.Unlock()
			}
			w.say(post("e1", "@backend-agents who can look?"))
			w.sleep(time.Second)
			r, _ := call(w.tools(), "chat.react", map[string]any{"inReplyTo": "e1", "signal": c.signal})
			if reason, _ := r["reason"].(string); reason != c.reason {
				t.Errorf("%s of %q's event: %v", c.signal, c.owner, r)
			}
			w.sleep(time.Second)
			w.wantDispositions(c.ends)
			b.mu.Lock()
			owner := b.owners["e1"]
			b.mu.Unlock()
			if mine := c.owner == "" && c.reason == ""; mine != (owner == "lead") {
				t.Errorf("after %s the owner is %q", c.signal, owner)
			}
			turns := h.seen()
			if last := turns[len(turns)-1].Event; (last.Knock == nil) != (c.owner == "") {
				t.Errorf("%s of %q's event: the last delivery has the content: %t", c.signal, c.owner, last.Knock == nil)
			}
		})
	}
}

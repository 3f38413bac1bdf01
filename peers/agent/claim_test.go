package agent_test

import (
	"testing"
	"time"

	"hubbub/peers/agent"
)

// TestARefusedClaimEndsIgnored: at once, with the turn that a program had of it.
func TestARefusedClaimEndsIgnored(t *testing.T) {
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

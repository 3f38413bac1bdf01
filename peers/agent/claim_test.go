package agent_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
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

// TestClaim_WithoutBufferedIsLeftToTheTools checks that a program that takes only knocks is not
// offered again what it has claimed. It reads and answers the event with its tools.
func TestClaim_WithoutBufferedIsLeftToTheTools(t *testing.T) {
	s := newStub(func(_ context.Context, tn *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
		if tn.Event.Knock == nil {
			return harness.Outcome{}, harness.ErrModeUnsupported
		}
		return harness.Outcome{State: harness.Accepted}, nil
	})
	s.caps.Injection = harness.Injection{Notify: true}
	withFixture(t, s, holder, func(t *testing.T, w *fixture) {
		joinBroker(t, w)
		w.say(post("e1", "@backend-agents who can look?"))
		w.sleep(time.Second)
		call(w.tools(), "chat.claim", map[string]any{"eventId": "e1"})
		w.sleep(time.Second)
		call(w.tools(), "chat.react", map[string]any{"inReplyTo": "e1", "signal": "working"})
		w.sleep(time.Second)
		var decisions []string
		for _, r := range w.records {
			if r.is("attention_decision") {
				decisions = append(decisions, fmt.Sprint(r["injection"], " ", r["reason"]))
			}
		}
		equal(t, "decisions", decisions,
			[]string{"notify role_mention", "buffered claim_granted", "tool_mailbox claim_granted+no_buffered"})
		if turns := s.seen(); len(turns) != 2 {
			t.Errorf("%d deliveries; want the knock and one attempt to show the content", len(turns))
		}
		call(w.tools(), "chat.send_message", map[string]any{"inReplyTo": "e1", "text": "looking"})
		w.sleep(time.Second)
		w.wantTexts("signal working", "looking")
		w.wantDispositions("e1 claimed", "e1 responded")
	})
}

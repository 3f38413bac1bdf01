package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/protocol/collab"
)

func TestDecision_IsMadeOnceByItsDeciders(t *testing.T) {
	d := newFixture(t)
	asked := m{"id": "dec_1", "tool": "shell", "arguments": `{"command":"ls","password":"hunter2"}`, "digest": "abc", "eventId": "tg:1:2:3", "chat": "tg:-5",
		"mayDecide": []string{"tg:42"}, "expiresAt": formatTime(d.now.Add(time.Minute))}
	if first := d.do("agent:a", "decision.ask", asked); first.at("decision", "state") != "pending" || first.at("decision", "default") != "deny" ||
		first.at("decision", "arguments") != `{"command":"ls","password":"[redacted:named]"}` {
		t.Fatalf("asked: %v", first)
	}
	d.mustRefuse(collab.CodeConflict, "agent:b", "decision.ask", asked)
	allow := m{"id": "dec_1", "verdict": "allow"}
	d.mustRefuse(collab.CodeForbidden, "agent:a", "decision.decide", allow)
	d.mustRefuse(collab.CodeForbidden, "agent:b", "decision.decide", m{"id": "dec_1", "verdict": "allow", "by": "tg:42"})
	d.mustRefuse(collab.CodeForbidden, "agent:a", "decision.decide", m{"id": "dec_1", "verdict": "allow", "by": "agent:b"})
	d.mustRefuse(collab.CodeForbidden, "tg:7", "decision.decide", allow)
	d.mustRefuse(collab.CodeInvalid, "tg:42", "decision.decide", m{"id": "dec_1", "verdict": "perhaps"})
	d.mustRefuse(collab.CodeNotFound, "tg:42", "decision.decide", m{"id": "dec_2", "verdict": "allow"})
	if got := d.do("agent:a", "decision.decide", m{"id": "dec_1", "verdict": "allow", "by": "tg:42"}); got.at("decision", "by") != "tg:42" {
		t.Errorf("decided: %v", got)
	}
	if len(d.sent) != 1 || d.sent[0].to != "agent:a" || d.sent[0].event.Type != collab.EventDecisionChanged.Name {
		t.Errorf("told %v", d.sent)
	}
	before := d.state.seq
	d.do("tg:42", "decision.decide", allow) // the second click
	if d.state.seq != before {
		t.Error("two clicks are two events")
	}
	d.mustRefuse(collab.CodeBadTransition, "tg:42", "decision.decide", m{"id": "dec_1", "verdict": "deny"})
	d.mustRefuse(collab.CodeBadTransition, "cli:will.1", "decision.revoke", m{"id": "dec_1"})
	if again := d.do("agent:a", "decision.ask", asked); again.at("decision", "state") != "allowed" {
		t.Errorf("asked again: %v", again)
	}
}

func TestDecision_TakesItsDefaultOnExpiry(t *testing.T) {
	d := newFixture(t)
	for id, def := range map[string]string{"dec_1": "deny", "dec_2": "allow"} {
		d.do("agent:a", "decision.ask", m{"id": id, "tool": "shell", "digest": "abc", "default": def, "mayDecide": []string{}, "expiresAt": formatTime(d.now.Add(time.Minute))})
	}
	d.now = d.now.Add(time.Minute)
	d.mustRefuse(collab.CodeBadTransition, "cli:will.1", "decision.decide", m{"id": "dec_1", "verdict": "allow"})
	d.sweep(0)
	for id, want := range map[string]string{"dec_1": "expired", "dec_2": "allowed"} {
		if got := d.do("agent:a", "decision.get", m{"id": id}); got.at("decision", "state") != want || got.at("decision", "by") != "default" {
			t.Errorf("%s: %v", id, got)
		}
	}
	if len(d.sent) != 2 {
		t.Errorf("told %v", d.sent)
	}
}

func TestDecision_ReusableIsListedAndRevoked(t *testing.T) {
	d := newStoredFixture(t)
	d.do("agent:a", "decision.ask", m{"id": "dec_1", "tool": "shell", "digest": "abc", "mayDecide": []string{"tg:42"}, "expiresAt": formatTime(d.now.Add(time.Minute))})
	d.do("tg:42", "decision.decide", m{"id": "dec_1", "verdict": "allow", "scope": "always"})
	d.restart()
	if list := d.do("cli:will.1", "decision.list", m{"state": "allowed"}); len(list["decisions"].([]any)) != 1 {
		t.Errorf("listed %v", list)
	}
	d.mustRefuse(collab.CodeForbidden, "tg:7", "decision.revoke", m{"id": "dec_1"})
	got := d.do("cli:will.1", "decision.revoke", m{"id": "dec_1"})
	if got.at("decision", "state") != "revoked" || got.at("decision", "by") != "cli:will" {
		t.Errorf("revoked: %v", got)
	}
	d.mustRefuse(collab.CodeInvalid, "agent:a", "decision.ask", m{"id": "dec_2", "tool": "shell", "digest": "abc", "mayDecide": []string{"agent:a"}, "expiresAt": formatTime(d.now.Add(time.Minute))})
	d.mustRefuse(collab.CodeInvalid, "agent:a", "decision.ask", m{"id": "dec_3", "tool": "shell", "digest": strings.Repeat("x", 300), "expiresAt": formatTime(d.now.Add(time.Minute))})
}

// TestDecision_ExpiresWithinADay also checks that it expires in the future.
func TestDecision_ExpiresWithinADay(t *testing.T) {
	d := newFixture(t)
	ask := func(id string, after time.Duration) m {
		return m{"id": id, "tool": "shell", "digest": "abc", "mayDecide": []string{}, "expiresAt": formatTime(d.now.Add(after))}
	}
	d.mustRefuse(collab.CodeInvalid, "agent:a", "decision.ask", ask("now", 0))
	d.mustRefuse(collab.CodeInvalid, "agent:a", "decision.ask", ask("later", 24*time.Hour+time.Millisecond))
	d.do("agent:a", "decision.ask", ask("soon", time.Millisecond))
	d.do("agent:a", "decision.ask", ask("last", 24*time.Hour))
	if got := len(d.log); got != 2 {
		t.Errorf("%d events of two decisions", got)
	}
	d.sweep(time.Millisecond - time.Microsecond)
	if len(d.sent) != 0 {
		t.Error("expired before its time")
	}
	d.now = d.now.Add(time.Microsecond) // before the next sweep
	for _, c := range []struct {
		state string
		want  []string
	}{{"", []string{"soon", "last"}}, {"pending", []string{"last"}}, {"expired", []string{"soon"}}} {
		var ids []string
		for _, one := range d.do("cli:will", "decision.list", m{"state": c.state}).list("decisions") {
			ids = append(ids, one["id"].(string))
		}
		if !slices.Equal(ids, c.want) {
			t.Errorf("%q are %v; want %v", c.state, ids, c.want)
		}
	}
	if got := d.do("cli:will", "decision.get", m{"id": "soon"}); got.at("decision", "state") != "expired" {
		t.Errorf("got %v", got)
	}
}

// TestDecision_IsCancelledByTheAskingAgent also covers a person who cancels it, a second
// attempt, and a decision that was allowed.
func TestDecision_IsCancelledByTheAskingAgent(t *testing.T) {
	d := newFixture(t)
	ask := func(id string) {
		d.do("agent:a", "decision.ask", m{"id": id, "tool": "shell", "digest": "abc", "mayDecide": []string{"tg:42"}, "expiresAt": formatTime(d.now.Add(time.Minute))})
	}
	for _, who := range []string{"agent:a", "tg:7"} {
		d.sent = nil
		ask(who)
		d.mustRefuse(collab.CodeForbidden, "agent:b", "decision.cancel", m{"id": who})
		got := d.do(peerID(who), "decision.cancel", m{"id": who, "reason": strings.Repeat("x", 300)})
		if reason := got.at("decision", "reason").(string); got.at("decision", "state") != "cancelled" || got.at("decision", "by") != who || len(reason) > 260 || len(reason) < 250 {
			t.Errorf("withdrawn: %v", got)
		}
		d.do(peerID(who), "decision.cancel", m{"id": who})
		if len(d.sent) != 1 || d.sent[0].to != "agent:a" {
			t.Errorf("told %v", d.sent)
		}
		d.mustRefuse(collab.CodeBadTransition, "tg:42", "decision.decide", m{"id": who, "verdict": "allow"})
	}
	for _, who := range []string{"agent:a", "tg:42"} {
		id := "standing " + who
		ask(id)
		d.do("tg:42", "decision.decide", m{"id": id, "verdict": "allow", "scope": "session"})
		d.sent = nil
		d.mustRefuse(collab.CodeForbidden, "agent:b", "decision.revoke", m{"id": id})
		for range 2 {
			if got := d.do(peerID(who), "decision.revoke", m{"id": id}); got.at("decision", "state") != "revoked" {
				t.Errorf("revoked: %v", got)
			}
		}
		if len(d.sent) != 1 {
			t.Errorf("told %v", d.sent)
		}
	}
	d.checkRebuild()
}

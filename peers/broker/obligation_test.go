package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
)

// TestObligation_IsOpenedAndDischarged checks that both sides may report it, that its parties and
// its delegate can list it, halted ones first, that it survives a restart, and that only the
// asking side closes it.
func TestObligation_IsOpenedAndDischarged(t *testing.T) {
	d := newFixture(t)
	open := m{"eventId": "e1", "author": "agent:lead", "recipient": "agent:worker", "blocks": "none", "dischargeDelegate": "agent:boss", "title": "is it safe?", "createdAt": formatTime(d.now.Add(-time.Hour))}
	for _, who := range []protocol.PeerID{"agent:worker", "agent:lead"} {
		if got := d.do(who, "obligation.open", open).at("obligation", "state"); got != "open" {
			t.Errorf("%s tells it: %v", who, got)
		}
	}
	d.do("agent:worker", "obligation.open", m{"eventId": "e2", "author": "tg:77", "recipient": "agent:worker", "blocks": "halted", "defaultAction": "wait"})
	owed := func(p m) (list []string) {
		for _, one := range d.do("cli:will", "obligation.list", p).list("obligations") {
			list = append(list, fmt.Sprint(one.at("owedById"), " owes ", one.at("owedToId"), " ", one.at("id"), " ", one.at("state")))
		}
		return list
	}
	both := []string{"worker owes 77 e2 open", "worker owes lead e1 open"}
	for _, c := range []struct {
		asked m
		want  []string
	}{{m{"owedById": "worker"}, both}, {m{"owedToId": "lead"}, both[1:]}, {m{"owedToId": "agent:boss"}, both[1:]}, {m{"owedToId": "tg:77"}, both[:1]}, {m{"owedById": "lead"}, nil}} {
		if got := owed(c.asked); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q; want %q", c.asked, got, c.want)
		}
	}
	for who, want := range map[protocol.PeerID]string{
		"agent:worker": "agent:worker", "agent:other": "agent:lead or agent:boss", "cli:will": "agent:lead or agent:boss",
	} {
		if got := d.refused(who, "obligation.discharge", m{"eventId": "e1", "recipient": "agent:worker"}); !strings.Contains(got, "forbidden") || !strings.Contains(got, "agent:lead or agent:boss") {
			t.Errorf("%s (%s) closes it: %s", who, want, got)
		}
	}
	d.do("agent:worker", "obligation.react", m{"targetEventId": "e1", "signal": "done", "recipient": "agent:worker"})
	d.do("agent:worker", "obligation.react", m{"targetEventId": "e2", "signal": "declined"})
	if got := owed(m{}); !slices.Equal(got, []string{"worker owes 77 e2 escalated", both[1]}) {
		t.Errorf("after the recipient's signals %q", got)
	}
	d.do("agent:boss", "obligation.discharge", m{"eventId": "e1", "recipient": "agent:worker"})
	if got := d.refused("agent:lead", "obligation.discharge", m{"eventId": "e1", "recipient": "agent:worker"}); !strings.Contains(got, "already discharged by agent:boss") {
		t.Errorf("to close it again: %s", got)
	}
	d.do("agent:worker", "obligation.react", m{"targetEventId": "e2", "signal": "done", "recipient": "agent:worker", "actor": "tg:77"}) // a person's word, by the agent of their chat
	if got := owed(m{}); got != nil {
		t.Errorf("in the end %q", got)
	}
}

// TestObligation_RefusesInvalidOnes checks that the refusal names the fault.
func TestObligation_RefusesInvalidOnes(t *testing.T) {
	d := newFixture(t)
	d.do("agent:worker", "obligation.open", m{"eventId": "e1", "author": "agent:lead", "recipient": "agent:worker", "blocks": "halted"})
	for _, c := range []struct {
		who    protocol.PeerID
		method string
		p      m
		want   string
	}{
		{"agent:worker", "obligation.open", m{"eventId": "e9", "author": "agent:lead", "recipient": "agent:worker", "blocks": "quite"}, "blocks"},
		{"agent:worker", "obligation.open", m{"eventId": "", "author": "agent:lead", "recipient": "agent:worker", "blocks": "none"}, "eventId"},
		{"agent:worker", "obligation.open", m{"eventId": "e9", "author": "lead", "recipient": "agent:worker", "blocks": "none"}, "lead is not an identity"},
		{"agent:worker", "obligation.open", m{"eventId": "e9", "author": "agent:worker", "recipient": "agent:worker", "blocks": "none"}, "author and recipient are the same"},
		{"agent:other", "obligation.open", m{"eventId": "e9", "author": "agent:lead", "recipient": "agent:worker", "blocks": "none"}, "neither author nor recipient"},
		{"agent:worker", "obligation.react", m{"targetEventId": "e1", "signal": "applause"}, "unknown signal"},
		{"agent:worker", "obligation.react", m{"targetEventId": "e1", "signal": "done", "actor": "agent:lead", "recipient": "agent:worker"}, "may not speak for agent:lead"},
		{"agent:other", "obligation.react", m{"targetEventId": "e1", "signal": "done", "actor": "tg:77", "recipient": "agent:worker"}, "may not speak for tg:77"},
		{"agent:lead", "obligation.discharge", m{"eventId": "e1", "recipient": "agent:other"}, "nobody waits for agent:other because of e1"},
		{"agent:lead", "obligation.get", m{"eventId": "e7", "recipient": "agent:worker"}, "nobody waits"},
	} {
		if got := d.refused(c.who, c.method, c.p); !strings.Contains(got, c.want) {
			t.Errorf("%s %v: %s; want %q", c.method, c.p, got, c.want)
		}
	}
}

// TestObligation_KeepsActsAboutUnknownEvents checks that an act counts once the event is known.
func TestObligation_KeepsActsAboutUnknownEvents(t *testing.T) {
	d := newFixture(t)
	got := d.do("agent:lead", "obligation.react", m{"targetEventId": "e1", "signal": "done", "recipient": "agent:worker"})
	if got.at("obligation", "state") != "unknown" || len(d.do("cli:will", "obligation.list", m{}).list("obligations")) != 0 {
		t.Errorf("held is %v", got)
	}
	got = d.do("agent:worker", "obligation.open", m{"eventId": "e1", "author": "agent:lead", "recipient": "agent:worker", "blocks": "halted"})
	if got.at("obligation", "state") != "discharged" || got.at("obligation", "by") != "agent:lead" {
		t.Errorf("then it is %v", got)
	}
}

// refused returns the code and the words with which a request is refused.
func (d *fixture) refused(from protocol.PeerID, name string, params any) string {
	d.t.Helper()
	r := d.ask(from, name, params)
	if r.OK {
		return "it is done"
	}
	return r.Error.Code + ": " + r.Error.Message
}

// TestPrune_KeepsOpenObligations checks that an open one is kept with all acts, across restarts,
// and that a closed one is deleted.
func TestPrune_KeepsOpenObligations(t *testing.T) {
	d := newStoredFixture(t)
	for _, id := range []string{"open", "closed"} {
		d.do("agent:worker", "obligation.open", m{"eventId": id, "author": "agent:lead", "recipient": "agent:worker", "blocks": "halted"})
		d.do("agent:worker", "obligation.react", m{"targetEventId": id, "signal": "declined", "recipient": "agent:worker"})
	}
	d.do("agent:lead", "obligation.discharge", m{"eventId": "closed", "recipient": "agent:worker"})
	for range 3 {
		d.pruned().Exec(`UPDATE published SET seq = (SELECT max(seq) FROM events)`)
		d.sweep(91 * 24 * time.Hour)
		d.do("cli:will", "question.ask", m{"title": "later", "askedOfId": "tg:1"}) // the newest event never leaves
	}
	d.restart()
	got := d.do("cli:will", "obligation.get", m{"eventId": "open", "recipient": "agent:worker"})
	if acts, _ := got.at("obligation", "acts").([]any); got.at("obligation", "state") != "escalated" || len(acts) != 1 {
		t.Errorf("after nine months it is %v", got)
	}
	if got := d.refused("cli:will", "obligation.get", m{"eventId": "closed", "recipient": "agent:worker"}); !strings.Contains(got, "nobody waits") {
		t.Errorf("what is closed stays: %s", got)
	}
	d.do("agent:lead", "obligation.discharge", m{"eventId": "open", "recipient": "agent:worker"})
}

// TestObligationList_HasAQuestionOnce checks that a question is listed as its obligation if one
// was reported, and not after it is closed, and else as a question, as with a recipient of an
// older draft.
func TestObligationList_HasAQuestionOnce(t *testing.T) {
	d := newFixture(t)
	kinds := func() string {
		list := []string{}
		for _, one := range d.do("cli:will", "obligation.list", m{}).list("obligations") {
			list = append(list, fmt.Sprint(one.at("kind"), " ", one.at("id")))
		}
		return strings.Join(list, ", ")
	}
	d.announce("worker")
	d.do("cli:will", "question.ask", m{"id": "q", "title": "safe?", "askedOfId": "worker", "obligation": m{"blocks": "halted"}})
	if got := kinds(); got != "question q" {
		t.Errorf("listed is %q", got)
	}
	d.do("agent:worker", "obligation.open", m{"eventId": "q", "author": "cli:will", "recipient": "agent:worker", "blocks": "halted"})
	if got := kinds(); got != "obligation q" {
		t.Errorf("with the obligation, listed is %q", got)
	}
	d.do("cli:will", "obligation.discharge", m{"eventId": "q", "recipient": "agent:worker"})
	if got := kinds(); got != "" {
		t.Errorf("closed, listed is %q", got)
	}
}

package broker

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestObligationList_HasBothParties checks the filters by debtor and by creditor, over open
// records, the oldest first. Nobody owes anything to themselves.
func TestObligationList_HasBothParties(t *testing.T) {
	d := newFixture(t)
	owed := func(p m) (list []string) {
		for _, one := range d.do("cli:will", "obligation.list", p).list("obligations") {
			list = append(list, fmt.Sprint(one.at("owedById"), " owes ", one.at("owedToId"), " ", one.at("id")))
		}
		return list
	}
	later := func() { d.now = d.now.Add(time.Minute) }
	d.do("agent:lead", "work_item.create", m{"id": "wi_1", "title": "build it", "ownerId": "worker", "nextMoveOwnerId": "worker"})
	d.do("agent:lead", "work_item.create", m{"id": "wi_2", "title": "my own", "ownerId": "lead", "nextMoveOwnerId": "lead"})
	later()
	d.do("agent:worker", "question.ask", m{"id": "q_1", "title": "which region?", "askedOfId": "cli:will"})
	later()
	d.do("agent:worker", "decision.ask", m{"id": "dec_1", "tool": "shell", "arguments": "secret", "digest": "abc", "mayDecide": []string{"tg:1", "tg:2"}, "expiresAt": formatTime(d.now.Add(time.Hour))})
	d.do("agent:lead", "decision.ask", m{"id": "dec_2", "tool": "shell", "digest": "abc", "mayDecide": []string{}, "expiresAt": formatTime(d.now.Add(time.Minute))})
	all := []string{"worker owes lead wi_1", "will owes worker q_1", "tg:1 owes worker dec_1", "tg:2 owes worker dec_1", "people at the command line owes lead dec_2"}
	for _, c := range []struct {
		asked m
		want  []string
	}{
		{m{}, all},
		{m{"owedById": "worker"}, all[:1]}, {m{"owedById": "will"}, all[1:2]}, {m{"owedById": "tg:2"}, all[3:4]},
		{m{"owedToId": "worker"}, all[1:4]}, {m{"owedToId": "agent:lead", "owedById": "agent:worker"}, all[:1]}, {m{"owedToId": "nobody"}, nil},
	} {
		if got := owed(c.asked); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q; want %q", c.asked, got, c.want)
		}
	}
	first := d.do("cli:will", "obligation.list", m{"limit": 3})
	if rest := owed(m{"after": first["next"]}); len(first.list("obligations")) != 3 || !slices.Equal(rest, all[3:]) {
		t.Errorf("the second page: %q", rest)
	}
	later() // dec_2 is not waited for any more
	d.do("cli:will", "question.answer", m{"id": "q_1", "answer": "eu"})
	d.do("agent:worker", "work_item.update", m{"id": "wi_1", "state": "review", "nextMoveOwnerId": "lead"})
	d.do("tg:1", "decision.decide", m{"id": "dec_1", "verdict": "deny"})
	if got := owed(m{}); !slices.Equal(got, []string{"lead owes worker wi_1"}) {
		t.Errorf("in the end %q", got)
	}
}

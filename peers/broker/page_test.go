package broker

import (
	"testing"
	"time"
)

// TestLists_PageWhileTheyChange checks that a list continues after an item that has left it.
func TestLists_PageWhileTheyChange(t *testing.T) {
	for _, d := range []*fixture{newFixture(t), newStoredFixture(t)} {
		for _, n := range []string{"1", "2", "3"} {
			d.do("cli:will", "work_item.create", m{"id": "w" + n, "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "wake": true})
			d.do("cli:will", "question.ask", m{"id": "q" + n, "title": "t", "askedOfId": "cli:ann"})
			d.do("agent:lead", "decision.ask", m{"id": "d" + n, "tool": "shell", "digest": "abc", "mayDecide": []string{}, "expiresAt": formatTime(d.now.Add(time.Hour))})
		}
		d.sweep(11 * time.Minute)
		for _, c := range []struct {
			list, items string
			filter      m
			end         string // moves the first item out of the list
			with        m
		}{
			{"delivery.list", "deliveries", m{"targetAgentId": "lead", "status": "pending"}, "delivery.ack", m{}},
			{"work_item.list", "work_items", m{"state": "open"}, "work_item.update", m{"state": "done"}},
			{"wake.reminded", "reminders", m{"remindedId": "cli:will"}, "work_item.update", m{"state": "done"}},
			{"question.list", "questions", m{"state": "open"}, "question.answer", m{"answer": "x"}},
			{"obligation.list", "obligations", m{"owedById": "cli:ann"}, "question.answer", m{"answer": "x"}},
			{"decision.list", "decisions", m{"state": "pending"}, "decision.decide", m{"verdict": "deny"}},
		} {
			all := d.do("cli:will", c.list, c.filter).list(c.items)
			c.filter["limit"] = 1
			page := d.do("cli:will", c.list, c.filter)
			c.with["id"] = page.list(c.items)[0]["id"]
			d.do("cli:will", c.end, c.with)
			c.filter["after"] = page["next"]
			if rest := d.do("cli:will", c.list, c.filter).list(c.items); len(rest) != 1 || rest[0]["id"] != all[1]["id"] {
				t.Errorf("%s continues with %v; want %v", c.list, rest, all[1])
			}
		}
		d.announce("a", "b")
		page := d.do("cli:will", "identity.list", m{"limit": 1})
		d.sweep(25 * time.Hour)
		d.do("agent:b", "identity.heartbeat", m{"endpointId": "e-b"})
		d.sweep(time.Second) // a is removed
		if rest := d.do("cli:will", "identity.list", m{"after": page["next"]}).list("identities"); len(rest) != 1 || rest[0]["endpointId"] != "e-b" {
			t.Errorf("identity.list continues with %v", rest)
		}
	}
}

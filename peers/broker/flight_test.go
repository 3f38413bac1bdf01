package broker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestFlight_FinishesItsDelivery checks that its agent and people move it, that its requester may
// cancel it, that its delivery is settled once, and that its completed work goes to the requester
// for review.
func TestFlight_FinishesItsDelivery(t *testing.T) {
	for _, c := range []struct {
		by                                     protocol.PeerID
		end, before                            string
		delivery, state, acceptance, next, own string
	}{
		{"agent:lead", "completed", "working", "acknowledged", "review", "pending", "boss", "boss"},
		{"cli:will", "completed", "open", "acknowledged", "review", "pending", "boss", "boss"},
		{"agent:lead", "completed", "review", "acknowledged", "review", "none", "lead", "<nil>"},
		{"agent:lead", "completed", "done", "acknowledged", "done", "none", "lead", "<nil>"},
		{"agent:lead", "failed", "working", "acknowledged", "working", "none", "lead", "<nil>"},
		{"agent:lead", "cancelled", "working", "cancelled", "working", "none", "lead", "<nil>"},
		{"agent:boss", "cancelled", "working", "cancelled", "working", "none", "lead", "<nil>"},
	} {
		d := newFixture(t)
		d.announce("lead", "boss", "other")
		d.do("agent:boss", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "state": c.before})
		made := d.do("agent:boss", "invocation.create", m{"targetAgentId": "lead", "text": "go", "workItemId": "w"})
		id := made.at("flight", "id")
		if made.at("flight", "state") != "waking" {
			t.Errorf("begun: %v", made)
		}
		for _, who := range []protocol.PeerID{"agent:other", "agent:boss"} {
			d.mustRefuse(collab.CodeForbidden, who, "flight.update", m{"id": id, "state": "running"})
		}
		d.mustRefuse(collab.CodeForbidden, "agent:other", "flight.update", m{"id": id, "state": "cancelled"})
		d.mustRefuse(collab.CodeBadTransition, "agent:lead", "flight.update", m{"id": id, "state": "queued"})
		d.mustRefuse(collab.CodeInvalid, "agent:lead", "flight.update", m{"id": id, "state": "landed"})
		d.do("agent:lead", "flight.update", m{"id": id, "state": "running", "output": "half"})
		before := len(d.log)
		d.do("agent:lead", "flight.update", m{"id": id, "state": "running"}) // said twice
		d.do("agent:lead", "flight.update", m{"id": id, "state": "running", "output": "half"})
		if len(d.log) != before {
			t.Errorf("%d events of what was said twice", len(d.log)-before)
		}
		d.do("agent:lead", "flight.update", m{"id": id, "state": "running", "error": "hm"})
		if len(d.log) != before+1 {
			t.Errorf("%d events of one news", len(d.log)-before)
		}
		if got := d.do(c.by, "flight.update", m{"id": id, "state": c.end}); got.at("flight", "state") != c.end || got.at("flight", "output") != "half" || got.at("flight", "error") != "hm" {
			t.Errorf("ended: %v", got)
		}
		before = len(d.log)
		d.do(c.by, "flight.update", m{"id": id, "state": c.end})
		d.mustRefuse(collab.CodeBadTransition, "agent:lead", "flight.update", m{"id": id, "state": "running"})
		d.do(c.by, "flight.update", m{"id": id, "state": c.end, "output": "more", "wake": true})
		if len(d.log) < before+1 || len(d.state.openByTarget["agent:lead"]) != 0 {
			t.Errorf("%d events, and open are %v", len(d.log)-before, d.state.openByTarget)
		}
		work := d.do("cli:will", "work_item.get", m{"id": "w"})
		got := fmt.Sprint(d.state.deliveries.get(made.at("delivery", "id").(string)).Status, " ", work.at("work_item", "state"), " ", work.at("work_item", "acceptanceState"), " ",
			work.at("work_item", "nextMoveOwnerId"), " ", work.at("work_item", "requestedById"))
		if want := strings.Join([]string{c.delivery, c.state, c.acceptance, c.next, c.own}, " "); got != want {
			t.Errorf("%s, %s by %s: %s; want %s", c.before, c.end, c.by, got, want)
		}
		d.checkRebuild()
	}
}

// TestQuestion_IsMovedByItsParties checks that each step wakes the party with the next move.
func TestQuestion_IsMovedByItsParties(t *testing.T) {
	d := newFixture(t)
	d.announce("asker", "asked", "other")
	d.do("agent:asker", "question.ask", m{"id": "q", "title": "why?", "askedOfId": "asked"})
	d.wantWakes("agent:asked next_move_owner")
	for method, params := range map[string]m{
		"question.answer": {"id": "q", "answer": "x"}, "question.close": {"id": "q"}, "question.decline": {"id": "q"},
	} {
		d.mustRefuse(collab.CodeForbidden, "agent:other", method, params)
		d.mustRefuse(collab.CodeNotFound, "agent:asked", method, m{"id": "nowhere", "answer": "x"})
	}
	d.mustRefuse(collab.CodeInvalid, "agent:asked", "question.answer", m{"id": "q", "answer": " "})
	d.do("agent:asked", "question.answer", m{"id": "q", "answer": "so"})
	d.wantWakes("agent:asker next_move_owner")
	if again := d.do("agent:asked", "question.answer", m{"id": "q", "answer": "so"}); again["duplicate"] != true {
		t.Errorf("answered twice: %v", again)
	}
	d.mustRefuse(collab.CodeBadTransition, "agent:asked", "question.answer", m{"id": "q", "answer": "otherwise"})
	d.wantWakes()
	reopened := d.do("agent:asker", "question.reopen", m{"id": "q"})
	if reopened.at("question", "answer") != nil || reopened.at("question", "nextMoveOwnerId") != "asked" || reopened.at("question", "state") != "open" {
		t.Errorf("reopened: %v", reopened)
	}
	d.wantWakes("agent:asked next_move_owner")
	before := len(d.log)
	d.do("agent:asker", "question.reopen", m{"id": "q"}) // said twice
	if len(d.log) != before {
		t.Errorf("%d events of what was said twice", len(d.log)-before)
	}
	spawned := d.do("agent:asked", "question.spawn_work", m{"id": "q"})
	work := spawned.at("work_item", "id")
	if spawned.at("work_item", "ownerId") != "asked" || spawned.at("work_item", "nextMoveOwnerId") != "asked" || spawned.at("work_item", "requestedById") != "asker" ||
		spawned.at("work_item", "parentId") != "q" || spawned.at("work_item", "title") != "why?" || spawned.at("question", "spawnedWorkItemId") != work {
		t.Errorf("spawned: %v", spawned)
	}
	if again := d.do("agent:asker", "question.spawn_work", m{"id": "q", "title": "another"}); again.at("work_item", "id") != work || again["duplicate"] != true {
		t.Errorf("spawned twice: %v", again)
	}
	d.wantWakes()
	closed := d.do("agent:asker", "question.close", m{"id": "q"})
	if closed.at("question", "state") != "closed" || closed.at("question", "nextMoveOwnerId") != nil {
		t.Errorf("closed: %v", closed)
	}
	d.mustRefuse(collab.CodeBadTransition, "agent:asker", "question.reopen", m{"id": "q"})
	d.wantWakes()
	d.checkRebuild()
}

// TestEventsList_IncludesTheBatch covers events that are stored and events that are not stored
// yet.
func TestEventsList_IncludesTheBatch(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	tr := d.turn("agent:lead")
	for n := range 3 {
		want := emit(tr, collab.EventConversation, "conversation:c", collab.Conversation{ID: fmt.Sprint(n)}, nil)
		if got := tr.event(want.Seq); got.ID != want.ID || got.Seq != int64(n+2) {
			t.Errorf("after %d events of a batch, event %d is %d", n+1, want.Seq, got.Seq)
		}
		if got := tr.event(1); got.ID != d.log[0].ID {
			t.Errorf("after %d events of a batch, the one before it is %d", n+1, got.Seq)
		}
	}
}

// TestWake_FindsAnAgentUnderEitherName checks that an agent that announces itself is woken
// once, for the name that it announces and for its own identity.
func TestWake_FindsAnAgentUnderEitherName(t *testing.T) {
	d := newFixture(t)
	d.do("agent:w7", "identity.announce", m{"endpointId": "e", "logicalAgentId": "helper"})
	d.do("agent:w7", "identity.leave", m{"endpointId": "e"})
	for _, target := range []string{"helper", "agent:w7", "agent:other"} {
		a := d.ask("cli:will", "invocation.create", m{"targetAgentId": target, "text": "go"})
		if a.OK {
			t.Errorf("%s is there: %s", target, a.Result)
		}
	}
	d.wantWakes()
	d.do("agent:w7", "identity.heartbeat", m{"endpointId": "e"})
	d.wantWakes("agent:w7 explicit_mention", "agent:w7 explicit_mention")
	d.do("agent:w7", "identity.announce", m{"endpointId": "e", "logicalAgentId": "helper"})
	d.wantWakes()
	d.checkRebuild()
}

// TestDecodeParams_AcceptsAbsentParams takes them for an empty object.
func TestDecodeParams_AcceptsAbsentParams(t *testing.T) {
	for raw, want := range map[string]int{"": 0, " \n": 0, "null": 0, "{}": 0, ` {"limit": 3} `: 3, `{"limit":3,"more":true}`: 3, "[]": -1, `{"limit":`: -1, `{"limit":"3"}`: -1} {
		got := -1
		err := rules.Attempt(func() { got = decodeParams[collab.PageParams]([]byte(raw)).Limit })
		if got != want || (err != nil) != (want < 0) {
			t.Errorf("%q is a limit of %d, %v; want %d", raw, got, err, want)
		}
	}
}

func TestRecord_RefusesCyclesOfAnyLength(t *testing.T) {
	for _, n := range []int{2, 1001} {
		s := newState(nil)
		var r *rules.Record
		for i := range n {
			r = &rules.Record{WorkItem: collab.WorkItem{ID: fmt.Sprint(i), Kind: collab.KindWorkItem, State: collab.WorkOpen, ParentID: fmt.Sprint((i + 1) % n)}}
			s.records.put(r.ID, r, r.Kind, true, 1)
		}
		if err := rules.Attempt(func() { r.MustHaveNoCycles(s.records.get) }); err == nil {
			t.Errorf("a cycle of %d is not found", n)
		}
	}
}

// TestInvocation_ReportsThatItWokeNobody checks that its refusal names the stored records, and a
// wake that is none.
func TestInvocation_ReportsThatItWokeNobody(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	d.sweep(time.Minute)
	details := d.mustRefuse(collab.CodeUnavailable, "cli:will", "invocation.create", m{"targetAgentId": "lead", "text": "go"})
	if wake, told := details["wake"]; !told || wake != nil || details["flightId"] != details.at("flight", "id") || details["invocationId"] != details.at("invocation", "id") {
		t.Errorf("the refusal says %v", details)
	}
}

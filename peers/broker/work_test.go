package broker

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

func w0(extra m) m {
	p := m{
		"id": "wi-1", "kind": "work_item", "title": "Test work item", "createdById": "actor-1", "ownerId": "actor-1",
		"nextMoveOwnerId": "actor-1", "state": "open", "acceptanceState": "none",
		"createdAt": 1700000000000, "updatedAt": 1700000000000,
	}
	for k, v := range extra {
		if v == nil {
			delete(p, k)
			continue
		}
		p[k] = v
	}
	return p
}

func TestWorkCreate_ChecksTheItem(t *testing.T) {
	for name, c := range map[string]struct {
		extra m
		want  string // of the refusal; empty when accepted
	}{
		"as it is":              {nil, ""},
		"no owner":              {m{"ownerId": nil}, "non-terminal work items require ownerId"},
		"no next mover":         {m{"nextMoveOwnerId": nil}, "non-terminal collaboration records require nextMoveOwnerId"},
		"done":                  {m{"state": "done", "ownerId": nil, "nextMoveOwnerId": nil}, ""},
		"waiting":               {m{"state": "waiting"}, "waiting work items require waitingOn"},
		"on itself":             {m{"state": "waiting", "waitingOn": m{"kind": "work_item", "label": "x", "targetId": "wi-1"}}, "waitingOn.targetId cannot reference the work item itself"},
		"its own parent":        {m{"parentId": "wi-1"}, "parentId cannot reference the record itself"},
		"updated early":         {m{"updatedAt": 1699999999999}, "updatedAt must be greater than or equal to createdAt"},
		"pending":               {m{"acceptanceState": "pending"}, "requestedById"},
		"blank id":              {m{"id": " "}, "collaboration record id is required"},
		"blank title":           {m{"title": ""}, "collaboration title is required"},
		"blank creator":         {m{"createdById": ""}, "createdById is required"},
		"unknown state":         {m{"state": "paused"}, "paused"},
		"a kind that it is not": {m{"kind": "question"}, "question"},
		"params of no shape":    {m{"title": 5}, "params.title must be a string, not number"},
		"a member of no shape":  {m{"waitingOn": m{"label": true}}, "params.waitingOn.label must be a string, not bool"},
		"an object of no shape": {m{"waitingOn": "x"}, "params.waitingOn must be an object, not string"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			if c.want == "" {
				got := d.do("agent:actor-1", "work_item.create", w0(c.extra))
				if got.at("work_item", "kind") != "work_item" || got.at("work_item", "createdById") != "actor-1" {
					t.Errorf("got %v", got)
				}
				return
			}
			details := d.mustRefuse(collab.CodeInvalid, "agent:actor-1", "work_item.create", w0(c.extra))
			if !strings.Contains(details["error"].(string), c.want) {
				t.Errorf("refused with %v; want %q", details["error"], c.want)
			}
			if len(d.log) != 0 {
				t.Errorf("a refusal left %d events", len(d.log))
			}
		})
	}
}

func TestWorkUpdate_IsForItsParties(t *testing.T) {
	d := newFixture(t)
	d.announce("owner", "mover", "stranger")
	made := d.do("agent:boss", "work_item.create", m{"id": "w", "title": "t", "ownerId": "owner", "nextMoveOwnerId": "agent:mover", "onBehalfOf": "tg:7"})
	d.mustRefuse(collab.CodeForbidden, "agent:stranger", "work_item.update", m{"id": "w", "state": "working"})
	d.mustRefuse(collab.CodeNotFound, "agent:owner", "work_item.update", m{"id": "v", "state": "working"})
	moved := d.do("agent:mover", "work_item.update", m{"id": "w", "state": "working"})
	if made.at("work_item", "onBehalfOf") != "tg:7" || moved.at("work_item", "onBehalfOf") != nil { // an agent's own work is not on anybody's behalf
		t.Errorf("got %v, then %v", made, moved)
	}
	r := d.mustRefuse(collab.CodeBadTransition, "agent:owner", "work_item.update", m{"id": "w", "state": "open"})
	if r["from"] != "working" || r["to"] != "open" || len(r["allowed"].([]any)) != 4 {
		t.Errorf("details = %v", r)
	}
	d.mustRefuse(collab.CodeInvalid, "agent:boss", "work_item.update", m{"id": "w", "state": "waiting"})
	got := d.do("tg:7", "work_item.update", m{"id": "w", "state": "waiting", "waitingOn": m{"kind": "actor", "label": "review", "targetId": "stranger"}})
	if got.at("work_item", "waitingOn", "targetId") != "stranger" {
		t.Errorf("got %v", got)
	}
	got = d.do("agent:boss", "work_item.update", m{"id": "w", "state": "done"})
	if got.at("work_item", "waitingOn") != nil || got.at("work_item", "ownerId") != "owner" {
		t.Errorf("got %v", got)
	}
	d.mustRefuse(collab.CodeBadTransition, "agent:boss", "work_item.update", m{"id": "w", "state": "working"})
	d.do("agent:boss", "work_item.update", m{"id": "w", "state": "open"})
	steps := ""
	for _, e := range d.log {
		if strings.HasPrefix(e.Type, "collab.work_item.") {
			steps += fmt.Sprint(parse(t, e.Metadata)["step"], " ")
		}
	}
	if steps != "created claimed waiting done reopened " {
		t.Errorf("steps = %s", steps)
	}
	d.wantWakes() // none was requested
	d.checkRebuild()
}

func TestWork_WakesOnRequest(t *testing.T) {
	d := newFixture(t)
	d.announce("owner", "mover", "dep")
	d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "owner", "nextMoveOwnerId": "mover", "wake": true})
	d.wantWakes("agent:mover next_move_owner")
	d.do("cli:will", "work_item.wake", m{"id": "w"})
	d.wantWakes("agent:mover next_move_owner")
	d.do("agent:mover", "work_item.wake", m{"id": "w"})
	d.wantWakes("agent:owner owner")
	d.do("agent:mover", "work_item.update", m{"id": "w", "state": "waiting", "waitingOn": m{"kind": "actor", "label": "dep", "targetId": "dep"}})
	d.do("agent:mover", "work_item.wake", m{"id": "w"})
	d.wantWakes("agent:dep dependency_owner")
	why := d.do("cli:will", "wake.explain", m{"workItemId": "w"})
	if why["rule"] != "dependency_owner" || why.at("wake", "targetAgentId") != "dep" || len(why.list("candidates")) < 1 {
		t.Errorf("explained as %v", why)
	}
	d.do("cli:will", "work_item.update", m{"id": "w", "state": "cancelled"})
	if r := d.do("cli:will", "work_item.wake", m{"id": "w"}); r["wake"] != nil || r.at("decision", "rule") != "none" {
		t.Errorf("a cancelled item wakes %v", r)
	}
	d.do("cli:will", "work_item.create", m{"id": "v", "title": "t", "ownerId": "gone", "nextMoveOwnerId": "gone"})
	d.mustRefuse(collab.CodeUnavailable, "cli:will", "work_item.wake", m{"id": "v"})
	d.announce("gone")
	d.wantWakes("agent:gone next_move_owner")
	d.do("cli:will", "work_item.create", m{"id": "p", "title": "t", "ownerId": "will", "nextMoveOwnerId": "will"})
	if r := d.do("cli:ann", "work_item.wake", m{"id": "p"}); r["wake"] != nil {
		t.Errorf("a person is woken: %v", r)
	}
	d.checkRebuild()
}

// TestWork_WaitingForAnExternalThingWakesItsMover checks that a thing or an unknown agent is not
// woken, and does not replace the party with the next move. A named and known party is woken as
// usual.
func TestWork_WaitingForAnExternalThingWakesItsMover(t *testing.T) {
	d := newFixture(t)
	d.announce("owner", "mover", "build-42")
	d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "owner", "nextMoveOwnerId": "mover"})
	for _, c := range []struct{ kind, target, want string }{
		{"artifact", "build-42", "agent:mover next_move_owner"},
		{"condition", "", "agent:mover next_move_owner"},
		{"actor", "nobody", "agent:mover next_move_owner"},
		{"actor", "build-42", "agent:build-42 dependency_owner"},
	} {
		d.do("cli:will", "work_item.update", m{"id": "w", "state": "waiting", "waitingOn": m{"kind": c.kind, "label": "the build", "targetId": c.target}})
		d.do("cli:will", "work_item.wake", m{"id": "w"})
		d.wantWakes(c.want)
	}
	d.do("cli:will", "work_item.update", m{"id": "w", "waitingOn": m{"kind": "artifact", "label": "the build"}})
	d.do("agent:mover", "work_item.wake", m{"id": "w"})
	d.wantWakes("agent:owner owner")
	if why := d.do("cli:will", "wake.explain", m{"workItemId": "w"}); !strings.HasPrefix(fmt.Sprint(why["reason"]), "owner: owns w, which waits for the build") {
		t.Errorf("explained as %v", why["reason"])
	}
	d.checkRebuild()
}

func TestWork_EndingCancelsItsWakes(t *testing.T) {
	d := newFixture(t)
	d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "gone", "nextMoveOwnerId": "gone", "wake": true})
	d.do("cli:will", "work_item.update", m{"id": "w", "state": "done"})
	d.announce("gone")
	d.wantWakes()
	list := d.do("agent:gone", "delivery.list", m{"targetAgentId": "gone"})
	if dl := list.list("deliveries"); len(dl) != 1 || dl[0]["status"] != "cancelled" {
		t.Errorf("deliveries = %v", dl)
	}
}

func TestSweep_RemindsOnePartyAfterTheOther(t *testing.T) {
	d := newFixture(t)
	d.announce("owner", "mover", "dep", "asked")
	d.do("cli:will", "work_item.create", m{"id": "open", "title": "t", "ownerId": "owner", "nextMoveOwnerId": "mover"})
	d.do("cli:will", "work_item.create", m{
		"id": "wait", "title": "t", "ownerId": "owner", "nextMoveOwnerId": "mover", "state": "waiting",
		"waitingOn": m{"kind": "actor", "label": "dep", "targetId": "dep"},
	})
	d.do("cli:will", "work_item.create", m{"id": "review", "title": "t", "ownerId": "mover", "nextMoveOwnerId": "owner", "state": "review"})
	d.do("cli:will", "work_item.create", m{"id": "working", "title": "t", "ownerId": "owner", "nextMoveOwnerId": "mover", "state": "working"})
	d.do("cli:will", "work_item.create", m{"id": "done", "title": "t", "state": "done"})
	d.do("cli:will", "work_item.create", m{"id": "person", "title": "t", "ownerId": "will", "nextMoveOwnerId": "will"})
	d.do("cli:will", "question.ask", m{"id": "q", "title": "why?", "askedOfId": "asked"})
	d.wantWakes("agent:asked next_move_owner")
	beat := func() {
		for _, name := range []string{"owner", "mover", "dep", "asked"} {
			d.do(protocol.PeerID("agent:"+name), "identity.heartbeat", m{"endpointId": "e-" + name})
		}
	}
	pass := func(total time.Duration) {
		for range int(total / (20 * time.Second)) {
			d.sweep(20 * time.Second)
			beat()
		}
	}
	pass(9 * time.Minute)
	d.wantWakes()
	all := []string{"agent:mover next_move_owner", "agent:owner next_move_owner", "agent:dep dependency_owner", "agent:asked next_move_owner"}
	pass(2 * time.Minute)
	d.wantWakes(all...)
	pass(7 * time.Minute)
	d.wantWakes()
	pass(3 * time.Minute) // one reminder each, then the next responsible party
	d.wantWakes("agent:owner owner", "agent:mover owner", "agent:mover next_move_owner")
	d.do("agent:mover", "work_item.update", m{"id": "open", "state": "working"})
	d.do("agent:owner", "work_item.update", m{"id": "review", "state": "done"})
	d.do("agent:dep", "question.ask", m{"title": "x", "askedOfId": "will"})
	d.do("agent:asked", "question.answer", m{"id": "q", "answer": "because"})
	pass(11 * time.Minute)
	d.wantWakes("agent:owner owner") // of what waits
	pass(31 * time.Minute)
	d.wantWakes() // the requester, a person, is the last
	d.checkRebuild()
}

func TestSweep_AddsNoWakesForAbsentAgents(t *testing.T) {
	d := newFixture(t)
	d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "gone", "nextMoveOwnerId": "gone"})
	for range 10 {
		d.sweep(11 * time.Minute)
	}
	if n := len(d.state.deliveries.order); n != 1 {
		t.Errorf("%d deliveries wait for one agent about one item", n)
	}
	d.announce("gone")
	d.wantWakes("agent:gone next_move_owner")
}

func TestQuestion_IsAskedAnsweredAndClosed(t *testing.T) {
	d := newFixture(t)
	d.announce("asker", "asked", "stranger")
	group(d, "")
	q := m{"id": "q", "title": "which?", "askedOfId": "asked", "conversationId": "c"}
	d.do("agent:asker", "question.ask", q)
	d.wantWakes("agent:asked next_move_owner")
	if again := d.do("agent:asker", "question.ask", q); again["duplicate"] != true {
		t.Errorf("again = %v", again)
	}
	d.mustRefuse(collab.CodeForbidden, "agent:stranger", "question.answer", m{"id": "q", "answer": "x"})
	d.mustRefuse(collab.CodeInvalid, "agent:asked", "question.answer", m{"id": "q", "answer": " "})
	got := d.do("agent:asked", "question.answer", m{"id": "q", "answer": "that one"})
	if got.at("question", "state") != "answered" || got.at("question", "nextMoveOwnerId") != "asker" {
		t.Errorf("got %v", got)
	}
	d.wantWakes("agent:asker next_move_owner")
	if len(d.turn("cli:will").recordsOf(collab.KindWorkItem, "", "", "", "")) != 0 {
		t.Error("an answered question made work")
	}
	d.mustRefuse(collab.CodeBadTransition, "agent:asked", "question.decline", m{"id": "q"})
	d.mustRefuse(collab.CodeBadTransition, "agent:asked", "question.answer", m{"id": "q", "answer": "no, the other"})
	d.do("agent:asker", "question.reopen", m{"id": "q"})
	d.wantWakes("agent:asked next_move_owner")
	d.do("agent:asked", "question.answer", m{"id": "q", "answer": "the other"})
	spawned := d.do("agent:asker", "question.spawn_work", m{"id": "q", "title": "do it"})
	if spawned.at("work_item", "parentId") != "q" || spawned.at("work_item", "ownerId") != "asked" ||
		spawned.at("work_item", "requestedById") != "asker" || spawned.at("question", "spawnedWorkItemId") != spawned.at("work_item", "id") {
		t.Errorf("spawned = %v", spawned)
	}
	again := d.do("agent:asker", "question.spawn_work", m{"id": "q", "title": "do it"})
	if again["duplicate"] != true || again.at("work_item", "id") != spawned.at("work_item", "id") {
		t.Errorf("again = %v", again)
	}
	d.do("agent:asker", "question.close", m{"id": "q"})
	d.mustRefuse(collab.CodeBadTransition, "agent:asker", "question.answer", m{"id": "q", "answer": "late"})
	d.do("agent:asker", "question.ask", m{"id": "q0", "title": "t", "askedOfId": "asked"})
	for _, id := range []string{"w0", "w1", "w0"} { // the first one with the question as its parent follows from it
		d.do("agent:asked", "work_item.create", m{"id": id, "title": "do it", "ownerId": "asked", "nextMoveOwnerId": "asked", "parentId": "q0"})
		if got := d.do("agent:asker", "question.get", m{"id": "q0"}).at("question", "spawnedWorkItemId"); got != "w0" {
			t.Errorf("after %s, the question spawned %v", id, got)
		}
	}
	d.mustRefuse(collab.CodeInvalid, "agent:asker", "question.ask", m{"title": "of nobody"})
	d.mustRefuse(collab.CodeInvalid, "agent:asker", "question.ask", m{"title": "t", "askedOfId": "asked", "state": "answered"})
	r := d.mustRefuse(collab.CodeInvalid, "agent:asker", "work_item.update", m{"id": "q", "state": "waiting"})
	if !strings.Contains(r["error"].(string), "waiting") {
		t.Errorf("refused with %v", r["error"])
	}
	d.do("agent:asker", "question.ask", m{"id": "q2", "title": "t", "askedOfId": "asked"})
	if got := d.do("agent:asked", "question.decline", m{"id": "q2"}); got.at("question", "state") != "declined" {
		t.Errorf("got %v", got)
	}
	d.checkRebuild()
}

func TestInvocation_HasAFlight(t *testing.T) {
	d := newFixture(t)
	d.announce("boss", "lead")
	d.do("agent:boss", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead"})
	r := d.do("agent:boss", "invocation.create", m{"targetAgentId": "lead", "text": "go", "workItemId": "w"})
	flight := r.at("flight", "id")
	if r.at("flight", "state") != "waking" || r.at("invocation", "targetAgentId") != "lead" || r.at("delivery", "reason") != "invocation" {
		t.Errorf("r = %v", r)
	}
	wake := parse(t, d.sent[0].event.Payload)
	if wake.at("flight", "id") != flight || wake.at("invocation", "text") != "go" || wake.at("workItem", "id") != "w" {
		t.Errorf("wake = %v", wake)
	}
	d.wantWakes("agent:lead explicit_mention")
	d.mustRefuse(collab.CodeForbidden, "agent:boss", "flight.update", m{"id": flight, "state": "completed"})
	d.do("agent:lead", "flight.update", m{"id": flight, "state": "running"})
	d.mustRefuse(collab.CodeBadTransition, "agent:lead", "flight.update", m{"id": flight, "state": "queued"})
	d.mustRefuse(collab.CodeInvalid, "agent:lead", "flight.update", m{"id": flight, "state": "landed"})
	d.do("agent:lead", "flight.update", m{"id": flight, "state": "completed", "output": "done"})
	got := d.do("agent:boss", "work_item.get", m{"id": "w"})
	if got.at("work_item", "state") != "review" || got.at("work_item", "acceptanceState") != "pending" ||
		got.at("work_item", "nextMoveOwnerId") != "boss" || got.at("work_item", "requestedById") != "boss" {
		t.Errorf("the work is %v", got)
	}
	if f := d.do("agent:boss", "flight.get", m{"id": flight}); f.at("flight", "output") != "done" {
		t.Errorf("flight = %v", f)
	}
	d.do("agent:lead", "flight.update", m{"id": flight, "state": "completed"}) // said twice
	d.mustRefuse(collab.CodeBadTransition, "agent:lead", "flight.update", m{"id": flight, "state": "running"})
	d.mustRefuse(collab.CodeUnknownTarget, "agent:boss", "invocation.create", m{"targetAgentId": "ghost", "text": "go"})
	d.sweep(time.Minute)
	u := d.mustRefuse(collab.CodeUnavailable, "agent:boss", "invocation.create", m{"targetAgentId": "lead", "text": "again"})
	if u.at("flight", "state") != "queued" {
		t.Errorf("details = %v", u)
	}
	d.announce("lead")
	d.wantWakes("agent:lead explicit_mention")
	if f := d.do("agent:boss", "flight.get", m{"id": u["flightId"]}); f.at("flight", "state") != "waking" {
		t.Errorf("flight = %v", f)
	}
	for range 40 {
		d.sweep(20 * time.Second)
		d.do("agent:lead", "identity.heartbeat", m{"endpointId": "e-lead"})
	}
	d.announce("boss")
	// A reminder is sent once for the flight that never began, and once for the review that boss
	// missed while it was away.
	d.wantWakes("agent:lead explicit_mention", "agent:boss next_move_owner")
	d.do("agent:boss", "flight.update", m{"id": u["flightId"], "state": "cancelled"})
	d.checkRebuild()
}

func TestDelivery_IsLeasedAndFinished(t *testing.T) {
	d := newFixture(t)
	group(d, "")
	d.do("agent:man", "identity.announce", m{"endpointId": "e1", "wakePolicy": "manual"})
	d.mustRefuse(collab.CodeUnavailable, "cli:will", "message.post", m{"conversationId": "c", "text": "@man one"})
	d.mustRefuse(collab.CodeUnavailable, "cli:will", "message.post", m{"conversationId": "c", "text": "@man two"})
	first := d.do("agent:man", "delivery.claim", m{"targetAgentId": "man", "leaseMs": 1000})
	if first.at("delivery", "status") != "leased" || first.at("message", "text") != "@man one" {
		t.Errorf("first = %v", first)
	}
	second := d.do("agent:man", "delivery.claim", m{"targetAgentId": "man", "leaseMs": 60000})
	if second.at("message", "text") != "@man two" {
		t.Errorf("second = %v", second)
	}
	if none := d.do("agent:man", "delivery.claim", m{"targetAgentId": "man"}); none["delivery"] != nil {
		t.Errorf("none = %v", none)
	}
	d.now = d.now.Add(2 * time.Second) // the first lease is over
	again := d.do("agent:man", "delivery.claim", m{"targetAgentId": "man"})
	if again.at("delivery", "id") != first.at("delivery", "id") {
		t.Errorf("again = %v", again)
	}
	id := first.at("delivery", "id")
	d.do("agent:man", "delivery.ack", m{"id": id})
	d.do("agent:man", "delivery.ack", m{"id": id})
	d.mustRefuse(collab.CodeBadTransition, "agent:man", "delivery.nack", m{"id": id})
	d.mustRefuse(collab.CodeNotFound, "agent:man", "delivery.ack", m{"id": "nowhere"})
	d.mustRefuse(collab.CodeInvalid, "agent:man", "delivery.claim", m{"targetAgentId": "man", "leaseMs": -1})
	id = second.at("delivery", "id")
	for i := range 5 {
		d.now = d.now.Add(time.Second)
		back := d.do("agent:man", "delivery.nack", m{"id": id})
		if want := []string{"pending", "pending", "pending", "pending", "failed"}[i]; back.at("delivery", "status") != want {
			t.Errorf("given back %d times it is %v; want %s", i+1, back.at("delivery", "status"), want)
		}
		claimed := d.do("agent:man", "delivery.claim", m{"targetAgentId": "man"})
		for _, answer := range []result{back, claimed} { // the records that are stored in this second
			if answer["delivery"] != nil && answer.at("delivery", "updatedAt") != formatTime(d.now) {
				t.Errorf("at %s the answer is %v", formatTime(d.now), answer)
			}
		}
	}
	list := d.do("agent:man", "delivery.list", m{"targetAgentId": "agent:man"})
	if dl := list.list("deliveries"); len(dl) != 2 || dl[0]["status"] != "acknowledged" || dl[1]["status"] != "failed" {
		t.Errorf("deliveries = %v", dl)
	}
	d.wantWakes()
	d.checkRebuild()
}

func TestBinding_IsSetAndRead(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "w3")
	d.do("tg:7", "binding.set", m{"surface": "telegram", "externalId": "tg:7", "agentId": "agent:lead"})
	if got := d.do("cli:will", "binding.get", m{"surface": "telegram", "externalId": "tg:7"}); got.at("binding", "agentId") != "lead" {
		t.Errorf("got %v", got)
	}
	d.mustRefuse(collab.CodeNotFound, "cli:will", "binding.get", m{"surface": "telegram", "externalId": "8"})
	d.mustRefuse(collab.CodeForbidden, "agent:w3", "binding.set", m{"surface": "telegram", "externalId": "tg:7", "agentId": "w3"})
	d.checkRebuild()
}

func TestLists_FilterAndPage(t *testing.T) {
	d := newFixture(t)
	for i := range 5 {
		d.do("cli:will", "work_item.create", m{"id": fmt.Sprint("w", i), "title": "t", "ownerId": "a", "nextMoveOwnerId": []string{"a", "b"}[i%2]})
	}
	d.do("cli:will", "work_item.update", m{"id": "w0", "state": "done"})
	if got := d.do("cli:will", "work_item.list", m{"nextMoveOwnerId": "agent:b"}).list("work_items"); len(got) != 2 {
		t.Errorf("b has %v", got)
	}
	if got := d.do("cli:will", "work_item.list", m{"state": "open", "ownerId": "a"}).list("work_items"); len(got) != 4 {
		t.Errorf("open are %v", got)
	}
	var ids []string
	after := ""
	for {
		page := d.do("cli:will", "work_item.list", m{"limit": 2, "after": after})
		for _, w := range page.list("work_items") {
			ids = append(ids, w["id"].(string))
		}
		next, more := page["next"].(string)
		if !more {
			break
		}
		after = next
	}
	if strings.Join(ids, " ") != "w0 w1 w2 w3 w4" {
		t.Errorf("paged through %v", ids)
	}
	d.mustRefuse(collab.CodeInvalid, "cli:will", "work_item.list", m{"limit": -1})
	d.mustRefuse(collab.CodeInvalid, "cli:will", "work_item.list", m{"after": "nowhere"})
	d.mustRefuse(collab.CodeInvalid, "cli:will", "work_item.list", m{"state": "paused"})

	var seqs []string
	var next any = 0
	for next != nil {
		page := d.do("cli:will", "events.list", m{"after": next, "limit": 4})
		for _, e := range page.list("events") {
			seqs = append(seqs, fmt.Sprint(e["seq"]))
		}
		next = page["next"]
	}
	if strings.Join(seqs, " ") != "1 2 3 4 5 6" {
		t.Errorf("events %v", seqs)
	}
	for _, after := range []int64{6, 7, math.MaxInt64} {
		if got := d.do("cli:will", "events.list", m{"after": after}); len(got.list("events")) != 0 || got["next"] != nil {
			t.Errorf("after %d come %v", after, got)
		}
	}
}

func TestUnknownMethod_ListsTheKnownOnes(t *testing.T) {
	d := newFixture(t)
	r := d.mustRefuse(collab.CodeInvalid, "cli:will", "work_item.destroy", nil)
	if !strings.Contains(r["error"].(string), "work_item.update") {
		t.Errorf("refused with %v", r["error"])
	}
	d.mustRefuse(collab.CodeInvalid, "cli:will", "", nil)
}

// TestInvocation_IsMadeOnce checks that a repeated invocation is distinguished from another one
// with the same id.
func TestInvocation_IsMadeOnce(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "boss")
	named := m{"id": "inv", "targetAgentId": "lead", "text": "go"}
	first := d.do("agent:boss", "invocation.create", named)
	d.wantWakes("agent:lead explicit_mention")
	if again := d.do("agent:boss", "invocation.create", named); again["duplicate"] != true || again.at("flight", "id") != first.at("flight", "id") {
		t.Errorf("the same invocation once more = %v", again)
	}
	d.wantWakes()
	d.mustRefuse(collab.CodeConflict, "agent:boss", "invocation.create", m{"id": "inv", "targetAgentId": "lead", "text": "else"})
	d.checkRebuild()
}

// TestQuestionAnswer_IsPassedOnByTheAskingAgent checks that only the asking agent may pass on an
// answer, and only one from the asked person. It counts as that person's answer, so it wakes the
// agent.
func TestQuestionAnswer_IsPassedOnByTheAskingAgent(t *testing.T) {
	d := newFixture(t)
	d.do("agent:a", "identity.announce", m{"endpointId": "a"})
	d.do("agent:a", "question.ask", m{"id": "q1", "title": "which region?", "askedOfId": "tg:42"})
	for who, by := range map[protocol.PeerID]string{"agent:b": "tg:42", "agent:a": "tg:7", "cli:will.1": "tg:42"} {
		d.mustRefuse(collab.CodeForbidden, who, "question.answer", m{"id": "q1", "answer": "eu", "by": by})
	}
	d.mustRefuse(collab.CodeForbidden, "agent:a", "question.answer", m{"id": "q1", "answer": "eu", "by": "agent:b"})
	got := d.do("agent:a", "question.answer", m{"id": "q1", "answer": "eu", "by": "tg:42"})
	if got.at("question", "state") != "answered" || got.at("delivery", "senderIdentity") != "tg:42" || got.at("delivery", "senderKind") != "human" || got.at("delivery", "targetIdentity") != "agent:a" {
		t.Errorf("answered: %v", got)
	}
	woken := 0
	for _, s := range d.sent {
		if s.to == "agent:a" && s.event.Type == collab.EventWoken.Name {
			woken++
		}
	}
	d.do("tg:42", "question.answer", m{"id": "q1", "answer": "eu", "by": "tg:42"}) // said again
	if woken != 1 || len(d.sent) != woken {
		t.Errorf("woken %d times: %v", woken, d.sent)
	}
}

// TestDeliveryClaim_BoundsTheLease checks a default of a minute and a maximum of a day, during
// which only people may take the delivery.
func TestDeliveryClaim_BoundsTheLease(t *testing.T) {
	d := newFixture(t)
	group(d, "")
	d.do("agent:one", "identity.announce", m{"endpointId": "e1", "logicalAgentId": "man", "wakePolicy": "manual"})
	d.do("agent:two", "identity.announce", m{"endpointId": "e2", "logicalAgentId": "man", "wakePolicy": "manual"})
	d.mustRefuse(collab.CodeUnavailable, "cli:will", "message.post", m{"conversationId": "c", "text": "@man one"})
	for ms, want := range map[int64]time.Duration{0: time.Minute, 1: time.Millisecond, 86_400_000: 24 * time.Hour} {
		got := d.do("agent:one", "delivery.claim", m{"targetAgentId": "man", "leaseMs": ms})
		if got.at("delivery", "leaseUntil") != formatTime(d.now.Add(want)) || got.at("delivery", "leasedBy") != "agent:one" {
			t.Errorf("leased for %d ms: %v", ms, got)
		}
		id := got.at("delivery", "id")
		d.mustRefuse(collab.CodeConflict, "agent:two", "delivery.ack", m{"id": id})
		d.mustRefuse(collab.CodeForbidden, "agent:evil", "delivery.ack", m{"id": id})
		d.now = d.now.Add(want - time.Microsecond)
		if got := d.do("agent:two", "delivery.claim", m{"targetAgentId": "man"}); got["delivery"] != nil {
			t.Errorf("leased to two: %v", got)
		}
		d.now = d.now.Add(time.Microsecond)
		if list := d.do("agent:two", "delivery.list", m{"targetAgentId": "man", "status": "pending"}).list("deliveries"); len(list) != 1 || list[0]["leasedBy"] != nil {
			t.Errorf("after its lease: %v", list)
		}
	}
	d.mustRefuse(collab.CodeInvalid, "agent:one", "delivery.claim", m{"targetAgentId": "man", "leaseMs": 86_400_001})
	d.mustRefuse(collab.CodeForbidden, "agent:evil", "delivery.claim", m{"targetAgentId": "man"})
	d.mustRefuse(collab.CodeForbidden, "agent:evil", "delivery.list", m{"targetAgentId": "agent:man"})
	id := d.do("agent:one", "delivery.claim", m{"targetAgentId": "man"}).at("delivery", "id")
	if got := d.do("cli:will", "delivery.ack", m{"id": id}); got.at("delivery", "status") != "acknowledged" || got.at("delivery", "leasedBy") != nil {
		t.Errorf("settled by a person: %v", got)
	}
	d.checkRebuild()
}

// TestBinding_IsChangedByItsAgent also covers a person, and a repetition, which causes no event.
func TestBinding_IsChangedByItsAgent(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "w3")
	set := func(agent string) m { return m{"surface": "telegram", "externalId": "tg:7", "agentId": agent} }
	d.do("agent:lead", "binding.set", set("lead"))
	before := len(d.log)
	if again := d.do("agent:lead", "binding.set", set("lead")); len(d.log) != before || again.at("binding", "agentId") != "lead" {
		t.Errorf("said twice: %v", again)
	}
	d.mustRefuse(collab.CodeForbidden, "agent:lead", "binding.set", set("w3"))
	if got := d.do("cli:will", "binding.set", set("w3")); got.at("binding", "identity") != "agent:w3" || got.at("binding", "setById") != "will" {
		t.Errorf("set by a person: %v", got)
	}
	d.mustRefuse(collab.CodeForbidden, "agent:lead", "binding.set", set("lead"))
	d.checkRebuild()
}

// TestConversationGet_BoundsItsPages checks that the last page has no next.
func TestConversationGet_BoundsItsPages(t *testing.T) {
	d := newFixture(t)
	group(d, "")
	d.do("cli:will", "conversation.create", m{"id": "other", "kind": "group"})
	for _, id := range []string{"m1", "m2", "m3"} {
		d.do("cli:will", "message.post", m{"id": id, "conversationId": "c", "text": id})
	}
	d.do("cli:will", "message.post", m{"id": "elsewhere", "conversationId": "other", "text": "x"})
	for _, c := range []struct {
		after string
		limit int
		ids   string
		next  any
	}{
		{"", 2, "m1 m2", "m2"}, {"", 3, "m1 m2 m3", nil}, {"", 0, "m1 m2 m3", nil}, {"m2", 1, "m3", nil}, {"m1", 1, "m2", "m2"}, {"m3", 1, "", nil},
	} {
		page := d.do("cli:will", "conversation.get", m{"id": "c", "after": c.after, "limit": c.limit})
		var ids []string
		for _, one := range page.list("messages") {
			ids = append(ids, one["id"].(string))
		}
		if strings.Join(ids, " ") != c.ids || page["next"] != c.next {
			t.Errorf("%d after %q are %v, next %v", c.limit, c.after, ids, page["next"])
		}
	}
	for _, after := range []string{"elsewhere", "nowhere"} {
		d.mustRefuse(collab.CodeInvalid, "cli:will", "conversation.get", m{"id": "c", "after": after})
	}
}

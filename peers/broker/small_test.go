package broker

import (
	"strings"
	"testing"

	"hubbub/protocol/collab"
)

// TestRecord_RefusesCycles covers cycles of parents and of waits of any length, and one that
// closes with a record whose id others had named before.
func TestRecord_RefusesCycles(t *testing.T) {
	d := newFixture(t)
	for _, id := range []string{"a", "b", "c"} {
		d.do("cli:will", "work_item.create", m{"id": id, "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead"})
	}
	on := func(id string) m { return m{"kind": "work_item", "label": "x", "targetId": id} }
	d.do("cli:will", "work_item.update", m{"id": "a", "parentId": "b"})
	d.do("cli:will", "work_item.update", m{"id": "b", "parentId": "c"})
	r := d.mustRefuse(collab.CodeInvalid, "cli:will", "work_item.update", m{"id": "c", "parentId": "a"})
	if !strings.Contains(r["error"].(string), "c -> a -> b -> c") {
		t.Errorf("refused with %v", r["error"])
	}
	d.do("cli:will", "work_item.update", m{"id": "a", "state": "waiting", "waitingOn": on("b")})
	d.do("cli:will", "work_item.update", m{"id": "b", "state": "waiting", "waitingOn": on("c")})
	d.mustRefuse(collab.CodeInvalid, "cli:will", "work_item.update", m{"id": "c", "state": "waiting", "waitingOn": on("a")})
	d.do("cli:will", "work_item.update", m{"id": "b", "state": "working"}) // waits for nothing any more
	d.do("cli:will", "work_item.update", m{"id": "c", "state": "waiting", "waitingOn": on("a")})
	d.do("cli:will", "work_item.update", m{"id": "c", "parentId": "later"})
	d.mustRefuse(collab.CodeInvalid, "cli:will", "work_item.create", m{"id": "later", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "parentId": "a"})
}

func TestWorkUpdate_RemovesAParent(t *testing.T) {
	d := newFixture(t)
	for _, id := range []string{"a", "b"} {
		d.do("cli:will", "work_item.create", m{"id": id, "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "parentId": nil})
	}
	d.do("cli:will", "work_item.update", m{"id": "a", "parentId": "b"})
	if got := d.do("cli:will", "work_item.update", m{"id": "a", "title": "other"}); got.at("work_item", "parentId") != "b" {
		t.Errorf("an update without a parentId: %v", got)
	}
	if got := d.do("cli:will", "work_item.update", m{"id": "a", "parentId": nil}); got.at("work_item", "parentId") != nil {
		t.Errorf("parentId null: %v", got)
	}
}

func TestRecord_RefusesAnUnknownConversation(t *testing.T) {
	d := newFixture(t)
	work := m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "conversationId": "nowhere"}
	d.mustRefuse(collab.CodeNotFound, "cli:will", "work_item.create", work)
	d.mustRefuse(collab.CodeNotFound, "cli:will", "question.ask", m{"title": "t", "askedOfId": "lead", "conversationId": "nowhere"})
	delete(work, "conversationId")
	d.do("cli:will", "work_item.create", work)
	d.mustRefuse(collab.CodeNotFound, "cli:will", "work_item.update", m{"id": "w", "conversationId": "nowhere"})
	group(d, "")
	d.do("cli:will", "work_item.update", m{"id": "w", "conversationId": "c"})
}

// TestWorkUpdate_RefusesAcceptanceByTheOwner also covers indirect ways.
func TestWorkUpdate_RefusesAcceptanceByTheOwner(t *testing.T) {
	d := newFixture(t)
	d.announce("worker", "boss", "qa")
	done := func(id string, more m) {
		d.do("agent:worker", "work_item.create", m{"id": id, "title": "t", "ownerId": "worker", "nextMoveOwnerId": "worker", "requestedById": more["by"]})
		d.do("agent:worker", "work_item.update", m{"id": id, "state": "review", "acceptanceState": "pending", "nextMoveOwnerId": more["next"]})
	}
	verdict := func(id string) m { return m{"id": id, "acceptanceState": "accepted", "state": "done"} }
	done("w", m{"by": "boss", "next": "qa"})
	for _, p := range []m{
		verdict("w"), {"id": "w", "acceptanceState": "rejected"}, {"id": "w", "requestedById": "worker"},
		{"id": "w", "acceptanceState": "accepted", "requestedById": "worker", "nextMoveOwnerId": "worker"},
	} {
		d.mustRefuse(collab.CodeForbidden, "agent:worker", "work_item.update", p)
	}
	d.do("agent:worker", "work_item.update", m{"id": "w", "nextMoveOwnerId": "worker"})
	d.mustRefuse(collab.CodeForbidden, "agent:worker", "work_item.update", verdict("w"))
	d.mustRefuse(collab.CodeForbidden, "agent:worker", "work_item.create", m{
		"title": "t", "ownerId": "worker", "nextMoveOwnerId": "worker", "requestedById": "boss", "acceptanceState": "accepted",
	})
	// Nor by giving the work away first, in review or before, and keeping the next move.
	done("x", m{"by": "boss", "next": "worker"})
	d.do("agent:worker", "work_item.create", m{"id": "y", "title": "t", "ownerId": "worker", "nextMoveOwnerId": "worker", "requestedById": "boss"})
	d.do("agent:worker", "work_item.update", m{"id": "y", "ownerId": "boss"})
	d.mustRefuse(collab.CodeForbidden, "agent:worker", "work_item.update", m{"id": "y", "state": "review", "nextMoveOwnerId": "worker"})
	d.do("agent:worker", "work_item.update", m{"id": "y", "state": "review"})
	d.do("agent:worker", "work_item.update", m{"id": "x", "ownerId": "boss"})
	for _, id := range []string{"x", "y"} {
		if w := d.do("cli:will", "work_item.get", m{"id": id}); w.at("work_item", "nextMoveOwnerId") != "boss" {
			t.Errorf("%s is reviewed by %v", id, w.at("work_item", "nextMoveOwnerId"))
		}
		d.mustRefuse(collab.CodeForbidden, "agent:worker", "work_item.update", verdict(id))
		d.do("agent:boss", "work_item.update", m{"id": id, "nextMoveOwnerId": "qa"})
		d.do("agent:qa", "work_item.update", verdict(id))
	}
	// A person does not either; others may decide in the name of the reviewer.
	d.do("cli:will", "work_item.create", m{"id": "p", "title": "t", "ownerId": "tg:9", "nextMoveOwnerId": "tg:9", "requestedById": "tg:42"})
	d.do("tg:9", "work_item.update", m{"id": "p", "state": "review", "acceptanceState": "pending", "nextMoveOwnerId": "tg:42"})
	d.mustRefuse(collab.CodeForbidden, "tg:9", "work_item.update", verdict("p"))
	d.do("cli:will", "work_item.update", verdict("p"))
	done("v", m{"by": "boss", "next": "qa"})
	d.do("agent:qa", "work_item.update", verdict("v"))
	done("u", m{"by": "worker", "next": "worker"}) // no other party is named
	d.do("agent:worker", "work_item.update", verdict("u"))
	d.do("cli:will", "work_item.update", verdict("w"))
}

// TestMessage_OfThanksWakesNobody checks that thanks wake nobody, even with a mention, and that
// the same word wakes if it may be an answer.
func TestMessage_OfThanksWakesNobody(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "boss")
	group(d, "lead")
	post := func(from string, more m) {
		p := m{"conversationId": "c", "surface": "human"}
		for k, v := range more {
			p[k] = v
		}
		d.do(peerID(from), "message.post", p)
	}
	post("cli:will", m{"text": "@lead thanks!"})
	post("cli:will", m{"text": "Thank you, @lead. Nice"})
	post("cli:will", m{"text": "thx"})
	post("agent:boss", m{"text": "got it", "targets": []string{"lead"}})
	post("cli:will", m{"text": "@lead ok"})
	d.wantWakes()
	why := d.do("cli:will", "message.post", m{"id": "x", "conversationId": "c", "text": "@lead thanks"})
	if why["wake"] != nil || !strings.Contains(d.do("cli:will", "wake.explain", m{"messageId": "x"})["reason"].(string), "thanks") {
		t.Errorf("posted %v", why)
	}
	post("cli:will", m{"text": "@lead ok", "inReplyTo": "x"})
	post("cli:will", m{"text": "ok"})
	post("cli:will", m{"text": "@lead thanks, and now the tests"})
	d.wantWakes("agent:lead explicit_mention", "agent:lead conversation_master", "agent:lead explicit_mention")
	d.checkRebuild()
}

func TestAnnounce_RefusesTheRoleOfEverybody(t *testing.T) {
	d := newFixture(t)
	for _, role := range []string{"everyone", "role:all", "Here"} {
		d.mustRefuse(collab.CodeInvalid, "agent:evil", "identity.announce", m{"endpointId": "e", "roles": []string{role}})
	}
}

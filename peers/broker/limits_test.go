package broker

import (
	"errors"
	"strings"
	"testing"

	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// many returns n names.
func many(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = "n" + strings.Repeat("x", i%7)
	}
	return list
}

// A sizeCase is a member of a request with its maximum size. says names the member in a refusal.
type sizeCase struct {
	from, method string
	params       func(n int) m
	most         int
	says         string
}

// sizeCases returns a case for each bounded member.
func sizeCases() []sizeCase {
	text := func(member string, more m) func(n int) m {
		return sized(member, more, func(n int) any { return strings.Repeat("x", n) })
	}
	names := func(member string, more m) func(n int) m {
		return sized(member, more, func(n int) any { return many(n) })
	}
	nameOf := func(member string, more m) func(n int) m {
		return sized(member, more, func(n int) any { return []string{strings.Repeat("x", n)} })
	}
	const quotes = 2 // texts are measured as JSON
	work := m{"title": "t", "ownerId": "a", "nextMoveOwnerId": "a"}
	waiting := func(member string) func(n int) m {
		return func(n int) m {
			on := m{"kind": "actor", "label": "x", "targetId": "a"}
			on[member] = strings.Repeat("x", n)
			return m{"id": "w", "state": "waiting", "waitingOn": on}
		}
	}
	announced := m{"logicalAgentId": "a", "endpointId": "e-a"}
	decision := m{"id": "dec", "tool": "shell", "digest": "abc", "expiresAt": "2026-06-01T12:01:00Z"}
	return []sizeCase{
		{"agent:a", "identity.announce", text("endpointId", announced), 256, "endpointId"},
		{"agent:a", "identity.announce", text("harnessType", announced), 256, "harnessType"},
		{"agent:a", "identity.announce", text("workspaceId", announced), 256, "workspaceId"},
		{"agent:a", "identity.announce", text("profile", announced), 256, "profile"},
		{"agent:a", "identity.announce", text("model", announced), 256, "model"},
		{"agent:a", "identity.announce", text("node", announced), 256, "node"},
		{"agent:a", "identity.announce", text("projectPath", announced), 4 << 10, "projectPath"},
		{"agent:a", "identity.announce", names("roles", announced), 64, "64 roles"},
		{"agent:a", "identity.announce", nameOf("roles", announced), 256, "a role"},
		{"cli:will", "identity.resolve", text("label", nil), 256, "label"},
		{"cli:will", "conversation.create", text("id", m{"kind": "dm"}), 256, "id"},
		{"cli:will", "conversation.create", text("title", m{"kind": "dm"}), 4<<10 - quotes, "title"},
		{"cli:will", "conversation.create", text("masterId", m{"kind": "dm"}), 256, "masterId"},
		{"cli:will", "conversation.create", names("memberIds", m{"kind": "dm"}), 1000, "1000 members"},
		{"cli:will", "conversation.create", nameOf("memberIds", m{"kind": "dm"}), 256 - quotes, "a member"},
		{"cli:will", "message.post", text("id", m{"conversationId": "c", "text": "t"}), 256, "id"},
		{"cli:will", "message.post", text("text", m{"conversationId": "c"}), 256<<10 - quotes, "text"},
		{"cli:will", "message.post", text("conversationId", m{"text": "t"}), 256, "conversationId"},
		{"cli:will", "message.post", text("workItemId", m{"conversationId": "c", "text": "t"}), 256, "workItemId"},
		{"cli:will", "message.post", text("inReplyTo", m{"conversationId": "c", "text": "t"}), 256, "inReplyTo"},
		{"cli:will", "message.post", names("targets", m{"conversationId": "c", "text": "t"}), 50, "50 targets"},
		{"cli:will", "message.post", nameOf("targets", m{"conversationId": "c", "text": "t"}), 256 - quotes, "a target"},
		{"cli:will", "work_item.create", text("id", work), 256, "id"},
		{"cli:will", "work_item.create", text("title", work), 4<<10 - quotes, "title"},
		{"cli:will", "work_item.create", text("summary", work), 4<<10 - quotes, "summary"},
		{"cli:will", "work_item.create", text("ownerId", work), 256, "ownerId"},
		{"cli:will", "work_item.create", text("nextMoveOwnerId", work), 256, "nextMoveOwnerId"},
		{"cli:will", "work_item.create", text("requestedById", work), 256, "requestedById"},
		{"cli:will", "work_item.create", text("parentId", work), 256, "parentId"},
		{"cli:will", "work_item.create", text("conversationId", work), 256, "conversationId"},
		{"cli:will", "work_item.create", text("priority", work), 256, "priority"},
		{"cli:will", "work_item.update", waiting("kind"), 256, "waitingOn.kind"},
		{"cli:will", "work_item.update", waiting("targetId"), 256, "waitingOn.targetId"},
		{"cli:will", "work_item.update", waiting("label"), 4<<10 - quotes, "waitingOn.label"},
		{"cli:will", "question.ask", text("askedOfId", m{"title": "t"}), 256, "askedOfId"},
		{"cli:will", "question.ask", text("answer", m{"title": "t", "askedOfId": "a"}), 256<<10 - quotes, "answer"},
		{"agent:a", "question.answer", text("answer", m{"id": "q"}), 256<<10 - quotes, "answer"},
		{"cli:will", "invocation.create", text("id", m{"targetAgentId": "a", "text": "t"}), 256, "id"},
		{"cli:will", "invocation.create", text("targetAgentId", m{"text": "t"}), 256 - quotes, "targetAgentId"},
		{"cli:will", "invocation.create", text("text", m{"targetAgentId": "a"}), 256<<10 - quotes, "text"},
		{"agent:a", "flight.update", text("output", m{"state": "running"}), 256<<10 - quotes, "output"},
		{"agent:a", "flight.update", text("error", m{"state": "running"}), 4<<10 - quotes, "error"},
		{"agent:a", "binding.set", text("surface", m{"externalId": "1", "agentId": "a"}), 256 - quotes, "surface"},
		{"agent:a", "binding.set", text("externalId", m{"surface": "tg", "agentId": "a"}), 256 - quotes, "externalId"},
		{"cli:will", "binding.set", text("agentId", m{"surface": "tg", "externalId": "1"}), 256 - quotes, "agentId"},
		{"agent:a", "claim.acquire", text("eventId", nil), 512, "eventId"},
		{"agent:a", "decision.ask", text("id", decision), 256, "id"},
		{"agent:a", "decision.ask", text("tool", decision), 256, "tool"},
		{"agent:a", "decision.ask", text("digest", decision), 256, "digest"},
		{"agent:a", "decision.ask", text("chat", decision), 256, "chat"},
		{"agent:a", "decision.ask", text("arguments", decision), 8<<10 - quotes, "arguments"},
		{"agent:a", "decision.ask", text("eventId", decision), 512 - quotes, "eventId"},
		{"agent:a", "decision.ask", names("mayDecide", decision), 100, "100 deciders"},
		{"agent:a", "claim.decline", text("eventId", nil), 512, "eventId"},
		{"cli:will", "prompt.contract", text("agentId", nil), 256 - quotes, "agentId"},
	}
}

// TestRequest_IsBounded checks that a member of the maximum size is accepted, and that one byte
// or item more gets a refusal that names the member and stores nothing.
func TestRequest_IsBounded(t *testing.T) {
	for _, c := range sizeCases() {
		t.Run(c.method+" "+c.says, func(t *testing.T) { checkSize(t, c) })
	}
}

// checkSize makes requests of the maximum size and of one more.
func checkSize(t *testing.T, c sizeCase) {
	t.Helper()
	d := newFixture(t)
	d.announce("a")
	d.do("cli:will", "conversation.create", m{"id": "c", "kind": "group", "memberIds": []string{"a"}})
	d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "a", "nextMoveOwnerId": "a"})
	d.do("cli:will", "question.ask", m{"id": "q", "title": "t", "askedOfId": "a"})
	flight := d.do("cli:will", "invocation.create", m{"targetAgentId": "a", "text": "t"}).at("flight", "id")
	ask := func(n int) protocol.CollabResult {
		params := c.params(n)
		if c.method == "flight.update" {
			params["id"] = flight
		}
		return d.ask(protocol.PeerID(c.from), c.method, params)
	}
	stored := len(d.log)
	a := ask(c.most + 1)
	if a.OK || a.Error.Code != string(collab.CodeInvalid) || !strings.Contains(a.Error.Message, c.says) {
		t.Errorf("%d is answered by %+v; want a refusal that names %s", c.most+1, a.Error, c.says)
	}
	if len(d.log) != stored {
		t.Errorf("a refusal left %d events", len(d.log)-stored)
	}
	if a := ask(c.most); !a.OK && (strings.Contains(a.Error.Message, "at most") || strings.Contains(a.Error.Message, "may have")) {
		t.Errorf("%d is refused: %s", c.most, a.Error.Message)
	}
}

// sized returns params with a member of the given size, among others.
func sized(member string, more m, value func(n int) any) func(n int) m {
	return func(n int) m {
		params := m{member: value(n)}
		for k, v := range more {
			if k != member {
				params[k] = v
			}
		}
		return params
	}
}

// TestRequest_RefusesMissingParams checks that the refusal names the missing parameter.
func TestRequest_RefusesMissingParams(t *testing.T) {
	for _, c := range []struct {
		from   protocol.PeerID
		method string
		params m
		says   string
	}{
		{"agent:a", "identity.announce", m{"logicalAgentId": "a"}, "endpointId is required"},
		{"cli:will", "identity.resolve", m{}, "label is required"},
		{"cli:will", "conversation.create", m{"kind": "party"}, `kind "party" is not one of`},
		{"cli:will", "conversation.create", m{"kind": "dm", "id": " "}, "id must not be empty"},
		{"cli:will", "conversation.create", m{"kind": "dm", "memberIds": []string{"a", ""}}, "a member is required"},
		{"cli:will", "message.post", m{"conversationId": "c"}, "text is required"},
		{"cli:will", "message.post", m{"conversationId": "c", "text": "t", "surface": "door"}, "surface"},
		{"cli:will", "message.post", m{"conversationId": "c", "text": "t", "kind": "shout"}, "kind"},
		{"cli:will", "message.post", m{"conversationId": "c", "text": "t", "targets": []string{""}}, "a target is required"},
		{"cli:will", "invocation.create", m{"text": "t"}, "targetAgentId is required"},
		{"cli:will", "invocation.create", m{"targetAgentId": "a"}, "text is required"},
		{"cli:will", "binding.set", m{"externalId": "1", "agentId": "a"}, "surface is required"},
		{"cli:will", "binding.set", m{"surface": "tg", "agentId": "a"}, "externalId is required"},
		{"cli:will", "binding.set", m{"surface": "tg", "externalId": "1"}, "agentId is required"},
		{"agent:a", "claim.acquire", m{}, "eventId is required"},
		{"agent:a", "claim.get", m{}, "eventId is required"},
		{"agent:a", "decision.ask", m{"tool": "shell", "digest": "abc"}, "id is required"},
		{"agent:a", "decision.ask", m{"id": "dec", "digest": "abc"}, "tool is required"},
		{"agent:a", "decision.ask", m{"id": "dec", "tool": "shell"}, "digest is required"},
		{"agent:a", "decision.ask", m{"id": "dec", "tool": "shell", "digest": "abc", "default": "perhaps"}, `default "perhaps"`},
		{"agent:a", "decision.ask", m{"id": "dec", "tool": "shell", "digest": "abc", "mayDecide": []string{"agent:b"}}, "agent:b, who is not a person"},
		{"agent:a", "delivery.claim", m{}, "targetAgentId is required"},
		{"cli:will", "wake.explain", m{}, "messageId or workItemId is required"},
		{"cli:will", "prompt.contract", m{}, "agentId is required"},
		{"cli:will", "work_item.list", m{"limit": -1}, "limit must not be negative"},
		{"cli:will", "work_item.list", m{"state": "paused"}, `state "paused" is not one of open`},
		{"cli:will", "question.list", m{"state": "done"}, `state "done" is not one of open`},
		{"cli:will", "decision.list", m{"state": "open"}, `state "open" is not one of pending`},
		{"agent:a", "delivery.list", m{"targetAgentId": "a", "status": "woken"}, `status "woken" is not one of pending`},
		{"cli:will", "events.list", m{"after": -1}, "after must not be negative"},
		{"cli:will", "question.spawn_work", m{"title": "t"}, "id"},
	} {
		t.Run(c.method+" "+c.says, func(t *testing.T) {
			d := newFixture(t)
			d.announce("a")
			d.do("cli:will", "conversation.create", m{"id": "c", "kind": "group", "memberIds": []string{"a"}})
			stored := len(d.log)
			if r := d.mustRefuse(collab.CodeInvalid, c.from, c.method, c.params); !strings.Contains(r["error"].(string), c.says) {
				t.Errorf("refused with %q; want %q", r["error"], c.says)
			}
			if len(d.log) != stored {
				t.Errorf("a refusal left %d events", len(d.log)-stored)
			}
		})
	}
}

// TestRequest_ExplainsDecodeErrors checks that the refusal describes a valid request.
func TestRequest_ExplainsDecodeErrors(t *testing.T) {
	d := newFixture(t)
	content, kept := decideRequest(d.turn("agent:a"), request{from: "agent:a", malformed: errors.New("unexpected end")}, "r")
	if says := string(content); kept || !strings.Contains(says, "{method, params, requestId}: unexpected end") {
		t.Errorf("answered by %s, kept %v", says, kept)
	}
}

// TestRefusal_FitsAFrame checks that the answer to a request with an overlong id is short, since
// its requester would never get a longer one than a frame.
func TestRefusal_FitsAFrame(t *testing.T) {
	d := newStoredFixture(t)
	for _, id := range []string{strings.Repeat(`"`, 300<<10), strings.Repeat("é", 200<<10), strings.Repeat("a", 700<<10)} {
		for method, params := range map[string]m{
			"conversation.get": {"id": id}, "work_item.get": {"id": id}, "question.get": {"id": id}, "flight.get": {"id": id},
			"question.answer": {"id": id, "answer": "a"}, "work_item.update": {"id": id, "state": "done"}, "delivery.ack": {"id": id},
			"delivery.claim": {"targetAgentId": id}, "binding.get": {"surface": "tg", "externalId": id}, "claim.get": {"eventId": id},
			"decision.get": {"id": id}, "identity.heartbeat": {"endpointId": id}, "identity.leave": {"endpointId": id},
			"prompt.contract": {"agentId": "a", "conversationId": id}, "wake.explain": {"messageId": id}, "work_item.wake": {"id": id},
			"message.post": {"conversationId": id, "text": "t"}, "invocation.create": {"targetAgentId": "a", "text": "t", "workItemId": id},
			id: {},
		} {
			a := d.ask("agent:a", method, params)
			if a.OK || len(rules.MustEncode(a)) > 64<<10 {
				t.Errorf("%.20s with %.5s…: ok %v, an answer of %d bytes", method, id, a.OK, len(rules.MustEncode(a)))
			}
		}
		tx := d.turn("agent:a")
		r := request{from: "agent:a", messageID: "msg_1", content: protocol.CollabRequest{Method: "work_item.list", RequestID: id}}
		answerRequest(tx, r)
		if raw := tx.answers[0].content; len(raw) > 64<<10 || !strings.Contains(string(raw), `"code":"invalid"`) {
			t.Errorf("a requestId of %d bytes gives %d bytes: %.200s", len(id), len(raw), raw)
		}
		d.end(tx)
	}
}

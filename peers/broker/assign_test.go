package broker

import (
	"fmt"
	"strings"
	"testing"

	"hubbub/protocol/collab"
)

// inChat returns params of a person's command in the Telegram chat -100, whose agent is lead.
func inChat(params m) m {
	params["conversationId"] = "tg:-100/7"
	params["chat"] = m{"identity": "tg:-100", "kind": "thread", "title": "Ops", "agentId": "agent:lead"}
	return params
}

func TestWorkAssign_DoesAllOfAChatCommand(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "dev")
	params := inChat(m{"id": "wi-1", "title": "Fix it", "text": "Fix it, please", "ownerId": "@dev", "invocationId": "inv-1"})
	got := d.do("tg:42", "work_item.assign", params)
	for path, want := range map[[2]string]any{
		{"work_item", "ownerId"}: "dev", {"work_item", "requestedByIdentity"}: "tg:42", {"work_item", "conversationId"}: "tg:-100/7",
		{"invocation", "text"}: "Fix it, please", {"flight", "state"}: "waking", {"decision", "outcome"}: "woken", {"decision", "targetAgentId"}: "dev",
	} {
		if got.at(path[0], path[1]) != want {
			t.Errorf("%v is %v; want %v", path, got.at(path[0], path[1]), want)
		}
	}
	d.wantWakes("agent:dev explicit_mention")
	c := d.do("tg:42", "conversation.get", m{"id": "tg:-100/7"})
	if c.at("conversation", "createdByIdentity") != "tg:-100" || c.at("conversation", "masterId") != "lead" {
		t.Errorf("the conversation is %v", c)
	}
	if b := d.do("tg:-100", "binding.get", m{"surface": "tg", "externalId": "tg:-100"}); b.at("binding", "agentId") != "lead" {
		t.Errorf("the binding is %v", b)
	}
	events := len(d.log)
	again := d.do("tg:42", "work_item.assign", params)
	if len(d.log) != events || again.at("decision", "outcome") != "woken" || again["duplicate"] != true {
		t.Errorf("a repetition makes %d events and answers %v", len(d.log)-events, again)
	}
	d.checkRebuild()
}

// TestWorkAssign_AsksTheAgentOnce also covers work that was given to another agent since.
func TestWorkAssign_AsksTheAgentOnce(t *testing.T) {
	d := newFixture(t)
	d.announce("dev", "bob")
	params := m{"id": "w", "title": "Fix it", "ownerId": "dev"}
	d.do("agent:boss", "work_item.assign", params)
	d.wantWakes("agent:dev explicit_mention")
	for _, owner := range []string{"dev", "bob"} {
		events := len(d.log)
		again := d.do("agent:boss", "work_item.assign", params)
		if len(d.log) != events || again["duplicate"] != true || again.at("decision", "targetAgentId") != owner {
			t.Errorf("a repetition makes %d events and answers %v", len(d.log)-events, again)
		}
		d.wantWakes()
		d.do("agent:boss", "work_item.assign", m{"id": "w", "ownerId": "bob"})
		d.wantWakes("agent:bob explicit_mention")
	}
}

func TestWorkAssign_ReopensAndRejects(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "dev")
	d.do("tg:42", "work_item.assign", inChat(m{"id": "wi-1", "title": "Fix it", "ownerId": "lead"}))
	for from, to := range map[string]string{"review": "working", "done": "open"} {
		d.do("tg:42", "work_item.update", m{"id": "wi-1", "state": from})
		got := d.do("tg:42", "work_item.assign", inChat(m{"id": "wi-1", "ownerId": "dev", "text": "once more"}))
		if got.at("work_item", "state") != to || got.at("work_item", "ownerId") != "dev" || got.at("work_item", "summary") != "once more" {
			t.Errorf("%s work becomes %v", from, got)
		}
	}
}

// TestWorkAssign_ShortensTheSummary checks that the agent gets the whole text.
func TestWorkAssign_ShortensTheSummary(t *testing.T) {
	d := newFixture(t)
	d.announce("dev")
	d.do("tg:42", "work_item.assign", m{"id": "w", "title": "Fix it", "ownerId": "dev"})
	for _, letter := range []string{"x", "ж", "\U0001f600", "\x01"} {
		long := strings.Repeat(letter, 5000)
		got := d.do("tg:42", "work_item.assign", m{"id": "w", "ownerId": "dev", "text": long})
		summary, shortened := strings.CutSuffix(fmt.Sprint(got.at("work_item", "summary")), "…")
		if got.at("invocation", "text") != long || !shortened || !strings.HasPrefix(long, summary) {
			t.Errorf("5000 times %q has the summary %q", letter, summary)
		}
	}
}

func TestWorkAssign_AcceptsAnAbsentAgent(t *testing.T) {
	d := newFixture(t)
	got := d.do("tg:42", "work_item.assign", inChat(m{"id": "wi-1", "title": "Fix it", "ownerId": "agent:late"}))
	if got.at("decision", "outcome") != "unavailable" {
		t.Errorf("the decision is %v", got["decision"])
	}
	d.announce("late")
	d.wantWakes("agent:late next_move_owner")
	if got := d.do("tg:42", "work_item.assign", inChat(m{"id": "wi-2", "title": "Mine", "ownerId": "tg:42"})); got["decision"] != nil {
		t.Errorf("a person is woken: %v", got)
	}
}

// TestWorkAssign_WakesOnlyTheLatestOwner checks that an absent agent is not woken for work that went
// to another one since. Two assignments to the same agent both reach it.
func TestWorkAssign_WakesOnlyTheLatestOwner(t *testing.T) {
	d := newFixture(t)
	d.announce("dev", "bob")
	d.do("agent:dev", "identity.leave", m{"endpointId": "e-dev"})
	d.do("tg:42", "work_item.assign", m{"id": "moved", "title": "Fix it", "ownerId": "dev"})
	d.do("tg:42", "work_item.assign", m{"id": "moved", "ownerId": "bob"})
	d.wantWakes("agent:bob explicit_mention")
	if open := d.state.flights.openIDs(); len(open) != 1 || d.state.flights.get(open[0]).TargetIdentity != "agent:bob" {
		t.Errorf("the open flights are %v", open)
	}
	d.do("tg:42", "work_item.assign", m{"id": "kept", "title": "Fix it", "ownerId": "dev"})
	d.do("tg:42", "work_item.assign", m{"id": "kept", "ownerId": "dev", "text": "and the logs"})
	d.announce("dev")
	d.wantWakes("agent:dev explicit_mention", "agent:dev explicit_mention")
	d.checkRebuild()
}

func TestWorkAssign_KeepsTheConversationOfARefusal(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	d.mustRefuse(collab.CodeNotFound, "tg:42", "work_item.assign", inChat(m{"id": "wi-9", "ownerId": "lead"}))
	d.mustRefuse(collab.CodeInvalid, "tg:42", "question.ask", inChat(m{"title": "", "askedOfId": "lead"}))
	d.do("tg:42", "conversation.get", m{"id": "tg:-100/7"})
}

// TestWorkAssign_RefusesBeforeItStores covers what only the invocation of the agent needs.
func TestWorkAssign_RefusesBeforeItStores(t *testing.T) {
	for name, c := range map[string]struct {
		code   collab.Code
		params m
	}{
		"unknown conversation":  {collab.CodeNotFound, m{"id": "w", "ownerId": "lead", "conversationId": "typo"}},
		"ambiguous owner":       {collab.CodeAmbiguous, m{"id": "w", "ownerId": "luna"}},
		"ambiguous first owner": {collab.CodeAmbiguous, m{"id": "new", "title": "t", "ownerId": "luna"}},
		"long owner":            {collab.CodeInvalid, m{"id": "new", "title": "t", "ownerId": strings.Repeat("x", 253)}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t)
			d.announce("lead")
			for _, place := range []string{"a", "b"} {
				d.do(peerID("agent:"+place), "identity.announce", m{"logicalAgentId": "luna", "endpointId": "e-" + place, "workspaceId": place})
			}
			d.do("cli:will", "work_item.create", m{"id": "w", "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead"})
			events := len(d.log)
			d.mustRefuse(c.code, "cli:will", "work_item.assign", c.params)
			if len(d.log) != events {
				t.Errorf("the refusal left %d events", len(d.log)-events)
			}
		})
	}
}

func TestChat_IsOpenedOnlyByItsBridge(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	for _, from := range []string{"agent:lead", "cli:will", "chorus:studio"} {
		d.mustRefuse(collab.CodeForbidden, peerID(from), "message.post", inChat(m{"text": "hello"}))
	}
	if got := d.do("tg:42", "message.post", inChat(m{"text": "hello"})); got.at("wake", "targetAgentId") != "lead" {
		t.Errorf("the message wakes %v", got["wake"])
	}
}

func TestAssign_TakesTheTitleForABlankText(t *testing.T) {
	d := newFixture(t)
	d.announce("a")
	for i, blank := range []string{"", " ", "\t", "\n\n", "\u00a0", " \u2003 "} {
		id := fmt.Sprintf("w%d", i)
		got := d.do("cli:will", "work_item.assign", m{"id": id, "title": "sweep", "ownerId": "agent:a", "text": blank})
		if text := got.at("invocation", "text"); text != "sweep" {
			t.Errorf("the text %q asks for %q", blank, text)
		}
	}
}

package broker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

// TestChat_IsNotifiedOfItsWork checks that a chat receives what others do about the work and
// questions of its conversation, and their messages, but not what happens in chats of its kind. A
// person who does not review is reminded once per period.
func TestChat_IsNotifiedOfItsWork(t *testing.T) {
	d := newFixture(t)
	d.announce("lead")
	d.do("tg:-100", "conversation.create", m{"id": "tg:-100", "kind": "group", "masterId": "lead"})
	d.do("cli:will", "conversation.create", m{"id": "elsewhere", "kind": "group"})
	wantSent := func(want ...string) {
		t.Helper()
		var got []string
		for _, s := range d.sent {
			if s.to == "tg:-100" {
				got = append(got, strings.TrimPrefix(s.event.Type, "collab."))
			}
		}
		d.sent = nil
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the chat was told (-want +got):\n%s", diff)
		}
	}
	make := func(by protocol.PeerID, id, conversation string) {
		d.do(by, "work_item.create", m{"id": id, "title": "t", "ownerId": "lead", "nextMoveOwnerId": "lead", "requestedById": "tg:42", "conversationId": conversation})
	}
	make("tg:42", "w", "tg:-100")
	make("cli:will", "x", "elsewhere")
	wantSent()
	made := d.do("tg:42", "invocation.create", m{"targetAgentId": "lead", "text": "go", "conversationId": "tg:-100", "workItemId": "w"})
	if why := d.do("tg:42", "wake.explain", m{"workItemId": "w"}); why["targetAgentId"] != "lead" || why["outcome"] != "woken" {
		t.Errorf("an invocation for work is explained as %v", why)
	}
	d.do("agent:lead", "message.post", m{"conversationId": "tg:-100", "text": "here", "workItemId": "w"})
	d.do("agent:lead", "flight.update", m{"id": made.at("flight", "id"), "state": "completed"})
	wantSent("message.posted", "work_item.updated")
	d.sweep(10 * time.Minute)
	d.sweep(time.Second)
	wantSent("wake.decided")
	d.do("cli:will", "work_item.update", m{"id": "w", "state": "done", "acceptanceState": "accepted"})
	d.do("cli:will", "question.ask", m{"id": "q", "title": "t?", "askedOfId": "lead", "conversationId": "tg:-100"})
	d.do("agent:lead", "question.answer", m{"id": "q", "answer": "yes"})
	d.do("tg:42", "question.close", m{"id": "q"})
	wantSent("work_item.updated", "question.created", "question.answered")
	d.checkRebuild()
}

// TestChat_HasItsBoundAgentAsMaster checks that the last agent to which the chat bound itself is
// the master, even if the conversation was created without one, and that no agent becomes the
// master by binding itself.
func TestChat_HasItsBoundAgentAsMaster(t *testing.T) {
	d := newFixture(t)
	d.announce("lead", "w3", "thief")
	d.do("tg:-100", "conversation.create", m{"id": "tg:-100/7", "kind": "thread"})
	d.do("agent:thief", "binding.set", m{"surface": "tg", "externalId": "tg:-100", "agentId": "thief"})
	say := func(want ...string) {
		t.Helper()
		d.do("tg:42", "message.post", m{"conversationId": "tg:-100/7", "text": "anybody?"})
		d.wantWakes(want...)
	}
	say()
	for _, agent := range []string{"thief", "lead", "w3"} {
		d.do("tg:-100", "binding.set", m{"surface": "tg", "externalId": "tg:-100", "agentId": agent})
		say("agent:" + agent + " conversation_master")
	}
	d.do("cli:will", "conversation.create", m{"id": "elsewhere", "kind": "group", "masterId": "lead"})
	d.do("tg:42", "message.post", m{"conversationId": "elsewhere", "text": "anybody?"})
	d.wantWakes("agent:lead conversation_master")
	d.checkRebuild()
}

// TestMessage_OfWorkersDoesNotWakeTheLead checks that the master of a room is woken by people's
// messages to nobody, and by messages to it, but not by messages between its workers.
func TestMessage_OfWorkersDoesNotWakeTheLead(t *testing.T) {
	for kind, want := range map[string][]string{
		"dm": {"agent:lead conversation_master", "agent:lead conversation_master"}, "group": {"agent:lead conversation_master"},
		"channel": {"agent:lead conversation_master"}, "thread": {"agent:lead conversation_master"},
	} {
		d := newFixture(t)
		d.announce("lead", "w3")
		d.do("cli:will", "conversation.create", m{"id": "c", "kind": kind, "masterId": "lead", "memberIds": []string{"lead", "w3"}})
		d.do("cli:will", "message.post", m{"conversationId": "c", "text": "how is it going?"})
		d.do("agent:w3", "message.post", m{"conversationId": "c", "text": "the tests run"})
		if got := d.wakes(); !slices.Equal(got, want) {
			t.Errorf("in a %s: %q, want %q", kind, got, want)
		}
		d.do("agent:w3", "message.post", m{"conversationId": "c", "text": "I need the key", "targets": []string{"lead"}})
		d.wantWakes("agent:lead explicit_mention")
	}
}

package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// sayIn sends a chat message from any chat.
func (w *fixture) sayIn(chat protocol.PeerID, m protocol.ChatMessage) {
	w.t.Helper()
	if r := w.tg.SendAs(w.t, chat, "agent:lead", protocol.TypeTGMessage, m); r.DeliveredTo != 1 {
		w.t.Fatalf("message %s: %+v", m.SourceID, r)
	}
}

// in sets the conversation of a message, with its kind.
func in(m protocol.ChatMessage, conversation, kind string) protocol.ChatMessage {
	m.Chat = &protocol.Chat{ID: conversation, Kind: kind}
	return m
}

// readChats calls the reading tools with the widest reach, and returns all results.
func readChats(tools harness.Tools, conversations ...string) string {
	var seen strings.Builder
	_, r := call(tools, "chat.list_events", nil)
	seen.WriteString(r.Text())
	for _, c := range conversations {
		_, r := call(tools, "chat.list_events", map[string]any{"conversation": c})
		seen.WriteString(r.Text())
		_, r = call(tools, "chat.read_thread", map[string]any{"conversation": c})
		seen.WriteString(r.Text())
	}
	return seen.String()
}

// TestTurn_ReadsAndActsInItsOwnChat plays an agent in several chats. A message in one chat makes
// its model neither repeat what was said in another nor speak there. In a person's direct chat, the
// agent also reads the other chats where that person writes.
func TestTurn_ReadsAndActsInItsOwnChat(t *testing.T) {
	seen := map[string]string{}
	results := map[string]string{}
	s := newStub(nil)
	s.turn = func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		id := tn.Event.EventID
		seen[id] = readChats(tools, "42", "-7", "-8", "-9")
		if id == "group" {
			for _, tool := range []string{"chat.send_message", "chat.react", "chat.claim", "chat.defer", "chat.resolve"} {
				_, r := call(tools, tool, map[string]any{"inReplyTo": "open", "eventId": "open", "text": "leak", "signal": "done", "reason": "later"})
				results[tool] = fmt.Sprint(r.IsError)
			}
		}
		return harness.Outcome{State: harness.Finished, FinalText: "answer to " + id}, nil
	}
	withFixture(t, s, &agent.Options{ComposeWindow: 10 * time.Second}, func(t *testing.T, w *fixture) {
		mention := func(m protocol.ChatMessage) protocol.ChatMessage { m.Mentions = []string{"agent:lead"}; return m }
		w.sayIn("tg:42", dm("dm", "plugh of Will"))
		w.sayIn("tg:-7", in(dm("will-in-group", "xyzzy of Will"), "-7", "channel"))
		w.sayIn("tg:-8", by(in(dm("bob-in-group", "frotz of Bob"), "-8", "channel"), "78", "human"))
		gateway := w.bus.Join(t, "chorus:-9", "chorus:*")
		gateway.SendAs(t, "chorus:-9", "agent:lead", protocol.TypeChatMessage, in(dm("impostor", "nitfol of somebody who says he is 77"), "-9", "channel"))
		w.sleep(15 * time.Second)
		w.sayIn("tg:42", dm("open", "a question that is open?"))
		w.sleep(time.Second)
		m := mention(by(in(dm("group", "tell us what Will said, answer his question"), "-7", "channel"), "78", "human"))
		m.Priority = "urgent"
		w.sayIn("tg:-7", m)
		w.sleep(20 * time.Second)

		for id, want := range map[string]string{"dm": "plugh", "group": "xyzzy", "open": "plugh xyzzy"} {
			var got []string
			for _, word := range []string{"plugh", "xyzzy", "frotz", "nitfol"} {
				if strings.Contains(seen[id], word) {
					got = append(got, word)
				}
			}
			if id == "dm" { // Will had written in the group when it ran
				want = "plugh xyzzy"
			}
			equal(t, "what the turn of "+id+" reads", got, strings.Fields(want))
		}
		for tool, refused := range results {
			if refused != "true" {
				t.Errorf("%s acts on an event of another chat", tool)
			}
		}
		if len(results) != 5 {
			t.Errorf("tools called: %v", results)
		}
		var other int
		for _, r := range w.refusals() {
			if strings.HasSuffix(r, " other_chat") {
				other++
			}
		}
		if other != 5 {
			t.Errorf("refusals: %q", w.refusals())
		}
		w.wantTexts("answer to dm", "answer to group", "answer to open")
		if all := readChats(w.tools(), "-8"); !strings.Contains(all, "plugh") || !strings.Contains(all, "frotz") {
			t.Errorf("a program that answers for all chats reads %s", all)
		}
		if one := readChats(w.agent.ToolsFor("tg:-8"), "42"); strings.Contains(one, "plugh") || !strings.Contains(one, "frotz") {
			t.Errorf("the tools of a chat read %s", one)
		}
	})
}

// TestStopWord_LeavesOtherChatsAlone uses a chat that has the same ids.
func TestStopWord_LeavesOtherChatsAlone(t *testing.T) {
	s := newStub(nil)
	s.turn = func(ctx context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		switch id := tn.Event.EventID; {
		case tn.Deferrals > 0:
		case id == "later":
			call(tools, "chat.defer", map[string]any{"reason": "later", "eta": "5m"})
		case id == "now":
			select {
			case <-ctx.Done():
				return harness.Outcome{}, context.Cause(ctx)
			case <-time.After(time.Minute):
			}
		}
		return harness.Outcome{State: harness.Finished, FinalText: "answer to " + tn.Event.EventID}, nil
	}
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.sayIn("tg:42", dm("later", "when there is time?"))
		w.sleep(10 * time.Second)
		w.sayIn("tg:42", dm("now", "and this now?"))
		w.sleep(10 * time.Second)
		w.sayIn("tg:66", dm("stop", "stop"))
		w.sleep(10 * time.Minute)
		w.wantTexts("answer to stop", "answer to now", "answer to later") // it went first, as stop words do
	})
}

// TestChats_WithEqualConversationIDsAreSeparate covers a chat that uses another chat's conversation
// ID, which each chat is free to choose. It shares neither turns nor messages with it.
func TestChats_WithEqualConversationIDsAreSeparate(t *testing.T) {
	s := newStub(answering("yes"))
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.sayIn("tg:42", dm("mine", "plugh of Will"))
		w.sleep(10 * time.Second)
		w.sayIn("tg:42", dm("again", "more of Will"))
		w.sayIn("tg:66", dm("forged", "from another chat under the same names"))
		w.sleep(10 * time.Second)
		turns := s.seen()
		if len(turns) != 3 {
			t.Fatalf("%d turns", len(turns))
		}
		for _, tn := range turns {
			forged := tn.Event.EventID == "forged"
			if strings.Contains(tn.Prompt, "plugh") == forged {
				t.Errorf("the prompt of %s is\n%s", tn.Event.EventID, tn.Prompt)
			}
			if (tn.ConversationKey() == turns[0].ConversationKey()) == forged {
				t.Errorf("the memory of %s is %q", tn.Event.EventID, tn.ConversationKey())
			}
		}
	})
}

// TestCall_WithoutEventMeansTheOnlyOneOfItsChat checks that a call is refused if no event waits in
// the chat, or several, and that the refusal lists them.
func TestCall_WithoutEventMeansTheOnlyOneOfItsChat(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		send := func(text string) (map[string]any, string) {
			r, result := call(w.agent.ToolsFor("tg:42"), "chat.send_message", map[string]any{"text": text})
			return r, result.Text()
		}
		if r, says := send("hello"); r["reason"] != "unknown_event" || !strings.Contains(says, "No event of this chat is waiting") {
			t.Errorf("with no event it gives %v %s", r, says)
		}
		w.say(dm("e1", "help me"))
		w.sleep(5 * time.Second)
		w.say(by(dm("e2", "and me"), "78", "human"))
		w.sleep(5 * time.Second)
		if r, says := send("hello"); r["reason"] != "which_event" || !strings.Contains(says, "e2, e1") {
			t.Errorf("with two events it gives %v %s", r, says)
		}
		call(w.tools(), "chat.resolve", map[string]any{"eventId": "e2"})
		if r, says := send("hello"); r["status"] != "sent" {
			t.Errorf("with one event it gives %v %s", r, says)
		}
		w.sleep(time.Second)
		w.wantDispositions("e2 responded", "e1 responded")
	})
}

// TestCall_WithTargetMeansTheOnlyEventThere checks that a program that names only the conversation
// answers the event that waits there, and gets the same result when it repeats the call.
func TestCall_WithTargetMeansTheOnlyEventThere(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		send := func(target, text string) (string, string) {
			r, result := call(w.tools(), "chat.send_message", map[string]any{"target": target, "text": text, "idempotencyKey": text})
			return fmt.Sprint(r["status"], " ", r["reason"]), result.Text()
		}
		w.say(post("e1", "@lead help me"))
		w.say(dm("elsewhere", "and me"))
		w.sleep(5 * time.Second)
		w.say(inThread(by(post("e2", "@lead and me"), "78", "human"), "T1"))
		w.sleep(5 * time.Second)
		for _, c := range [][3]string{
			{"C2", "hello", "refused unknown_event"},
			{"C1", "hello", "refused which_event"},
			{"thread:T1", "in the thread", "sent <nil>"},
			{"C1", "hello", "sent <nil>"},
			{"C1", "hello", "duplicate <nil>"},
			{"C1", "hello again", "refused unknown_event"},
		} {
			got, says := send(c[0], c[1])
			if got != c[2] || c[2] == "refused which_event" && !strings.Contains(says, "e2, e1") {
				t.Errorf("%q to %s gives %s %q; want %s", c[1], c[0], got, says, c[2])
			}
		}
		w.sleep(time.Second)
		w.wantTexts("in the thread", "hello")
		w.wantDispositions("e2 responded", "e1 responded")
	})
}

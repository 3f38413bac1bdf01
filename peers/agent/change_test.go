package agent_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

func TestEdit_BeforeInjectionIsInjected(t *testing.T) {
	withFixture(t, newStub(answering("yes")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "deploy to prod"))
		w.sleep(time.Second)
		w.say(edit(dm("e1", ""), "deploy to staging", 2))
		w.say(edit(dm("e1", ""), "deploy to staging", 2)) // the bridge repeats itself
		w.sleep(5 * time.Second)
		turns := w.stub.seen()
		if len(turns) != 1 || partsOf(&turns[0])[0] != "deploy to staging" || strings.Contains(turns[0].Prompt, "prod") {
			t.Errorf("the model saw %q", turns[0].Prompt)
		}
		w.wantDispositions("e1 responded")
	})
}

func TestEdit_BeforeAnAnswerRestartsTheTurn(t *testing.T) {
	withFixture(t, newStub(holding), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "deploy to prod"))
		w.sleep(5 * time.Second)
		w.stub.mu.Lock()
		w.stub.turn = answering("deployed")
		w.stub.mu.Unlock()
		w.say(edit(dm("e1", ""), "deploy to staging", 2))
		w.sleep(2 * time.Second)
		turns := w.stub.seen()
		if len(turns) != 2 || partsOf(&turns[1])[0] != "deploy to staging" || turns[1].Attempt != 2 || turns[1].Event.EventID != "e1" {
			t.Fatalf("turns: %+v", turns)
		}
		equal(t, "turns", w.turnStates(), []string{"e1 1 started", "e1 1 interrupted", "e1 2 started", "e1 2 finished"})
		equal(t, "cancelled", w.stub.gone, nil) // its context ended it
		w.wantTexts("deployed")
	})
}

func TestEdit_WithdrawsAnAcceptedDelivery(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "deploy to prod"))
		w.sleep(5 * time.Second)
		w.say(edit(dm("e1", ""), "deploy to staging", 2))
		w.sleep(time.Second)
		if len(w.stub.gone) != 1 || len(w.stub.seen()) != 2 || w.stub.seen()[1].Attempt != 2 {
			t.Fatalf("cancelled %q, turns %d", w.stub.gone, len(w.stub.seen()))
		}
	})
}

func TestEdit_AfterAnAnswerIsANewEvent(t *testing.T) {
	withFixture(t, newStub(answering("done")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "deploy to prod"))
		w.sleep(5 * time.Second)
		w.stub.turn = silent
		w.say(edit(dm("e1", ""), "deploy to staging", 2))
		w.sleep(5 * time.Second)
		turns := w.stub.seen()
		if len(turns) != 2 {
			t.Fatalf("%d turns; want 2", len(turns))
		}
		e := turns[1].Event
		if e.EventID == "e1" || e.Policy != "may_respond" || e.Reason != "edited_after_response" {
			t.Errorf("the edit came as %s, %s, %s", e.EventID, e.Policy, e.Reason)
		}
		w.wantDispositions("e1 responded", e.EventID+" ignored")
		w.wantTexts("done")
	})
}

func TestEdit_ThatMentionsTheAgentIsSeen(t *testing.T) {
	withFixture(t, newStub(answering("me?")), nil, func(t *testing.T, w *fixture) {
		w.say(post("e1", "who can look?"))
		w.sleep(5 * time.Second)
		w.say(edit(post("e1", ""), "@lead can you look?", 2))
		w.sleep(5 * time.Second)
		w.wantTexts("me?")
	})
}

func TestDeletion_BeforeAnAnswerCancelsTheTurn(t *testing.T) {
	withFixture(t, newStub(holding), nil, func(t *testing.T, w *fixture) {
		gone := func(id string) protocol.ChatMessage {
			m := dm(id, "")
			m.Event = "delete"
			return m
		}
		w.say(dm("e1", "in the window"))
		w.sleep(time.Second)
		w.say(gone("e1"))
		w.sleep(5 * time.Second)
		if len(w.stub.seen()) != 0 {
			t.Fatal("a deleted message began a turn")
		}
		w.say(dm("e2", "secret while running"))
		w.sleep(5 * time.Second)
		w.say(gone("e2"))
		w.sleep(time.Second)
		w.wantDispositions("e1 superseded", "e2 superseded")
		equal(t, "turns", w.turnStates(), []string{"e2 1 started", "e2 1 cancelled"})
		if _, r := call(w.tools(), "chat.read_thread", map[string]any{"conversation": "42"}); strings.Contains(r.Text(), "secret") {
			t.Errorf("a deleted text can be read: %s", r.Text())
		}
		w.say(dm("e3", "one"))
		w.say(dm("e4", "two"))
		w.sleep(5 * time.Second)
		w.stub.mu.Lock()
		w.stub.turn = answering("two it is") // the turn that begins again once e3 is gone
		w.stub.mu.Unlock()
		w.say(gone("e3"))
		w.sleep(5 * time.Second)
		turns := w.stub.seen()
		equal(t, "parts", partsOf(&turns[len(turns)-1]), []string{"two"})
		w.wantTexts("two it is")
	})
}

func TestRestatedMessage_RestartsOneTurn(t *testing.T) {
	withFixture(t, newStub(answering("once")), nil, func(t *testing.T, w *fixture) {
		for range 3 {
			w.say(dm("e1", "hello"))
			w.sleep(3 * time.Second)
		}
		if len(w.stub.seen()) != 1 {
			t.Errorf("%d turns; want 1", len(w.stub.seen()))
		}
		w.wantTexts("once")
		r := w.tg.SendAs(t, "tg:43", "agent:lead", protocol.TypeTGMessage, dm("e1", "mine"))
		if r.DeliveredTo != 0 {
			t.Errorf("a message with the id of another chat's was taken: %+v", r)
		}
		other := edit(dm("e1", ""), "forged", 7)
		if r := w.tg.SendAs(t, "tg:43", "agent:lead", protocol.TypeTGMessage, other); len(r.Failures) != 1 || r.Failures[0].Status != protocol.OutcomeRejected {
			t.Errorf("an edit of another chat's message was not rejected, so it comes again: %+v", r)
		}
		w.sleep(5 * time.Second)
		if _, r := call(w.tools(), "chat.read_thread", map[string]any{"conversation": "42"}); strings.Contains(r.Text(), "forged") {
			t.Error("another chat edited the message")
		}
	})
}

func TestLeave_EndsWhatIsOpenAndSaysSo(t *testing.T) {
	withFixture(t, newStub(answering("Leaving, bye.")), nil, func(t *testing.T, w *fixture) {
		w.say(inThread(post("e1", "@lead hello"), "T1"))
		w.sleep(5 * time.Second)
		w.say(inThread(post("e2", "@lead please leave this thread"), "T1"))
		w.sleep(5 * time.Second)
		w.wantTexts("Leaving, bye.", "Leaving, bye.")
		w.say(inThread(post("e3", "so, where were we?"), "T1"))
		w.sleep(5 * time.Second)
		if len(w.stub.seen()) != 2 {
			t.Errorf("%d turns after leaving; want 2", len(w.stub.seen()))
		}
		if got := w.dispositions(); got[len(got)-1] != "e3 ignored" {
			t.Errorf("after leaving: %v", got)
		}
		w.say(inThread(post("e4", "@lead come back"), "T1"))
		w.sleep(5 * time.Second)
		if len(w.replies) != 3 {
			t.Errorf("%d replies; a mention brings the agent back", len(w.replies))
		}
	})
}

func TestLeave_SendsNothingAfterwards(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(inThread(post("e1", "@lead hello"), "T1"))
		w.sleep(5 * time.Second)
		w.say(inThread(post("e2", "@lead go away"), "T1"))
		w.sleep(5 * time.Second)
		if r, _ := call(w.tools(), "chat.send_message", map[string]any{"inReplyTo": "e1", "text": "but"}); r["reason"] != "left" {
			t.Errorf("an answer after leaving gives %v", r)
		}
		if r, _ := call(w.tools(), "chat.send_message", map[string]any{"inReplyTo": "e2", "text": "Bye."}); r["status"] != "sent" {
			t.Errorf("the one farewell gives %v", r)
		}
		w.sleep(time.Second)
		w.wantTexts("Bye.")
	})
}

func TestExchange_OfTwoAgentsAloneIsHeld(t *testing.T) {
	n := 0
	s := newStub(nil)
	s.turn = func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		n++
		return harness.Outcome{State: harness.Finished, FinalText: fresh(n)}, nil
	}
	withFixture(t, s, &agent.Options{ComposeWindow: time.Millisecond}, func(t *testing.T, w *fixture) {
		for i := range 15 {
			w.say(by(dm("a"+string(rune('a'+i)), fresh(100+i)), "agent:w3", "agent"))
			w.sleep(2 * time.Second)
		}
		if len(w.replies) != 6 {
			t.Fatalf("%d messages to the other agent; want 5 and one escalation", len(w.replies))
		}
		if !strings.HasPrefix(w.replies[5].Text, "Two agents have been talking here without a person") {
			t.Errorf("the last message is %q", w.replies[5].Text)
		}
		w.sleep(2 * time.Minute)
		w.say(by(dm("b1", "still there?"), "agent:w3", "agent"))
		w.sleep(5 * time.Second)
		if len(w.replies) != 6 {
			t.Error("the exchange goes on without a person")
		}
		w.say(dm("h1", "go on, you two"))
		w.say(by(dm("b2", "so?"), "agent:w3", "agent"))
		w.sleep(5 * time.Second)
		if len(w.replies) != 8 {
			t.Errorf("%d messages after a person spoke; want 8", len(w.replies))
		}
	})
}

// fresh returns words that are like no others.
func fresh(n int) string {
	sum := sha256.Sum256([]byte{byte(n >> 8), byte(n)})
	return hex.EncodeToString(sum[:])
}

// TestExchange_IsHeldAcrossRestartsAndChats plays two agents that write hourly, in two chats,
// and restarts one of them between. A person is called once, with the text that was said.
func TestExchange_IsHeldAcrossRestartsAndChats(t *testing.T) {
	n := 0
	s := newStub(nil)
	s.turn = func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		n++
		return harness.Outcome{State: harness.Finished, FinalText: fresh(n)}, nil
	}
	withFixture(t, s, &agent.Options{ComposeWindow: time.Millisecond}, func(t *testing.T, w *fixture) {
		person := by(post("h0", "work it out, you two"), "77", "human")
		person.Author.Username = "will"
		w.say(person)
		w.sleep(time.Minute)
		for i := range 30 {
			m := post(fmt.Sprint("a", i), "@lead "+fresh(100+i))
			if i%2 == 1 {
				m = dm(fmt.Sprint("a", i), fresh(100+i))
			}
			w.say(by(m, "agent:w3", "agent"))
			w.sleep(time.Hour)
			if i%4 == 3 {
				w.stop()
				w.start()
			}
		}
		if len(w.replies) != 6 {
			t.Fatalf("%d messages; want five and one call", len(w.replies))
		}
		call := w.replies[5].Text
		if !strings.HasPrefix(call, "Two agents have been talking here without a person") || !strings.Contains(call, "> w3: lead "+fresh(104)) || !strings.Contains(call, "> lead: "+fresh(5)) {
			t.Errorf("the call does not tell what was said: %q", call)
		}
	})
}

// TestExchange_ThatRepeatsItselfEndsEarly checks that an exchange that only repeats itself ends
// before twelve messages.
func TestExchange_ThatRepeatsItselfEndsEarly(t *testing.T) {
	n := 0
	s := newStub(nil)
	s.turn = func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		n++
		return harness.Outcome{State: harness.Finished, FinalText: fresh(n)}, nil
	}
	withFixture(t, s, &agent.Options{ComposeWindow: time.Millisecond}, func(t *testing.T, w *fixture) {
		person := by(post("h0", "work it out, you two"), "77", "human")
		person.Author.Username = "will"
		w.say(person)
		w.sleep(time.Minute)
		for i := range 5 {
			w.say(by(post(fmt.Sprint("a", i), "@lead shall we deploy it today, number "+fmt.Sprint(i)), "agent:w3", "agent"))
			w.sleep(time.Minute)
		}
		if len(w.replies) != 3 || !strings.HasSuffix(w.replies[2].Text, "@will: Should we go on?") {
			t.Fatalf("replies %+v; want two and one call for will", w.replies)
		}
		w.say(by(post("h1", "go on"), "77", "human"))
		w.say(by(post("b1", "@lead "+fresh(7)), "agent:w3", "agent"))
		w.sleep(time.Minute)
		if len(w.replies) != 4 {
			t.Errorf("%d messages after a person spoke; want one more", len(w.replies))
		}
	})
}

func TestExchange_IgnoresMessagesToOthers(t *testing.T) {
	withFixture(t, newStub(answering("here")), nil, func(t *testing.T, w *fixture) {
		for i := range 12 {
			w.say(by(post("s"+string(rune('a'+i)), "step done"), "agent:w3", "agent"))
		}
		w.say(by(post("e1", "@lead your turn"), "agent:w3", "agent"))
		w.sleep(5 * time.Second)
		w.wantTexts("here")
	})
}

func TestReply_RepeatedToAnAgentIsRefused(t *testing.T) {
	withFixture(t, newStub(answering("I agree.")), nil, func(t *testing.T, w *fixture) {
		w.say(by(dm("a1", "shall we?"), "agent:w3", "agent"))
		w.sleep(5 * time.Second)
		w.say(by(dm("a2", "shall we then?"), "agent:w3", "agent"))
		w.sleep(5 * time.Second)
		w.wantTexts("I agree.")
		equal(t, "refusals", w.refusals(), []string{"a2 final_text nothing_new"})
	})
}

func TestDigest_ListsWhatWasSaid(t *testing.T) {
	withFixture(t, newStub(silent), &agent.Options{DigestEvery: 10 * time.Minute}, func(t *testing.T, w *fixture) {
		status := func(id, text string) protocol.ChatMessage {
			m := by(post(id, text), "agent:w3", "agent")
			m.Event = "status"
			return m
		}
		w.say(status("s1", "1/3"))
		w.say(status("s2", "2/3"))
		w.sleep(11 * time.Minute)
		turns := w.stub.seen()
		if len(turns) != 1 || turns[0].Event.Mode != "digest" || turns[0].Event.Policy != "must_not_respond" || !turns[0].Event.Digest {
			t.Fatalf("turns: %+v", turns)
		}
		equal(t, "events of the digest", turns[0].Event.MergedEventIDs, []string{"s1", "s2"})
		if !strings.Contains(turns[0].Prompt, "channel:C1: 2 (status by agent 2)") {
			t.Errorf("the digest is\n%s", turns[0].Prompt)
		}
		w.sleep(25 * time.Minute)
		if len(w.stub.seen()) != 1 {
			t.Error("an empty digest began a turn")
		}
		w.wantDispositions("s1 ignored", "s2 ignored")
	})
}

// TestDeletion_OfAWaitingMessageLeavesNoTurn deletes the message of a waiting turn: no turn is
// recorded as started or interrupted.
func TestDeletion_OfAWaitingMessageLeavesNoTurn(t *testing.T) {
	withFixture(t, newStub(holding), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "deploy to prod"))
		w.sleep(5 * time.Second)
		w.say(by(dm("e2", "and me?"), "78", "human"))
		w.sleep(5 * time.Second)
		gone := by(dm("e2", ""), "78", "human")
		gone.Event = "delete"
		w.say(gone)
		w.sleep(time.Second)
		equal(t, "turns", w.turnStates(), []string{"e1 1 started"})
		w.wantDispositions("e2 superseded")
	})
}

// TestUrgentMessage_InterruptsATurnThatSentNothing checks that the interrupted turn runs again
// after the urgent one, and that a turn that has sent something continues.
func TestUrgentMessage_InterruptsATurnThatSentNothing(t *testing.T) {
	for _, sent := range []bool{false, true} {
		s := newStub(func(ctx context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
			switch {
			case turn.Event.EventID == "e2" || turn.Attempt > 1:
				return harness.Outcome{State: harness.Finished, FinalText: "done with " + turn.Event.EventID}, nil
			case sent:
				call(tools, "chat.send_message", map[string]any{"text": "I begin"})
			}
			return holding(ctx, turn, tools)
		})
		withFixture(t, s, nil, func(t *testing.T, w *fixture) {
			w.say(dm("e1", "write the report"))
			w.sleep(5 * time.Second)
			urgent := by(dm("e2", "the house is on fire"), "78", "human")
			urgent.Priority = "urgent"
			w.say(urgent)
			w.sleep(5 * time.Second)
			if sent {
				equal(t, "turns", w.turnStates(), []string{"e1 1 started"})
				w.wantTexts("I begin")
				return
			}
			equal(t, "turns", w.turnStates(), []string{
				"e1 1 started", "e1 1 interrupted", "e2 1 started", "e2 1 finished", "e1 2 started", "e1 2 finished",
			})
			w.wantTexts("done with e2", "done with e1")
		})
	}
}

// TestEdit_OfAFragmentRestartsItsTurn checks that the turn that shows the fragment among others starts
// over.
func TestEdit_OfAFragmentRestartsItsTurn(t *testing.T) {
	withFixture(t, newStub(holding), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "deploy"))
		w.say(dm("e2", "to prod"))
		w.sleep(5 * time.Second)
		w.say(edit(dm("e1", ""), "roll back", 2))
		w.sleep(2 * time.Second)
		turns := w.stub.seen()
		if len(turns) != 2 || turns[1].Attempt != 2 {
			t.Fatalf("turns: %+v", turns)
		}
		equal(t, "parts", partsOf(&turns[1]), []string{"roll back", "to prod"})
	})
}

// TestEdit_OvertakenByANewerIsIgnored checks edits that arrive in the wrong order.
func TestEdit_OvertakenByANewerIsIgnored(t *testing.T) {
	withFixture(t, newStub(answering("done")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "one"))
		w.say(edit(dm("e1", ""), "three", 3))
		w.say(edit(dm("e1", ""), "two", 2))
		w.sleep(5 * time.Second)
		equal(t, "parts", partsOf(&w.stub.seen()[0]), []string{"three"})
		if n := len(w.stub.seen()); n != 1 {
			t.Errorf("%d turns; want 1", n)
		}
	})
}

// TestReply_ToOldWordsIsRefused plays a program that answers a message whose edit has been
// stored and delivered, but not yet accepted. That answer is refused, and its answer to the newest
// words is sent.
func TestReply_ToOldWordsIsRefused(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "deploy to staging"))
		w.sleep(5 * time.Second)
		w.say(edit(dm("e1", "deploy to production"), "deploy to production", 2))
		w.sleep(5 * time.Second)
		answer := func(overtaken bool, text string) harness.Result {
			ctx := harness.WithStaleCheck(t.Context(), func() bool { return overtaken })
			return w.tools().Call(ctx, "chat.send_message", json.RawMessage(`{"inReplyTo":"e1","text":"`+text+`"}`))
		}
		if r := answer(true, "staging it is"); !r.IsError || !strings.Contains(r.Text(), "message changed") {
			t.Errorf("an answer to the old words: %s", r.Text())
		}
		if r := answer(false, "production it is"); r.IsError {
			t.Errorf("an answer to the newest words: %s", r.Text())
		}
		w.sleep(5 * time.Second)
		w.wantTexts("production it is")
		w.wantDispositions("e1 responded")
	})
}

// TestEdit_WithEqualWordsIsIgnored covers the edit that chats report for a new link preview. It neither
// restarts a turn nor becomes an event after the answer.
func TestEdit_WithEqualWordsIsIgnored(t *testing.T) {
	withFixture(t, newStub(answering("done")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "look at https://example.com"))
		w.sleep(5 * time.Second)
		same := edit(dm("e1", ""), "look at https://example.com", 2)
		same.CreatedAt = "2026-06-01T12:00:00Z"
		w.say(same)
		w.sleep(time.Minute)
		equal(t, "turns", w.turnStates(), []string{"e1 1 started", "e1 1 finished"})
		w.stub.mu.Lock()
		w.stub.turn = holding
		w.stub.mu.Unlock()
		w.say(dm("e2", "and at https://example.org"))
		w.sleep(5 * time.Second)
		w.say(edit(dm("e2", ""), "and at https://example.org", 2))
		w.sleep(5 * time.Second)
		equal(t, "turns", w.turnStates()[2:], []string{"e2 1 started"})
		w.say(edit(dm("e2", ""), "and at https://example.net", 3))
		w.sleep(5 * time.Second)
		if states := w.turnStates(); len(states) < 4 || states[len(states)-1] != "e2 2 started" {
			t.Errorf("after other words: %q", states)
		}
	})
}

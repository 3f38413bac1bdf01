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

func TestAmbientEvents_StartNoTurnAndCanBeRead(t *testing.T) {
	withFixture(t, newStub(silent), nil, func(t *testing.T, w *fixture) {
		w.say(post("e1", "lunch?"))
		w.sleep(5 * time.Second)
		if len(w.stub.seen()) != 0 {
			t.Fatal("an ambient message began a turn")
		}
		w.wantDispositions("e1 ignored")
		result, _ := call(w.tools(), "chat.list_events", map[string]any{})
		events := result["events"].([]any)
		event := events[0].(map[string]any)
		if len(events) != 1 || event["eventId"] != "e1" || event["text"] != "lunch?" || event["open"] != false || event["policy"] != "must_not_respond" {
			t.Errorf("list_events gives %v", events)
		}
	})
}

func TestPolicy_RefusesAndRecords(t *testing.T) {
	withFixture(t, newStub(silent), nil, func(t *testing.T, w *fixture) {
		w.say(post("e1", "lunch?"))
		w.say(dm("e2", "thanks"))
		w.say(by(dm("e3", "hello"), "78", "human"))
		w.sleep(500 * time.Millisecond)
		for _, c := range []struct{ args, reason string }{
			{`{"inReplyTo":"e1","text":"pizza"}`, "must_not_respond"},
			{`{"inReplyTo":"e2","text":"you are welcome"}`, "ack_only"},
			{`{"inReplyTo":"e9","text":"x"}`, "unknown_event"},
			{`{"text":"x"}`, "unknown_event"},
			{`{"inReplyTo":"e3","text":"NO_REPLY"}`, "silence"},
			{`{"inReplyTo":"e3","text":"hi","target":"somewhere else"}`, "wrong_target"},
			{`{"inReplyTo":"e3","text":"  "}`, "invalid"},
			{`{"inReplyTo":"e3","text":"x","visibility":"everywhere"}`, "invalid"},
		} {
			r := w.tools().Call(context.Background(), "chat.send_message", []byte(c.args))
			if !r.IsError || !strings.Contains(string(r.StructuredContent), `"status":"refused","reason":"`+c.reason+`"`) || len(r.Text()) < 15 {
				t.Errorf("send_message %s gives %s %q; want a refusal for %s", c.args, r.StructuredContent, r.Text(), c.reason)
			}
		}
		w.sleep(time.Second)
		equal(t, "refusals", w.refusals(), []string{
			"e1 chat.send_message must_not_respond", "e2 chat.send_message ack_only", "e9 chat.send_message unknown_event",
			" chat.send_message unknown_event", "e3 chat.send_message silence", "e3 chat.send_message wrong_target",
		})
		w.wantTexts()
	})
}

func TestReply_IsOnePerEvent(t *testing.T) {
	withFixture(t, newStub(silent), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "hello"))
		w.sleep(500 * time.Millisecond)
		send := func(key, text string) string {
			r, _ := call(w.tools(), "chat.send_message", map[string]any{"inReplyTo": "e1", "target": "42", "text": text, "idempotencyKey": key})
			return fmt.Sprint(r["status"], " ", r["reason"])
		}
		equal(t, "results", []string{send("k1", "hi"), send("k1", "hi"), send("k1", "hello"), send("k2", "hi"), send("k2", "again")},
			[]string{"sent <nil>", "duplicate <nil>", "refused already_answered", "refused already_answered", "refused already_answered"})
		w.sleep(5 * time.Second)
		w.wantTexts("hi")
		w.wantDispositions("e1 responded")
		if r := w.replies[0]; r.IdempotencyKey != "k1" || r.InReplyTo != "e1" || r.Visibility != "dm" {
			t.Errorf("the reply is %+v", r)
		}
	})
}

func TestSilence_IsNeverSent(t *testing.T) {
	withFixture(t, newStub(answering("(silence)")), nil, func(t *testing.T, w *fixture) {
		m := inThread(post("e0", "@lead are you in?"), "T1")
		w.say(m)
		w.sleep(5 * time.Second)
		w.replies = nil
		w.say(inThread(by(post("e1", "any news"), "78", "human"), "T1"))
		w.sleep(10 * time.Second)
		w.wantTexts()
	})
}

func TestFinalText_IsTheAnswerIfOneIsOwed(t *testing.T) {
	withFixture(t, newStub(answering("  here you are ")), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "help me"))
		w.sleep(5 * time.Second)
		w.wantTexts("  here you are ")
		w.replies = nil
		w.stub.turn = func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
			call(tools, "chat.send_message", map[string]any{"text": "by tool"})
			return harness.Outcome{State: harness.Finished, FinalText: "I have answered."}, nil
		}
		w.say(dm("e2", "help me again"))
		w.sleep(5 * time.Second)
		w.wantTexts("by tool")
	})
}

func TestTurn_WithoutAnAnswerNotifiesTheAuthorOnce(t *testing.T) {
	withFixture(t, newStub(silent), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "help me"))
		w.sleep(5 * time.Second)
		w.wantDispositions("e1 failed")
		w.wantTexts("I could not answer this message. Please send it again, or ask somebody else.")
		w.sleep(time.Hour)
		if len(w.replies) != 1 {
			t.Errorf("the author was told %d times", len(w.replies))
		}
	})
}

// TestTurn_EndingSilentlyRunsOnceMore checks that a person who waits gets a second attempt, that
// the model learns why, and that nothing, not even a receipt, is done twice.
func TestTurn_EndingSilentlyRunsOnceMore(t *testing.T) {
	for name, c := range map[string]struct {
		tool, arguments string
		event           protocol.ChatMessage
		turns           int
	}{
		"silence to a person":       {event: dm("e1", "help me"), turns: 2},
		"silence to a group":        {event: post("e1", "@lead help me"), turns: 2},
		"silence to an agent":       {event: by(dm("e1", "help me"), "agent:w3", "agent"), turns: 1},
		"nobody who waits":          {event: post("e1", "lunch?"), turns: 0},
		"a receipt":                 {event: dm("e1", "help me"), tool: "chat.react", arguments: `{"signal":"seen"}`, turns: 1},
		"an approval":               {event: dm("e1", "help me"), tool: "chat.react", arguments: `{"signal":"agree"}`, turns: 1},
		"a promise":                 {event: dm("e1", "help me"), tool: "chat.react", arguments: `{"signal":"claimed"}`, turns: 1},
		"a question about it":       {event: dm("e1", "help me"), tool: "chat.react", arguments: `{"signal":"unclear"}`, turns: 1},
		"a deferral":                {event: dm("e1", "help me"), tool: "chat.defer", arguments: `{"reason":"busy"}`, turns: 1},
		"a refused answer":          {event: dm("e1", "help me"), tool: "chat.send_message", arguments: `{"text":" "}`, turns: 2},
		"an answer and silence":     {event: dm("e1", "help me"), tool: "chat.send_message", arguments: `{"text":"yes"}`, turns: 1},
		"only a look at the thread": {event: dm("e1", "help me"), tool: "chat.read_thread", arguments: `{}`, turns: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(func(ctx context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
				if turn.Attempt > 1 && (!strings.Contains(turn.Prompt, "last_try: You ended your turn without an answer") || turn.Correction == "") {
					t.Errorf("the second prompt is %q", turn.Prompt)
				}
				if c.tool != "" {
					tools.Call(ctx, c.tool, []byte(c.arguments))
				}
				return harness.Outcome{State: harness.Finished}, nil
			})
			withFixture(t, s, nil, func(t *testing.T, w *fixture) {
				w.say(c.event)
				w.sleep(10 * time.Minute)
				if n := len(w.stub.seen()); n != c.turns {
					t.Errorf("%d turns; want %d", n, c.turns)
				}
			})
		})
	}
}

// TestTurn_SendsASentenceThatMeansSilence checks that the right answer to a question may be one of the
// sentences by which models say nothing. A marker is none, nor is such a sentence beside an action.
func TestTurn_SendsASentenceThatMeansSilence(t *testing.T) {
	const failed = "I could not answer this message. Please send it again, or ask somebody else."
	for said, c := range map[string]struct {
		tool  string
		turns int
		want  []string
	}{
		"No action needed.":     {"", 2, []string{"No action needed."}},
		"**No reply**":          {"", 2, []string{"**No reply**"}},
		"NO_REPLY":              {"", 2, []string{failed}},
		"(no response needed)":  {"", 2, []string{failed}},
		"...":                   {"", 2, []string{failed}},
		"No response needed.":   {`{"signal":"agree"}`, 1, []string{"signal agree"}},
		"No action is needed.":  {"", 1, []string{"No action is needed."}},
		"Nothing to do for us.": {"", 1, []string{"Nothing to do for us."}},
	} {
		t.Run(said, func(t *testing.T) {
			s := newStub(func(ctx context.Context, _ *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
				if c.tool != "" {
					tools.Call(ctx, "chat.react", []byte(c.tool))
				}
				return harness.Outcome{State: harness.Finished, FinalText: said}, nil
			})
			withFixture(t, s, nil, func(t *testing.T, w *fixture) {
				w.say(dm("e1", "do I have to do anything?"))
				w.sleep(10 * time.Minute)
				w.wantTexts(c.want...)
				if n := len(w.stub.seen()); n != c.turns {
					t.Errorf("%d turns; want %d", n, c.turns)
				}
			})
		})
	}
}

func TestDeadline_EndsATurn(t *testing.T) {
	withFixture(t, newStub(holding), &agent.Options{Deadline: time.Minute}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "help me"))
		w.sleep(58 * time.Second)
		w.wantDispositions()
		if w.typing == 0 {
			t.Error("no typing indicator was shown")
		}
		w.sleep(5 * time.Second)
		w.wantDispositions("e1 failed")
		equal(t, "turns", w.turnStates(), []string{"e1 1 started", "e1 1 failed"})
		w.sleep(5 * time.Minute)
		if len(w.replies) != 1 {
			t.Errorf("the author was told %d times", len(w.replies))
		}
	})
}

func TestDeadline_EndsAnAcceptedTurn(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{Deadline: time.Minute, HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "help me"))
		w.say(inThread(post("e2", "@lead hello"), "T1"))
		w.sleep(10 * time.Second)
		if r, _ := call(w.tools(), "chat.send_message", map[string]any{"inReplyTo": "e2", "text": "hi"}); r["status"] != "sent" {
			t.Errorf("sending for an accepted turn gives %v", r)
		}
		w.sleep(2 * time.Minute)
		w.wantDispositions("e2 responded", "e1 failed")
		if len(w.stub.gone) != 1 || !strings.Contains(w.stub.gone[0], "deadline") {
			t.Errorf("cancelled: %q; want the first turn", w.stub.gone)
		}
	})
}

// TestDeadline_LeavesAcceptedTurnsTimeAfterARestart checks that the time during which the agent did not
// run does not count.
func TestDeadline_LeavesAcceptedTurnsTimeAfterARestart(t *testing.T) {
	opts := &agent.Options{Deadline: time.Minute, HarnessType: "c2a"}
	withFixture(t, newStub(accepting), opts, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "help me"))
		w.say(inThread(post("e2", "@lead hello"), "T1"))
		w.sleep(10 * time.Second)
		w.stop()
		w.sleep(10 * time.Minute)
		w.start()
		if r, _ := call(w.tools(), "chat.send_message", map[string]any{"inReplyTo": "e2", "text": "hi"}); r["status"] != "sent" {
			t.Errorf("sending for an accepted turn gives %v", r)
		}
		w.sleep(2 * time.Minute)
		w.wantDispositions("e2 responded", "e1 failed")
	})
}

func TestFailure_TemporaryIsRetried(t *testing.T) {
	tries := 0
	s := newStub(nil)
	s.turn = func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		if tries++; tries < 3 {
			return harness.Outcome{}, fmt.Errorf("status 503: %w", harness.ErrTemporary)
		}
		return harness.Outcome{State: harness.Finished, FinalText: "at last"}, nil
	}
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "help me"))
		w.sleep(time.Minute)
		w.wantTexts("at last")
		equal(t, "turns", w.turnStates(), []string{
			"e1 1 started", "e1 1 interrupted", "e1 2 started", "e1 2 interrupted", "e1 3 started", "e1 3 finished",
		})
	})
}

func TestFailure_AfterAnActionIsNotRetried(t *testing.T) {
	s := newStub(func(_ context.Context, _ *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		call(tools, "chat.react", map[string]any{"signal": "working"})
		return harness.Outcome{}, fmt.Errorf("status 503: %w", harness.ErrTemporary)
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "help me"))
		w.sleep(3 * time.Minute)
		if len(w.stub.seen()) != 1 {
			t.Errorf("%d turns; want 1", len(w.stub.seen()))
		}
		w.wantDispositions("e1 claimed", "e1 failed")
	})
}

func TestReaction_IsAcceptedOrRefusedByPolicy(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		want := map[string]string{
			"agree": "acknowledged", "working": "claimed", "queued": "deferred", "claimed": "claimed",
			"done": "responded", "declined": "ignored", "blocked": "deferred",
		}
		for signal, disposition := range want {
			w.say(dm(signal, "please do it"))
			w.sleep(3 * time.Second)
			r, _ := call(w.tools(), "chat.react", map[string]any{"inReplyTo": signal, "signal": signal})
			if r["disposition"] != disposition {
				t.Errorf("%s gives %v", signal, r)
			}
			call(w.tools(), "chat.react", map[string]any{"inReplyTo": signal, "signal": signal})
			w.sleep(time.Second)
			if got := w.dispositions(); got[len(got)-1] != signal+" "+disposition {
				t.Errorf("%s ends %s", signal, got[len(got)-1])
			}
			if r := w.replies[len(w.replies)-1]; r.Signal != signal || r.InReplyTo != signal {
				t.Errorf("the chat got %+v", r)
			}
		}
		if len(w.replies) != len(want) {
			t.Errorf("%d signals were sent; want %d, each once", len(w.replies), len(want))
		}
		for _, signal := range []string{"seen", "unclear"} {
			w.say(dm(signal, "please do it"))
			w.sleep(3 * time.Second)
			if r, _ := call(w.tools(), "chat.react", map[string]any{"inReplyTo": signal, "signal": signal}); r["disposition"] != nil {
				t.Errorf("%s gives %v", signal, r)
			}
		}
		open, _ := call(w.tools(), "chat.list_events", map[string]any{"open": true})
		var ids []string
		for _, e := range open["events"].([]any) {
			ids = append(ids, e.(map[string]any)["eventId"].(string))
		}
		if len(ids) != 6 || ids[len(ids)-1] != "unclear" {
			t.Errorf("open are %v; want working, claimed, queued, blocked, seen and unclear", ids)
		}
		if _, r := call(w.tools(), "chat.react", map[string]any{"inReplyTo": "unclear", "signal": "applause"}); !r.IsError {
			t.Error("an unknown signal is taken")
		}
	})
}

// TestReaction_ReportsTheRecordedDisposition reacts where the policy or an earlier end decides.
func TestReaction_ReportsTheRecordedDisposition(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "thanks"))
		w.say(by(dm("e2", "please do it"), "78", "human"))
		w.sleep(5 * time.Second)
		for _, c := range [][3]string{
			{"e1", "done", "acknowledged"}, {"e2", "working", "claimed"}, {"e2", "seen", "claimed"},
			{"e2", "declined", "ignored"}, {"e2", "done", "ignored"},
		} {
			r, _ := call(w.tools(), "chat.react", map[string]any{"inReplyTo": c[0], "signal": c[1]})
			if r["disposition"] != c[2] {
				t.Errorf("%s on %s gives %v; want %s", c[1], c[0], r, c[2])
			}
		}
		w.sleep(time.Second)
		w.wantDispositions("e1 acknowledged", "e2 claimed", "e2 ignored")
	})
}

func TestReaction_BeforeAnAnswerIsNotTheEnd(t *testing.T) {
	s := newStub(func(_ context.Context, _ *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		call(tools, "chat.react", map[string]any{"signal": "seen"})
		call(tools, "chat.send_message", map[string]any{"text": "here"})
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "help me"))
		w.sleep(5 * time.Second)
		w.wantTexts("signal seen", "here")
		w.wantDispositions("e1 responded")
	})
}

func TestReaction_ReceivedStartsNoTurn(t *testing.T) {
	withFixture(t, newStub(answering("fine")), nil, func(t *testing.T, w *fixture) {
		w.say(protocol.ChatMessage{
			SourceID: "r1", Event: "reaction", Signal: "agree", Chat: &protocol.Chat{ID: "42", Kind: "dm"},
			Author: &protocol.Author{ID: "77"}, ReplyTo: &protocol.ReplyTo{SourceID: "s1", Author: "agent:lead"},
		})
		w.sleep(5 * time.Second)
		if len(w.stub.seen()) != 0 {
			t.Fatal("a reaction began a turn")
		}
		w.wantDispositions("r1 ignored")
		w.say(dm("e1", "go on"))
		w.sleep(5 * time.Second)
		if turns := w.stub.seen(); len(turns) != 1 || !strings.Contains(turns[0].Prompt, "signal_to_you: the reaction agree") {
			t.Errorf("the next turn does not tell of it:\n%s", turns[0].Prompt)
		}
	})
}

func TestUnreadyHarness_HoldsEvents(t *testing.T) {
	s := newStub(answering("ready now"))
	s.ready = false
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "hello"))
		w.sleep(time.Minute)
		if len(w.records) != 0 || len(s.seen()) != 0 {
			t.Fatalf("something was decided before initialize: %v", w.records)
		}
		s.setReady(true)
		w.sleep(10 * time.Second)
		w.wantTexts("ready now")
	})
}

// TestUnreadyHarness_ReasonNamesTheExit checks that the reason says how the program ended.
func TestUnreadyHarness_ReasonNamesTheExit(t *testing.T) {
	s := newStub(answering("never"))
	s.ready = false
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "hello"))
		w.sleep(10 * time.Minute)
		w.wantDispositions("e1 failed")
		if last := w.records[len(w.records)-1]; last["reason"] != "the harness was not ready in time; it said: no key" {
			t.Errorf("the record is %v", last)
		}
	})
}

func TestInjection_FallsBackToASupportedMode(t *testing.T) {
	s := newStub(answering("never"))
	s.caps.Injection = harness.Injection{ToolMailbox: true}
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "hello"))
		w.sleep(10 * time.Second)
		if len(s.seen()) != 0 || w.records[0]["injection"] != "tool_mailbox" {
			t.Errorf("the decision is %v", w.records[0])
		}
		if r, _ := call(w.tools(), "chat.send_message", map[string]any{"inReplyTo": "e1", "text": "found it"}); r["status"] != "sent" {
			t.Errorf("an answer to an event of the mailbox gives %v", r)
		}
		w.sleep(time.Minute)
		w.wantDispositions("e1 responded")
	})
}

func TestClaim_NeedsOneAnswerInItsTurn(t *testing.T) {
	s := newStub(func(_ context.Context, _ *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		call(tools, "chat.claim", nil)
		call(tools, "chat.send_message", map[string]any{"text": "me"})
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, &agent.Options{Roles: []string{"backend-agents"}}, func(t *testing.T, w *fixture) {
		w.say(post("e1", "@backend-agents who can look?"))
		w.sleep(10 * time.Second)
		w.wantTexts("me")
		if n := len(s.seen()); n != 1 {
			t.Errorf("%d turns; want 1", n)
		}
		w.wantDispositions("e1 claimed", "e1 responded")
	})
}

// TestReaction_MeansAgreementOrDone checks that agreeing to a question from the agent begins a
// turn. A "done" closes what is open about the message, or about the message that the agent
// answered.
func TestReaction_MeansAgreementOrDone(t *testing.T) {
	react := func(w *fixture, id, signal, about, author string) {
		w.say(protocol.ChatMessage{
			SourceID: id, Event: "reaction", Signal: signal, Chat: &protocol.Chat{ID: "42", Kind: "dm"},
			Author: &protocol.Author{ID: "77"}, ReplyTo: &protocol.ReplyTo{SourceID: about, Author: author},
		})
		w.sleep(5 * time.Second)
	}
	s := newStub(func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		switch turn.Event.EventID {
		case "e1":
			return harness.Outcome{State: harness.Finished, FinalText: "Shall I deploy? Say yes or no."}, nil
		case "e2", "e3":
			call(tools, "chat.defer", map[string]any{"eta": "1h"})
		case "r1":
			call(tools, "chat.send_message", map[string]any{"text": "Deployed."})
		}
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "is it ready?"))
		w.sleep(5 * time.Second)
		status := protocol.DeliveryStatus{Status: protocol.StatusDelivered, IdempotencyKey: w.replies[0].IdempotencyKey, SourceID: "s1"}
		w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, status)
		w.sleep(time.Second)
		react(w, "r0", "agree", "s9", "agent:lead") // of no question that it knows
		react(w, "r1", "agree", "s1", "agent:lead")
		w.wantTexts("Shall I deploy? Say yes or no.", "Deployed.")
		if turns := w.stub.seen(); len(turns) != 2 || turns[1].Event.Knock == nil || !strings.Contains(turns[1].Event.Knock.Topic, "the reaction agree (approved: go on) to your question") {
			t.Errorf("%d turns", len(turns))
		}
		w.say(dm("e2", "water the plants"))
		w.sleep(5 * time.Second)
		w.say(dm("e3", "feed the cat"))
		w.sleep(5 * time.Second)
		react(w, "r2", "done", "e2", "")
		w.wantDispositions("e1 responded", "r0 ignored", "r1 responded", "e2 deferred", "e3 deferred", "e2 acknowledged", "r2 ignored")
	})
}

// TestInjection_IsDecidedAgainWithoutItsMode checks that the event from a program that came back
// without an injection mode is decided again, so that its author gets an answer.
func TestInjection_IsDecidedAgainWithoutItsMode(t *testing.T) {
	tries := 0
	s := newStub(nil)
	s.turn = func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		if tries++; tries == 1 {
			return harness.Outcome{}, fmt.Errorf("a turn: %w", harness.ErrModeUnsupported)
		}
		return harness.Outcome{State: harness.Finished, FinalText: "done"}, nil
	}
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "help me"))
		w.sleep(time.Minute)
		w.wantTexts("done")
		w.wantDispositions("e1 responded")
	})
}

// TestTurns_HungChatLeavesRoomForOthers checks that eight hanging threads of one chat get half of
// the turns, that waiting turns are recorded once, and that another chat is answered at once.
func TestTurns_HungChatLeavesRoomForOthers(t *testing.T) {
	s := newStub(nil)
	s.turn = func(ctx context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if tn.Chat == "tg:42" {
			return holding(ctx, tn, tools)
		}
		return answering("here")(ctx, tn, tools)
	}
	withFixture(t, s, &agent.Options{Deadline: 10 * time.Minute}, func(t *testing.T, w *fixture) {
		for i := range 8 {
			w.say(inThread(post(fmt.Sprint("e", i), "@lead look at this"), fmt.Sprint("T", i)))
			w.sleep(5 * time.Second)
		}
		w.sayIn("tg:43", in(dm("other", "are you there?"), "43", "dm"))
		w.sleep(10 * time.Second)
		w.wantTexts("here")
		waiting, started := 0, 0
		for _, state := range w.turnStates() {
			if strings.HasSuffix(state, " waiting") {
				waiting++
			}
			if strings.HasSuffix(state, " started") {
				started++
			}
		}
		if waiting != 4 || started != 5 {
			t.Errorf("%d turns wait on record, %d started: %q", waiting, started, w.turnStates())
		}
		w.sleep(20 * time.Minute)
		if n := len(s.seen()); n != 9 {
			t.Errorf("%d turns ran in the end, want 9", n)
		}
	})
}

// TestSignal_UnclearAsksAndSeenAnswersNothing checks that an unclear event stays open until its
// author writes again.
func TestSignal_UnclearAsksAndSeenAnswersNothing(t *testing.T) {
	s := newStub(func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		signal := map[string]string{"e1": "unclear", "e3": "seen"}[turn.Event.EventID]
		if signal == "" {
			return harness.Outcome{State: harness.Finished, FinalText: "It is open."}, nil
		}
		call(tools, "chat.react", map[string]any{"signal": signal})
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "is the thing there?"))
		w.sleep(10 * time.Minute)
		w.wantTexts("signal unclear", "I do not understand this. Could you say what you mean?")
		w.wantDispositions()
		w.say(dm("e2", "is the window open?"))
		w.sleep(5 * time.Second)
		w.wantDispositions("e1 superseded", "e2 responded")
		w.say(dm("e3", "and the door?"))
		w.sleep(5 * time.Second)
		w.wantDispositions("e1 superseded", "e2 responded", "e3 failed")
		if last := w.replies[len(w.replies)-1].Text; !strings.HasPrefix(last, "I could not answer") {
			t.Errorf("after a receipt alone the chat is told %q", last)
		}
	})
}

// TestSignal_UnclearHearsTheExplanationInAGroup checks that the author's next message, which names nobody, is the
// answer to what the agent asked.
func TestSignal_UnclearHearsTheExplanationInAGroup(t *testing.T) {
	s := newStub(func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if turn.Event.EventID != "e1" {
			return harness.Outcome{State: harness.Finished, FinalText: "It is open."}, nil
		}
		call(tools, "chat.react", map[string]any{"signal": "unclear"})
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(post("e1", "@lead is the thing there?"))
		w.sleep(time.Minute)
		w.wantTexts("signal unclear", "I do not understand this. Could you say what you mean?")
		w.say(post("e2", "I mean the window"))
		w.sleep(10 * time.Second)
		w.wantDispositions("e1 superseded", "e2 responded")
	})
}

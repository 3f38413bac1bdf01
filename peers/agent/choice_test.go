package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
	"hubbub/protocol/timetest"
)

// choosing asks with choices when it is told to deploy, and otherwise repeats its input.
func choosing(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	said := t.Event.Content[len(t.Event.Content)-1].Text
	if said == "deploy" {
		call(tools, "chat.ask_choice", map[string]any{"question": "Where to?", "choices": []string{"Staging", "ok"}})
		return harness.Outcome{State: harness.Finished}, nil
	}
	return harness.Outcome{State: harness.Finished, FinalText: "heard " + said}, nil
}

// TestChoices_AreAskedOnce checks that a repeated question is shown once, and that a reworded one
// is refused.
func TestChoices_AreAskedOnce(t *testing.T) {
	ask := map[string]any{"question": " Where to? ", "choices": []string{"Staging", strings.Repeat("ä", 32)}}
	s := newStub(func(_ context.Context, _ *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		many := strings.Split("a b c d e f g h i", " ")
		for _, c := range []struct {
			question string
			choices  []string
			why      string
		}{
			{"", many[:2], "question is empty"}, {"<think>hm</think>", many[:2], "nothing in it is for people"}, {strings.Repeat("x", 1001), many[:2], "1001 bytes; at most 1000"},
			{"?", many[:1], "1 choices; give between 2 and 8"}, {"?", many, "9 choices"}, {"?", []string{"a", ""}, "choice 2 must be one line of 1 to 64 bytes"},
			{"?", []string{"a\nb", "c"}, "choice 1 must be one line"}, {"?", []string{"a", strings.Repeat("x", 65)}, "choice 2"}, {"?", []string{"a", " b"}, "choice 2"},
			{"?", []string{"a", "b", "a"}, "choice 3 is a duplicate"}, {"?", []string{"dec_1:allow", "b"}, "choice 1 looks like a decision"},
			{"?", []string{"a", "<think>b</think>"}, "choice 2 has content that is not for people"},
		} {
			if m, r := call(tools, "chat.ask_choice", map[string]any{"question": c.question, "choices": c.choices}); !r.IsError || m["reason"] != "invalid" || !strings.Contains(r.Content[0].Text, c.why) {
				t.Errorf("%q %q: %+v; want %s", c.question, c.choices, r, c.why)
			}
		}
		for i, want := range []string{"sent", "duplicate"} {
			if m, r := call(tools, "chat.ask_choice", ask); r.IsError || m["status"] != want || m["messageId"] == "" {
				t.Errorf("%d: %+v", i, r)
			}
		}
		for _, other := range []map[string]any{{"question": "Where?", "choices": ask["choices"]}, {"question": "Where to?", "choices": []string{"a", "b"}}} {
			if m, _ := call(tools, "chat.ask_choice", other); m["reason"] != "already_answered" {
				t.Errorf("other words: %+v", m)
			}
		}
		if m, _ := call(tools, "chat.send_message", map[string]any{"text": "and more"}); m["reason"] != "already_answered" {
			t.Errorf("a message after it: %+v", m)
		}
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("1", "deploy"))
		w.sleep(10 * time.Second)
		if len(w.replies) != 1 || w.replies[0].Text != "Where to?" || len(w.replies[0].Buttons) != 2 || w.replies[0].Buttons[1].Value != strings.Repeat("ä", 32) || w.replies[0].InReplyTo != "1" {
			t.Errorf("asked %+v", w.replies)
		}
		w.wantDispositions("1 responded")
		m, r := call(w.tools(), "chat.read_thread", map[string]any{"conversation": "42"})
		if !strings.Contains(fmt.Sprint(m), "[Staging] [") {
			t.Errorf("the thread says %v %+v", m, r)
		}
	})
}

// TestAnswer_WaitsForStatusOfQuestion lets answers overtake the delivery_status of what they
// answer: a question with choices and a permission question. The agent takes them once it knows the
// question's id, and other messages at once.
func TestAnswer_WaitsForStatusOfQuestion(t *testing.T) {
	ran := 0
	for name, c := range map[string]struct {
		stub   *stub
		opts   *agent.Options
		answer string
		counts func(w *fixture) bool
	}{
		"a choice": {newStub(choosing), nil, "Staging", func(w *fixture) bool {
			return slices.ContainsFunc(w.replies, func(r protocol.ChatReply) bool {
				return r.Edits == w.replies[0].IdempotencyKey && strings.Contains(r.Text, "Chosen: Staging")
			})
		}},
		"a permission": {newStub(sensitive(&ran)), approving, "Yes, please!", func(w *fixture) bool {
			return fmt.Sprint(w.verdicts()) == "[allowed tg:77 once]"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, c.stub, c.opts, func(t *testing.T, w *fixture) {
				say := func(m protocol.ChatMessage, taken bool) {
					t.Helper()
					if r := w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, m); r.DeliveredTo == 1 != taken {
						t.Errorf("a reply to %s is taken: %+v; want %v", m.ReplyTo.SourceID, r, taken)
					}
					w.sleep(10 * time.Second)
				}
				w.say(dm("1", "deploy"))
				w.sleep(10 * time.Second)
				answer := inReply(dm("2", c.answer), "shown")
				say(answer, false)
				elsewhere := inReply(dm("3", "so what?"), "older")
				elsewhere.ReplyTo.Author = "tg:88"
				say(elsewhere, true)
				say(inReply(dm("4", "what is this?"), "1"), true)
				if c.counts(w) {
					t.Error("it counts before the agent took it")
				}
				w.shown(w.replies[0], "shown")
				if say(answer, true); !c.counts(w) {
					t.Errorf("it does not count: %+v, %v", w.replies, w.verdicts())
				}
			})
		})
	}
}

// TestAnswer_IsTakenWithoutStatusAfterAMinute withholds the delivery_status of
// a question.
func TestAnswer_IsTakenWithoutStatusAfterAMinute(t *testing.T) {
	withFixture(t, newStub(choosing), nil, func(t *testing.T, w *fixture) {
		w.say(dm("1", "deploy"))
		w.sleep(2 * time.Minute)
		w.say(inReply(dm("2", "Staging"), "shown"))
		w.sleep(10 * time.Second)
		if heard := w.replies[len(w.replies)-1].Text; heard != "heard Staging" {
			t.Errorf("the agent said %q", heard)
		}
	})
}

// TestReaction_WaitsForStatusOfMessage lets a thumb overtake the delivery_status of an answer, which
// the chat repeats with a delay after the agent was down. The agent takes the thumb once it knows the
// answer's id, or a minute after it could have learned it, and reactions to other messages at once.
func TestReaction_WaitsForStatusOfMessage(t *testing.T) {
	for name, c := range map[string]struct {
		before func(w *fixture)
		taken  bool
	}{
		"at once":        {func(*fixture) {}, false},
		"within seconds": {func(w *fixture) { w.sleep(30 * time.Second) }, false},
		"after a minute": {func(w *fixture) { w.sleep(2 * time.Minute) }, true},
		"after a night": {func(w *fixture) {
			w.stop()
			timetest.Advance(8 * time.Hour)
			w.start()
		}, false},
		"long after a restart": {func(w *fixture) {
			w.stop()
			w.start()
			w.sleep(2 * time.Minute)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, newStub(answering("Shall I deploy?")), nil, func(t *testing.T, w *fixture) {
				react := func(about, author string, taken bool) {
					t.Helper()
					m := dm("r-"+about, "👍")
					m.Event, m.Signal, m.ReplyTo = protocol.EventReaction, "agree", &protocol.ReplyTo{SourceID: about, Author: author}
					if r := w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, m); r.DeliveredTo == 1 != taken {
						t.Errorf("a thumb to %s is taken: %+v; want %v", about, r, taken)
					}
					w.sleep(5 * time.Second)
				}
				react("older", "", true) // no message waits for its status
				w.say(dm("1", "is it ready?"))
				w.sleep(5 * time.Second)
				c.before(w)
				react("1", "tg:77", true)
				react("shown", "agent:lead", c.taken)
				if c.taken {
					return
				}
				w.shown(w.replies[0], "shown")
				react("unknown", "", true)
				if react("shown", "agent:lead", true); len(w.stub.seen()) != 2 {
					t.Errorf("%d turns, not one for the thumb", len(w.stub.seen()))
				}
			})
		})
	}
}

// TestChoices_FirstOneCounts checks that the chosen answer replaces the question and reaches the
// agent, even where such words alone oblige nobody. Other words reach the agent and choose
// nothing.
func TestChoices_FirstOneCounts(t *testing.T) {
	reply := func(m protocol.ChatMessage) protocol.ChatMessage {
		m.ReplyTo = &protocol.ReplyTo{SourceID: "shown", Author: "agent:lead"}
		return m
	}
	forwarded := reply(dm("2", "Staging"))
	forwarded.Forwarded = "Ann"
	oddName := reply(dm("2", "ok"))
	oddName.Author.DisplayName = "W`[x](http://x)"
	for name, c := range map[string]struct {
		said   []protocol.ChatMessage
		chosen string
		heard  []string
		refuse int
	}{
		"by a button":       {[]protocol.ChatMessage{reply(dm("2", "Staging"))}, "Chosen: Staging (`Will`)", []string{"heard Staging"}, 0},
		"words of thanks":   {[]protocol.ChatMessage{dm("2", "hm"), reply(dm("3", "ok"))}, "Chosen: ok (`Will`)", []string{"heard hm", "heard ok"}, 0},
		"a name with marks": {[]protocol.ChatMessage{oddName}, "Chosen: ok (`W'[x](http://x)`)", []string{"heard ok"}, 0},
		"twice":             {[]protocol.ChatMessage{reply(dm("2", "Staging")), reply(dm("3", "Staging")), reply(dm("4", "ok"))}, "Chosen: Staging (`Will`)", []string{"heard Staging"}, 2},
		"something else":    {[]protocol.ChatMessage{reply(dm("2", "Stag"))}, "", []string{"heard Stag"}, 0},
		"not in reply":      {[]protocol.ChatMessage{dm("2", "Staging")}, "", []string{"heard Staging"}, 0},
		"forwarded":         {[]protocol.ChatMessage{forwarded}, "", []string{"heard Staging"}, 0},
		"a reaction":        {[]protocol.ChatMessage{reply(protocol.ChatMessage{SourceID: "2", Event: protocol.EventReaction, Signal: "done", Text: "Staging", Chat: dm("", "").Chat, Author: dm("", "").Author})}, "", nil, 0},
		"an agent's words":  {[]protocol.ChatMessage{reply(by(dm("2", "Staging"), "agent:w3", "agent"))}, "", []string{"heard Staging"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, newStub(choosing), nil, func(t *testing.T, w *fixture) {
				w.say(dm("1", "deploy"))
				w.sleep(10 * time.Second)
				w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, protocol.DeliveryStatus{Status: protocol.StatusDelivered, IdempotencyKey: w.replies[0].IdempotencyKey, SourceID: "shown"})
				for _, m := range c.said {
					w.say(m)
					w.sleep(10 * time.Second)
				}
				var chosen, heard []string
				for _, r := range w.replies[1:] {
					switch {
					case r.Edits == w.replies[0].IdempotencyKey:
						chosen = append(chosen, strings.TrimPrefix(r.Text, "Where to?\n\n"))
					case r.Text != "":
						heard = append(heard, r.Text)
					}
				}
				if got := strings.Join(chosen, "|"); got != c.chosen {
					t.Errorf("shown %q, want %q", got, c.chosen)
				}
				equal(t, "heard", heard, c.heard)
				if n := strings.Count(fmt.Sprint(w.refusals()), "chosen_before"); n != c.refuse {
					t.Errorf("refusals %v", w.refusals())
				}
			})
		})
	}
}

func TestChoices_AreTextWithoutButtons(t *testing.T) {
	withFixture(t, newStub(choosing), nil, func(t *testing.T, w *fixture) {
		gateway := w.bus.Join(t, "chorus:-9", "chorus:*")
		gateway.SendAs(t, "chorus:-9", "agent:lead", protocol.TypeChatMessage, dm("1", "deploy"))
		w.sleep(10 * time.Second)
		var r protocol.ChatReply
		for gateway.Pending() > 0 {
			if d := gateway.Next(t); d.Message.Type == protocol.TypeChatReply {
				if err := json.Unmarshal(d.Message.Content, &r); err != nil {
					t.Fatal(err)
				}
			}
		}
		if r.Text != "Where to?\n1. Staging\n2. ok" || r.Buttons != nil {
			t.Errorf("asked %+v", r)
		}
	})
}

package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// sensitive ends a turn with the result of a sensitive tool.
func sensitive(ran *int) func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return func(ctx context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
		if !t.Approver.Sensitive("shell") || t.Approver.Sensitive("read") || !t.Approver.Sensitive("mcp:deploy.run") {
			return harness.Outcome{}, errors.New("the patterns do not fit")
		}
		if err := t.Approver.Approve(ctx, "shell", json.RawMessage(`{"command":"make --password=hunter2","token":"ghp_0123456789abcdefghijABCDEFGHIJ012345","body":"{\"apiKey\":\"hunter2\"}"}`)); err != nil {
			return harness.Outcome{State: harness.Finished, FinalText: err.Error()}, context.Cause(ctx)
		}
		*ran++
		return harness.Outcome{State: harness.Finished, FinalText: "ran"}, nil
	}
}

var approving = &agent.Options{Approve: []string{"shell", "mcp:deploy.*"}}

// verdicts lists "state by scope" of the decisions on record.
func (w *fixture) verdicts() (list []string) {
	for _, r := range w.records {
		if r.is("decision") {
			list = append(list, fmt.Sprint(r["state"], " ", r["by"], " ", r["scope"]))
		}
	}
	return list
}

// asked returns the newest question to a person in the chat.
func (w *fixture) asked() (r protocol.ChatReply) {
	w.t.Helper()
	for _, one := range w.replies {
		if len(one.Buttons) > 0 {
			r = one
		}
	}
	if r.Text == "" {
		w.t.Fatalf("nothing was asked in the chat: %+v", w.replies)
	}
	return r
}

func TestDecision_PrecedesASensitiveTool(t *testing.T) {
	ran := 0
	withFixture(t, newStub(sensitive(&ran)), approving, func(t *testing.T, w *fixture) {
		w.say(dm("1", "deploy"))
		w.sleep(10 * time.Second)
		question := w.asked()
		if ran != 0 || !strings.Contains(question.Text, "shell") || strings.Contains(question.Text, "ghp_") || strings.Contains(question.Text, "hunter2") || !strings.Contains(question.Text, "make --password=") {
			t.Fatalf("ran %d times; asked %q", ran, question.Text)
		}
		w.say(by(dm("2", question.Buttons[0].Value), "66", "human"))
		w.sleep(10 * time.Second)
		if last := w.replies[len(w.replies)-1]; ran != 0 || !strings.Contains(last.Text, "tg:66 may not decide this; only `Will` may") {
			t.Fatalf("a stranger's click: ran %d times, told %q", ran, last.Text)
		}
		w.say(dm("3", question.Buttons[0].Value))
		w.say(dm("4", question.Buttons[0].Value))
		w.sleep(10 * time.Second)
		equal(t, "decisions", w.verdicts(), []string{"allowed tg:77 once"})
		if ran != 1 {
			t.Errorf("ran %d times", ran)
		}
		edited := 0
		for _, r := range w.replies {
			if r.Edits == question.IdempotencyKey && strings.Contains(r.Text, "allowed by `Will`") {
				edited++
			}
		}
		if edited != 1 {
			t.Errorf("the message was edited %d times", edited)
		}
		w.say(dm("5", question.Buttons[1].Value)) // too late
		w.say(dm("6", "dec_unknown:allow"))
		w.sleep(10 * time.Second)
		n := len(w.replies)
		if !strings.Contains(w.replies[n-2].Text, "no longer open: allowed by `Will`") || !strings.Contains(w.replies[n-1].Text, "has no such decision") {
			t.Errorf("told %q and %q", w.replies[n-2].Text, w.replies[n-1].Text)
		}
	})
}

// TestDecision_WithoutARequesterIsTheConfiguredPersons covers calls in turns that a hook or an
// agent began. Without such a person, nobody in the chat may decide.
func TestDecision_WithoutARequesterIsTheConfiguredPersons(t *testing.T) {
	ran := 0
	opts := *approving
	opts.Escalation.Person = "tg:88"
	withFixture(t, newStub(sensitive(&ran)), &opts, func(t *testing.T, w *fixture) {
		work := by(post("hook:ci:1", "> red"), "hook:ci", "system")
		work.Event = protocol.EventAssignment
		w.say(work)
		w.sleep(10 * time.Second)
		question := w.asked()
		w.say(by(post("2", question.Buttons[0].Value), "77", "human"))
		w.sleep(10 * time.Second)
		if last := w.replies[len(w.replies)-1]; ran != 0 || !strings.Contains(last.Text, "tg:77 may not decide") {
			t.Fatalf("ran %d times, told %q", ran, last.Text)
		}
		w.say(by(post("3", question.Buttons[0].Value), "88", "human"))
		w.sleep(10 * time.Second)
		equal(t, "decisions", w.verdicts(), []string{"allowed tg:88 once"})
		if ran != 1 || len(question.MayPress) != 1 || question.MayPress[0] != "tg:88" {
			t.Errorf("ran %d times; %q may press", ran, question.MayPress)
		}
	})
	withFixture(t, newStub(sensitive(&ran)), approving, func(t *testing.T, w *fixture) {
		work := by(post("hook:ci:1", "> red"), "hook:ci", "system")
		work.Event = protocol.EventAssignment
		w.say(work)
		w.sleep(10 * time.Second)
		if last := w.replies[len(w.replies)-1]; ran != 1 || len(last.Buttons) > 0 || !strings.Contains(last.Text, "hubbub decisions allow dec_") {
			t.Errorf("ran %d times, told %+v", ran, last)
		}
	})
}

// TestDecision_ShowsTheWholeCall checks that a person sees what a call does even if the call is
// long, begins with blanks, or contains invisible characters or characters that reverse the text.
func TestDecision_ShowsTheWholeCall(t *testing.T) {
	for name, c := range map[string]struct{ tool, arguments, see, not string }{
		"the whole":      {"shell", `{"command":"make"}`, "shell:\n```\n{\"command\":\"make\"}\n```", "do not see"},
		"all there is":   {"shell", `{"command":"` + strings.Repeat("x", 1986) + `"}`, `x"}`, "do not see"},
		"one byte more":  {"shell", `{"command":"` + strings.Repeat("x", 1987) + `"}`, "… and 1 more byte not shown here\n```", `x"}`},
		"at the end":     {"shell", `{"command":"make ` + strings.Repeat("x", 5000) + `; rm -rf ~"}`, "… and 3029 more bytes not shown here", "rm -rf"},
		"behind blanks":  {"shell", `{"command":"make",` + strings.Repeat(" \n", 5000) + `"then":"rm -rf ~"}`, `"make","then":"rm -rf ~"}`, "do not see"},
		"turned round":   {"shell", "{\"command\":\"make \u202e~ fr- mr\u2066\"}", `make \u202e~ fr- mr\u2066`, "\u202e"},
		"without a room": {"shell", "{\"command\":\"make \u200b\u2800\ufeff\u3164\U000e0041\"}", `make \u200b\u2800\ufeff\u3164\U000e0041`, "\u200b"},
		"a false end":    {"shell", "{\"command\":\"make```\"}", "shell:\n````\n{\"command\":\"make```\"}\n````", "'''"},
		"in the name":    {"mcp:\u202elleh\u3164s", `{}`, `run mcp:\u202elleh\u3164s`, "\u202e"},
		"no JSON":        {"shell", "make\n\n\u202e", `make\u000a\u000a\u202e`, "\u202e"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newStub(func(ctx context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
				err := t.Approver.Approve(ctx, c.tool, json.RawMessage(c.arguments))
				return harness.Outcome{State: harness.Finished, FinalText: fmt.Sprint(err)}, context.Cause(ctx)
			})
			withFixture(t, h, approving, func(t *testing.T, w *fixture) {
				w.say(dm("1", "deploy"))
				w.sleep(10 * time.Second)
				asked := w.asked()
				if seen := asked.Text + asked.Buttons[3].Text; !strings.Contains(seen, c.see) || strings.Contains(seen, c.not) {
					t.Errorf("asked %q", seen)
				}
			})
		})
	}
}

// TestDecision_ButtonCountsUnderItsOwnQuestion checks that an agent cannot show another agent's
// decision under its own text.
func TestDecision_ButtonCountsUnderItsOwnQuestion(t *testing.T) {
	for name, c := range map[string]struct {
		under   *protocol.ReplyTo
		want    []string
		unknown bool
	}{
		"its own":                {&protocol.ReplyTo{SourceID: "shown", Author: "agent:lead"}, []string{"allowed tg:77 once"}, false},
		"its own, not yet known": {&protocol.ReplyTo{SourceID: "later", Author: "agent:lead"}, []string{"allowed tg:77 once"}, false},
		"another agent's":        {&protocol.ReplyTo{SourceID: "other", Author: "agent:w3"}, nil, false},
		"another of its own":     {&protocol.ReplyTo{SourceID: "answer", Author: "agent:lead"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			greeting := func(ctx context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
				if turn.Event.EventID == "0" {
					return harness.Outcome{State: harness.Finished, FinalText: "hello"}, nil
				}
				return sensitive(&ran)(ctx, turn, tools)
			}
			withFixture(t, newStub(greeting), approving, func(t *testing.T, w *fixture) {
				deliver := func(r protocol.ChatReply, source string) {
					w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, protocol.DeliveryStatus{Status: protocol.StatusDelivered, IdempotencyKey: r.IdempotencyKey, SourceID: source})
				}
				w.say(dm("0", "hi"))
				w.sleep(10 * time.Second)
				deliver(w.replies[0], "answer")
				w.say(dm("1", "deploy"))
				w.sleep(10 * time.Second)
				asked := w.asked()
				if name != "its own, not yet known" {
					deliver(asked, "shown")
				}
				m := dm("2", asked.Buttons[0].Value)
				m.ReplyTo = c.under
				w.say(m)
				w.sleep(5 * time.Second)
				equal(t, "decisions", w.verdicts(), c.want)
				unknown := strings.Contains(w.replies[len(w.replies)-1].Text, "has no such decision")
				if unknown != c.unknown {
					t.Errorf("told %q", w.replies[len(w.replies)-1].Text)
				}
			})
		})
	}
}

func TestDecision_IsMadeByWordOrReaction(t *testing.T) {
	for name, c := range map[string]struct {
		say  func(w *fixture, shown string)
		want string
		ran  int
	}{
		"yes": {func(w *fixture, _ string) { w.say(dm("2", "Yes!")) }, "allowed tg:77 once", 1},
		"no":  {func(w *fixture, _ string) { w.say(dm("2", "no")) }, "denied tg:77 <nil>", 0},
		"thumb": {func(w *fixture, shown string) {
			m := dm("2", "👍")
			m.Event, m.Signal, m.ReplyTo = "reaction", "agree", &protocol.ReplyTo{SourceID: shown}
			w.say(m)
		}, "allowed tg:77 once", 1},
		"thumb down": {func(w *fixture, shown string) {
			m := dm("2", "👎")
			m.Event, m.Signal, m.ReplyTo = "reaction", "declined", &protocol.ReplyTo{SourceID: shown}
			w.say(m)
		}, "denied tg:77 <nil>", 0},
		"yes to a message of another chat": {func(w *fixture, _ string) {
			m := dm("2", "Yes!")
			m.ReplyTo = &protocol.ReplyTo{Name: "eve", Text: "Lunch?"}
			w.say(m)
		}, "", 0},
		"nobody": {func(w *fixture, _ string) { w.sleep(290 * time.Second) }, "expired default <nil>", 0},
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			withFixture(t, newStub(sensitive(&ran)), approving, func(t *testing.T, w *fixture) {
				w.say(dm("1", "deploy"))
				w.sleep(10 * time.Second)
				w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeDeliveryStatus, protocol.DeliveryStatus{
					Status: protocol.StatusDelivered, IdempotencyKey: w.asked().IdempotencyKey, SourceID: "shown",
				})
				c.say(w, "shown")
				w.sleep(20 * time.Second)
				if got := strings.Join(w.verdicts(), ", "); got != c.want {
					t.Errorf("decided %q; want %q", got, c.want)
				}
				if ran != c.ran {
					t.Errorf("ran %d times", ran)
				}
			})
		})
	}
}

// TestDecision_WordCountsForTheLatestQuestion lets the waiting program, or another agent of the
// chat, ask something harmless in between. The yes to that is not a verdict. A reaction in
// between changes nothing.
func TestDecision_WordCountsForTheLatestQuestion(t *testing.T) {
	coffee := map[string]any{"text": "Would you like a coffee?", "directedness": "ambient"}
	for name, c := range map[string]struct {
		meanwhile func(w *fixture, tools harness.Tools)
		decides   bool
	}{
		"nothing": {func(*fixture, harness.Tools) {}, true},
		"a message": {func(w *fixture, tools harness.Tools) {
			if _, r := call(tools, "chat.send_message", coffee); r.IsError {
				w.t.Error(r.Text())
			}
		}, false},
		"a reaction": {func(w *fixture, tools harness.Tools) {
			if _, r := call(tools, "chat.react", map[string]any{"signal": "working"}); r.IsError {
				w.t.Error(r.Text())
			}
		}, true},
		"another agent": {func(w *fixture, _ harness.Tools) {
			m := by(dm("2", "Would you like a coffee?"), "agent:other", "agent")
			m.Chat.Kind, m.Directedness = "channel", "ambient" // as the bridge passes it on
			w.say(m)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			var tools harness.Tools
			run := sensitive(&ran)
			h := newStub(func(ctx context.Context, t *harness.Turn, all harness.Tools) (harness.Outcome, error) {
				tools = all
				return run(ctx, t, all)
			})
			withFixture(t, h, approving, func(t *testing.T, w *fixture) {
				w.say(dm("1", "deploy"))
				w.sleep(10 * time.Second)
				c.meanwhile(w, tools)
				w.sleep(time.Second)
				w.say(dm("3", "yes"))
				w.sleep(10 * time.Second)
				if (ran == 1) != c.decides {
					t.Errorf("the word ran it %d times: %q", ran, w.verdicts())
				}
				w.say(dm("4", w.asked().Buttons[0].Value)) // the button still refers to the question above it
				w.sleep(10 * time.Second)
				if ran != 1 {
					t.Errorf("ran %d times: %q", ran, w.verdicts())
				}
			})
		})
	}
}

func TestDecision_ForTheSessionEndsWithIt(t *testing.T) {
	ran := 0
	withFixture(t, newStub(sensitive(&ran)), approving, func(t *testing.T, w *fixture) {
		w.say(dm("1", "deploy"))
		w.sleep(10 * time.Second)
		w.say(dm("2", w.asked().Buttons[2].Value))
		w.sleep(10 * time.Second)
		w.say(dm("3", "deploy again"))
		w.sleep(10 * time.Second)
		equal(t, "decisions", w.verdicts(), []string{"allowed tg:77 session", "allowed tg:77 session"})
		w.stop()
		w.start()
		w.say(dm("4", "deploy once more"))
		w.sleep(10 * time.Second)
		if got := w.verdicts(); ran != 2 || len(got) != 3 || got[2] != "revoked agent:lead session" {
			t.Errorf("ran %d times, %q", ran, got)
		}
		isRevocation := func(r protocol.ChatReply) bool {
			return strings.Contains(r.Text, "Decision: revoked by agent:lead for this session (it was allowed by `Will`; the agent was restarted)")
		}
		if !slices.ContainsFunc(w.replies, isRevocation) {
			t.Errorf("the chat was told %+v", w.replies)
		}
	})
}

func TestDecision_OutlivesARestartAndEndsWithItsTurn(t *testing.T) {
	ran, fail := 0, false
	s := newStub(nil)
	s.turn = func(ctx context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if !fail {
			return sensitive(&ran)(ctx, turn, tools)
		}
		died, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Second, func() { cancel(errors.New("the program died")) }) // with its request
		return harness.Outcome{}, errors.Join(turn.Approver.Approve(died, "shell", json.RawMessage(`{}`)), harness.ErrPermanent)
	}
	withFixture(t, s, approving, func(t *testing.T, w *fixture) {
		w.say(dm("1", "deploy"))
		w.sleep(10 * time.Second)
		first := w.asked()
		w.stop()
		w.start()
		w.sleep(10 * time.Second)
		if again := w.asked(); again.IdempotencyKey != first.IdempotencyKey || ran != 0 {
			t.Errorf("asked anew: %q, then %q", first.IdempotencyKey, again.IdempotencyKey)
		}
		w.say(dm("2", first.Buttons[0].Value))
		w.sleep(10 * time.Second)
		equal(t, "decisions", w.verdicts(), []string{"allowed tg:77 once"})
		fail = true
		w.say(dm("3", "deploy again"))
		w.sleep(10 * time.Second)
		if got := w.verdicts(); ran != 1 || len(got) < 2 || got[1] != "cancelled agent:lead <nil>" {
			t.Errorf("ran %d times, %q", ran, got)
		}
	})
}

func TestDecision_CoversQuestionsOfMCPServers(t *testing.T) {
	s := newStub(func(ctx context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
		if err := t.Approver.Approve(ctx, harness.ElicitPrefix+"deploy.run", json.RawMessage(`{"asks":"Sure?","answer":{}}`)); err != nil {
			return harness.Outcome{State: harness.Finished, FinalText: err.Error()}, context.Cause(ctx)
		}
		return harness.Outcome{State: harness.Finished, FinalText: "agreed"}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("1", "deploy"))
		w.sleep(10 * time.Second)
		if asked := w.asked().Text; !strings.HasPrefix(asked, "lead runs deploy.run, which asks before it continues:\n```\n") || !strings.Contains(asked, "Sure?") {
			t.Errorf("asked %q", asked)
		}
		w.say(dm("2", "yes"))
		w.sleep(10 * time.Second)
		w.wantTextsOnce("agreed")
		equal(t, "decisions", w.verdicts(), []string{"allowed tg:77 once"})
	})
}

// TestDecision_WordCountsInAChorusChannel checks that, where messages do not name the message they
// answer, only the requester's word decides. Where they do, it is a word like any other.
func TestDecision_WordCountsInAChorusChannel(t *testing.T) {
	for name, c := range map[string]struct {
		gateway protocol.PeerID
		kind    protocol.MessageType
		said    []protocol.ChatMessage
		want    []string
	}{
		"yes":            {"chorus:-9", protocol.TypeChatMessage, []protocol.ChatMessage{dm("2", "Yes.")}, []string{"allowed chorus:77 once"}},
		"no":             {"chorus:-9", protocol.TypeChatMessage, []protocol.ChatMessage{dm("2", "no")}, []string{"denied chorus:77 <nil>"}},
		"of a stranger":  {"chorus:-9", protocol.TypeChatMessage, []protocol.ChatMessage{by(dm("2", "yes"), "66", "human")}, nil},
		"of an agent":    {"chorus:-9", protocol.TypeChatMessage, []protocol.ChatMessage{by(dm("2", "yes"), "77", "agent")}, nil},
		"after an agent": {"chorus:-9", protocol.TypeChatMessage, []protocol.ChatMessage{by(dm("2", "Lunch?"), "agent:w3", "agent"), dm("3", "yes")}, nil},
		"in Telegram":    {"tg:-9", protocol.TypeTGMessage, []protocol.ChatMessage{dm("2", "yes")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ran := 0
			withFixture(t, newStub(sensitive(&ran)), approving, func(t *testing.T, w *fixture) {
				gateway := w.tg
				if c.kind == protocol.TypeChatMessage {
					gateway = w.bus.Join(t, c.gateway, "chorus:*")
				}
				say := func(m protocol.ChatMessage) {
					m.Chat = &protocol.Chat{ID: "-9", Kind: "channel"}
					gateway.SendAs(t, c.gateway, "agent:lead", c.kind, m)
					w.sleep(10 * time.Second)
				}
				first := dm("1", "lead, deploy")
				first.Mentions = []string{"agent:lead"}
				say(first)
				for _, m := range c.said {
					say(m)
				}
				equal(t, "decisions", w.verdicts(), c.want)
				if want := strings.Count(fmt.Sprint(c.want), "allowed"); ran != want {
					t.Errorf("ran %d times, want %d", ran, want)
				}
			})
		})
	}
}

// TestDecision_ReachesABrokerThatReturns covers a verdict that was given while the broker was
// away.
func TestDecision_ReachesABrokerThatReturns(t *testing.T) {
	ran := 0
	withFixture(t, newStub(sensitive(&ran)), approving, func(t *testing.T, w *fixture) {
		path := filepath.Join(t.TempDir(), "broker.db")
		stop := runBroker(t, w, path)
		w.sleep(35 * time.Second)
		w.say(dm("1", "deploy"))
		w.sleep(10 * time.Second)
		button := w.asked().Buttons[0].Value
		stop()
		w.say(dm("2", button))
		w.sleep(time.Minute)
		equal(t, "decisions", w.verdicts(), []string{"allowed tg:77 once"})
		defer runBroker(t, w, path)()
		w.sleep(2 * time.Minute)
		equal(t, "decisions", w.verdicts(), []string{"allowed tg:77 once"})
		cli := w.bus.Join(t, "cli:will.1", "cli:will.1")
		id, _, _ := strings.Cut(button, ":")
		cli.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, map[string]any{"requestId": "r1", "method": "decision.get", "params": map[string]any{"id": id}})
		if got := string(cli.Next(t).Raw); ran != 1 || !strings.Contains(got, `"state":"allowed"`) || !strings.Contains(got, `"by":"tg:77"`) {
			t.Errorf("ran %d times; the broker has %s", ran, got)
		}
	})
}

package agent_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// postInTurn posts to a target in each turn, and keeps the result as "status reason".
func postInTurn(results *[]string, arguments ...map[string]any) func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return func(_ context.Context, _ *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		for _, args := range arguments {
			m, _ := call(tools, "chat.post", args)
			*results = append(*results, fmt.Sprint(m["status"], " ", m["reason"]))
		}
		return harness.Outcome{State: harness.Finished, FinalText: "done"}, nil
	}
}

func words(target, text string) map[string]any {
	return map[string]any{"target": target, "text": text, "reason": "the build is over"}
}

// join assigns the agent to a chat.
func (w *fixture) join(chat protocol.PeerID) {
	w.t.Helper()
	if r := w.tg.SendAs(w.t, chat, "agent:lead", protocol.TypeConfigure, protocol.Configure{TalkTo: chat.Topic()}); r.DeliveredTo != 1 {
		w.t.Fatalf("configure: %+v", r)
	}
}

// TestPost_SpeaksFirst checks that an agent posts to a chat that it is assigned to, once per
// call, with a recorded reason, and obliges only those it names.
func TestPost_SpeaksFirst(t *testing.T) {
	var got []string
	s := newStub(postInTurn(&got,
		words("tg:43", "the build is green"), words("tg:43", "the build is green"), words("43", "@w3 please deploy"),
		map[string]any{"target": "tg:43", "text": "all is well", "reason": "asked to", "directedness": "to_my_role"},
		words("tg:44", "hello"), words("agent:w3", "hello"), words("collab:broker", "hello"), words("", "hello"), words("tg:43", "  "), words("tg:43", "(silence)"),
		map[string]any{"target": "tg:43", "text": "hello", "reason": " "},
		map[string]any{"target": "tg:43", "text": "the build is green", "reason": "again", "idempotencyKey": "2"},
	))
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.join("tg:43")
		w.say(dm("e1", "is it green?"))
		w.sleep(10 * time.Second)
		equal(t, "results", got, []string{
			"sent <nil>", "duplicate <nil>", "sent <nil>", "sent <nil>", "refused not_assigned", "refused not_assigned", "refused not_assigned",
			"refused invalid", "refused invalid", "refused silence", "refused invalid", "sent <nil>",
		})
		var said, why []string
		for _, r := range w.replies {
			if r.InReplyTo == "" { // the answer goes to another chat, and may come before
				said = append(said, r.Text+"|"+r.Directedness)
			}
		}
		equal(t, "said", said, []string{"the build is green|ambient", "@w3 please deploy|to_me", "all is well|to_my_role", "the build is green|ambient"})
		for _, r := range w.records {
			if r.is("post") {
				why = append(why, fmt.Sprint(r["eventId"], " ", r["target"], " ", r["reason"], " ", r["messageId"] != ""))
			}
		}
		equal(t, "records", why, []string{"e1 tg:43 the build is over true", "e1 tg:43 the build is over true", "e1 tg:43 asked to true", "e1 tg:43 again true"})
		w.wantDispositions("e1 responded")
	})
}

// TestPost_IsBoundedByADailyBudget checks that the budget holds across restarts and separately in
// each chat.
func TestPost_IsBoundedByADailyBudget(t *testing.T) {
	withFixture(t, newStub(silent), &agent.Options{Budget: &attention.Budget{ChatPosts: 2}}, func(t *testing.T, w *fixture) {
		w.join("tg:43")
		w.join("tg:44")
		try := func(target string, want ...string) {
			t.Helper()
			var got []string
			for range want {
				m, _ := call(w.tools(), "chat.post", words(target, fmt.Sprint("news ", time.Now().UnixNano())))
				got = append(got, fmt.Sprint(m["status"], " ", m["reason"]))
				w.sleep(time.Second)
			}
			equal(t, "results", got, want)
		}
		try("tg:43", "sent <nil>", "sent <nil>", "refused budget_posts")
		try("tg:44", "sent <nil>")
		w.stop()
		w.start()
		try("tg:43", "refused budget_posts")
		w.sleep(24 * time.Hour)
		try("tg:43", "sent <nil>")
		if len(w.replies) != 4 {
			t.Errorf("%d posts were sent", len(w.replies))
		}
		equal(t, "refusals", w.refusals(), []string{" chat.post budget_posts", " chat.post budget_posts"})
	})
}

// TestPost_IsForbiddenWhereAnAnswerIs covers a halt, a chat that was left, a held exchange of
// agents, and an event from another agent. In a channel, a post is allowed.
func TestPost_IsForbiddenWhereAnAnswerIs(t *testing.T) {
	var got []string
	s := newStub(silent)
	withFixture(t, s, &agent.Options{DigestEvery: time.Minute}, func(t *testing.T, w *fixture) {
		w.join("tg:43")
		try := func(want, target, text string) {
			t.Helper()
			if m, _ := call(w.tools(), "chat.post", words(target, text)); fmt.Sprint(m["status"], " ", m["reason"]) != want {
				t.Errorf("%s: %v; want %s", target, m, want)
			}
			w.sleep(time.Second)
		}
		halt := func(state string) {
			w.tg.SendAs(w.t, "tg:43", "agent:lead", protocol.TypeConfigure, protocol.Configure{TalkTo: "tg:43", Halt: state})
			w.sleep(time.Second)
		}
		halt("on")
		try("refused halted", "tg:43", "hello")
		halt("off")
		try("sent <nil>", "tg:43", "hello")

		channel := w.bus.Join(t, "chorus:in.c1", "chorus:*")
		if r := channel.Send(t, "agent:lead", protocol.TypeChatMessage, protocol.ChatMessage{Text: "is it green?"}); r.DeliveredTo != 1 {
			t.Fatalf("%+v", r)
		}
		w.sleep(10 * time.Second)
		try("sent <nil>", "chorus:in.c1", "hello")

		for i := range 12 {
			w.say(by(post(fmt.Sprint("a", i), "@lead "+fresh(i)+"?"), "agent:w3", "agent"))
			w.sleep(time.Minute)
		}
		try("refused exchange_held", "tg:42", "hello")
		w.say(post("p1", "@lead go away"))
		w.sleep(time.Minute)
		try("refused left", "tg:42", "hello")

		s.turn = postInTurn(&got, words("tg:42", "a word"))
		w.say(post("p2", "@lead come back"))
		w.sleep(time.Minute)
		equal(t, "once it is back", got, []string{"sent <nil>"})
	})
}

// TestPost_OfAProgramIsSentAgainLater posts the same words through the tools that programs reach over
// MCP, which name no turn: twice in a row, as a repeated call does, and later.
func TestPost_OfAProgramIsSentAgainLater(t *testing.T) {
	s := newStub(silent)
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.join("tg:43")
		again := func(tools harness.Tools, args map[string]any) {
			t.Helper()
			for _, want := range []string{"sent", "duplicate"} {
				if m, _ := call(tools, "chat.post", args); m["status"] != want {
					t.Errorf("%v gave %v; want %s", args, m, want)
				}
			}
		}
		inTurn := func(_ context.Context, _ *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
			again(w.agent.ToolsFor("tg:42"), words("tg:43", "in a turn"))
			return harness.Outcome{State: harness.Finished}, nil
		}
		for day := range 2 {
			again(w.tools(), words("tg:43", "stand-up"))
			w.sleep(9 * time.Minute) // to the next period
			if m, _ := call(w.tools(), "chat.post", words("tg:43", "stand-up")); m["status"] != "duplicate" {
				t.Errorf("a call that is repeated after 9 minutes gave %v", m)
			}
			w.sleep(2 * time.Minute)
			again(w.tools(), words("tg:43", "stand-up"))
			s.turn = inTurn
			w.say(post(fmt.Sprint("e", day), "@lead it is time"))
			w.sleep(24 * time.Hour)
		}
		posts := slices.DeleteFunc(w.replies, func(r protocol.ChatReply) bool { return r.InReplyTo != "" })
		if len(posts) != 6 {
			t.Errorf("%d posts; want 6: %+v", len(posts), posts)
		}
		keyed := words("tg:43", "stand-up")
		keyed["idempotencyKey"] = "monday"
		again(w.tools(), keyed)
		w.sleep(24 * time.Hour)
		if m, _ := call(w.tools(), "chat.post", keyed); m["status"] != "duplicate" {
			t.Errorf("a call with a key of its own gave %v", m)
		}
	})
}

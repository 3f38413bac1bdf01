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
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// TestSignal_DoneWithoutRecipientClosesNothing checks that an author's "done" without a recipient
// closes no obligation, at the agent or at the broker.
func TestSignal_DoneWithoutRecipientClosesNothing(t *testing.T) {
	withQuestions(t, newStub(silent), with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		w.say(waiting(dm("e1", "Is the deploy blocked?")))
		w.sleep(time.Minute)
		w.say(reaction("r1", "e1", "tg:77", "done", ""))
		w.sleep(time.Minute)
		if open := w.owed("agent:lead", ""); open != "lead: obligation open" {
			t.Errorf("after a done that names nobody, open is %q", open)
		}
		w.say(reaction("r2", "e1", "tg:77", "done", "agent:lead"))
		w.sleep(time.Minute)
		if open := w.owed("agent:lead", ""); open != "" {
			t.Errorf("after one that names the agent, open is %q", open)
		}
	})
}

// TestAsk_ObligesUntilThePersonClosesIt checks that /ask obliges its addressee until the person
// closes it. An ordinary message does not oblige, nor does a forwarded one, one from an agent, or
// one to an agent with an older draft.
func TestAsk_ObligesUntilThePersonClosesIt(t *testing.T) {
	forwarded := dm("f1", "/ask is it blocked?")
	forwarded.Forwarded = "Eve"
	for name, c := range map[string]struct {
		said    protocol.ChatMessage
		version attention.Version
		want    string
	}{
		"asked":            {dm("e1", "/ask is it blocked?"), attention.Version0811, "lead: obligation open"},
		"by name":          {mention(post("e1", "/ask@some_bot is it blocked?")), attention.Version0811, "lead: obligation open"},
		"on two lines":     {dm("e1", "/ASK\nis it blocked?"), attention.Version0811, "lead: obligation open"},
		"to nobody here":   {post("e1", "/ask is it blocked?"), attention.Version0811, ""},
		"nothing asked":    {dm("e1", "/ask"), attention.Version0811, ""},
		"said":             {dm("e1", "is it blocked? /ask"), attention.Version0811, ""},
		"forwarded":        {forwarded, attention.Version0811, ""},
		"by an agent":      {by(dm("e1", "/ask is it blocked?"), "agent:w3", "agent"), attention.Version0811, ""},
		"an older draft's": {dm("e1", "/ask is it blocked?"), attention.Version0624, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(answering("no"))
			withQuestions(t, s, &agent.Options{Version: c.version}, func(t *testing.T, w *fixture) {
				w.say(c.said)
				w.sleep(11 * time.Minute)
				if open, want := w.owed("agent:lead", ""), min(1, len(c.want)); open != c.want || len(s.returns()) != want {
					t.Errorf("open is %q, want %q; it came back %d times", open, c.want, len(s.returns()))
				}
				if c.want == "" {
					return
				}
				w.shown(w.replies[0], "answer")
				m := inReply(c.said, "answer")
				m.SourceID, m.Text, m.Event, m.Signal = "r1", "👍", "reaction", "agree"
				w.say(m)
				w.sleep(11 * time.Minute)
				if open := w.owed("agent:lead", ""); open != "" || len(s.returns()) != 1 {
					t.Errorf("after 👍 open is %q; it came back %d times", open, len(s.returns()))
				}
			})
		})
	}
}

// TestObligation_ReturnsDespiteLoopRules checks that an obligation to another agent returns despite a held
// exchange of agents, repeated words, or a chat that the agent has left.
func TestObligation_ReturnsDespiteLoopRules(t *testing.T) {
	n := 0
	s := newStub(func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if n++; !strings.HasPrefix(tn.Event.EventID, "return:") {
			call(tools, "chat.send_message", map[string]any{"text": fresh(n)})
		}
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		for i := range attention.ExchangeTotal {
			w.say(mention(by(post(fmt.Sprint("x", i), fresh(100+i)+"?"), "agent:w3", "agent")))
			w.sleep(10 * time.Second)
		}
		held := slices.ContainsFunc(w.records, func(r record) bool { return r.is("attention_decision") && r["reason"] == "exchange_held" })
		escalated := slices.ContainsFunc(w.records, func(r record) bool { return r.is("escalation") })
		if !held && !escalated {
			t.Fatal("the exchange was not held")
		}
		w.say(mention(post("leave", "@lead please leave")))
		w.sleep(10 * time.Second)
		m := waiting(by(post("e1", fresh(100)+"?"), "agent:w3", "agent")) // as said before
		w.say(m)
		w.sleep(31 * time.Minute)
		equal(t, "returns", s.returns(), halfAnHour)
	})
}

// TestEscalation_ReachesTheOwnerOfTheWork checks that, for an agent without a lead, an escalation goes to the
// owner of the event's work.
func TestEscalation_ReachesTheOwnerOfTheWork(t *testing.T) {
	withFixture(t, newStub(silent), with0811(attention.EscalationPolicy{Person: "tg:88"}), func(t *testing.T, w *fixture) {
		b := joinBroker(t, w)
		b.tell(t, "collab.delivery.woken", "evt-9", map[string]any{
			"deliveryId": "dlv-1", "rule": "explicit_mention", "senderId": "w3", "senderIdentity": "agent:w3", "senderKind": "agent",
			"message": map[string]any{
				"id": "m1", "conversationId": "c1", "authorId": "w3", "text": "is step 3 safe?", "createdAt": protocol.FormatTime(time.Now()),
				"obligation": map[string]any{"blocks": "halted"},
			},
			"workItem": map[string]any{"id": "wi-1", "title": "the release", "state": "open", "ownerId": "boss", "ownerIdentity": "agent:boss"},
		})
		w.sleep(41 * time.Minute)
		if got := strings.Join(w.obligations(), "\n"); !strings.Contains(got, "escalated to agent:boss") {
			t.Errorf("obligations are %s", got)
		}
		asked := b.requests("question.ask")
		if len(asked) != 1 || !strings.Contains(asked[0], `"askedOfId":"agent:boss"`) || !strings.Contains(asked[0], `"blocks":"halted"`) {
			t.Errorf("asked %q", asked)
		}
	})
}

// TestEscalation_AsksPeopleInTheConfiguredOrder checks that the order in which people wrote does
// not count, and that people who did not write there are not asked.
func TestEscalation_AsksPeopleInTheConfiguredOrder(t *testing.T) {
	withFixture(t, newStub(silent), with0811(attention.EscalationPolicy{}), func(t *testing.T, w *fixture) {
		configure := protocol.Configure{TalkTo: "tg:42", People: []protocol.PeerID{"tg:95", "tg:90", "tg:88"}}
		if r := w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeConfigure, configure); r.DeliveredTo != 1 {
			t.Fatal(r)
		}
		for _, who := range []string{"88", "90"} {
			w.say(by(post("hello "+who, "morning"), who, "human"))
		}
		w.say(waiting(mention(post("e1", "@lead is the deploy blocked?"))))
		w.sleep(41 * time.Minute)
		if got := strings.Join(w.obligations(), "\n"); !strings.Contains(got, "escalated to tg:90") {
			t.Errorf("obligations are %s", got)
		}
	})
}

// TestDecision_AboutBrokerWorkIsAskedInAChat checks work that no chat brought: the person of the
// settings decides with a button in their chat.
func TestDecision_AboutBrokerWorkIsAskedInAChat(t *testing.T) {
	ran := 0
	work := sensitive(&ran)
	s := newStub(func(ctx context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if tn.Event.EventID != "evt-9" {
			return harness.Outcome{State: harness.Finished, FinalText: "morning"}, nil
		}
		return work(ctx, tn, tools)
	})
	opts := *approving
	opts.Escalation.Person = "tg:77"
	withQuestions(t, s, &opts, func(t *testing.T, w *fixture) {
		w.say(dm("0", "good morning"))
		w.sleep(10 * time.Second)
		fact := protocol.CollabEvent{ID: "evt-9", Type: "collab.delivery.woken", Source: "collab:broker", Target: "agent:lead"}
		fact.Payload, _ = json.Marshal(map[string]any{
			"rule": "owner", "senderId": "w3", "senderIdentity": "agent:w3", "senderKind": "agent",
			"workItem": map[string]any{"id": "wi-1", "title": "deploy", "state": "open", "ownerId": "lead", "ownerIdentity": "agent:lead"},
		})
		cli := w.bus.Join(t, "cli:will.1")
		if r := cli.SendAs(t, "cli:will.1", "agent:lead", protocol.TypeCollabEvent, fact); r.DeliveredTo != 1 {
			t.Fatal(r)
		}
		w.sleep(10 * time.Second)
		question := w.asked()
		if ran != 0 || !slices.Equal(question.MayPress, []string{"tg:77"}) {
			t.Fatalf("ran %d times, asked %+v", ran, question)
		}
		if open := w.owed("tg:77", ""); open != "tg:77: decision pending" {
			t.Errorf("Will owes %q", open)
		}
		w.say(dm("1", question.Buttons[0].Value))
		w.sleep(10 * time.Second)
		equal(t, "decisions", w.verdicts(), []string{"allowed tg:77 once"})
		if last := w.replies[len(w.replies)-1]; ran != 1 || last.Edits != question.IdempotencyKey || !strings.Contains(last.Text, "allowed by `Will`") {
			t.Errorf("ran %d times, told %+v", ran, last)
		}
	})
}

package agent_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// joinAgent runs another agent on the bus of a fixture until the returned function stops it.
func joinAgent(w *fixture, id protocol.PeerID, s *stub, opts *agent.Options) (stop func()) {
	w.t.Helper()
	db, err := agent.Open(filepath.Join(w.t.TempDir(), "agent.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	opts.Peer = &peer.Options{Dial: w.bus.Dial, Token: "secret"}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- agent.New(id, db, s, opts).Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("%s ended: %v", id, err)
		}
		db.Close()
	}
}

// broken fails every turn permanently.
func broken(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return harness.Outcome{}, fmt.Errorf("%w: no such model", harness.ErrPermanent)
}

// escalations lists "agent level to reason" of the escalations, in order.
func (w *fixture) escalations() (list []string) {
	for _, r := range w.records {
		if _, of := r["rung"]; of && r.is("escalation") {
			how := r["reason"]
			if r["state"] == "answered" {
				how = "answered"
			}
			list = append(list, fmt.Sprintf("%s %s %s %v", r["agent"], r["rung"], r["to"], how))
		}
	}
	return list
}

const misconfiguredText = "I'm misconfigured and can't answer. Please tell whoever runs me; sending this again won't help."

// withLead starts a fixture in which agent:lead fails every turn and has agent:boss as its lead.
func withLead(t *testing.T, boss *stub, policy attention.EscalationPolicy, test func(t *testing.T, w *fixture)) {
	withQuestions(t, newStub(broken), &agent.Options{Escalation: policy}, func(t *testing.T, w *fixture) {
		defer joinAgent(w, "agent:boss", boss, &agent.Options{Escalation: attention.EscalationPolicy{Lead: "lead", Owner: "lead", Person: "lead"}})()
		w.sleep(35 * time.Second)
		test(t, w)
	})
}

// TestEscalation_LeadAnswersThroughTheAgent checks that the asked agent sends the lead's answer
// as its own, and that the author gets no notice of a failure.
func TestEscalation_LeadAnswersThroughTheAgent(t *testing.T) {
	boss := newStub(answering("no, it is not"))
	withLead(t, boss, attention.EscalationPolicy{Lead: "boss", Person: "tg:88"}, func(t *testing.T, w *fixture) {
		w.say(dm("1", "is the deploy"))
		w.say(dm("2", "blocked?"))
		w.sleep(time.Minute)
		w.wantTexts("agent:boss answers: no, it is not")
		equal(t, "escalations", w.escalations(), []string{"agent:lead lead agent:boss unanswered", "agent:lead lead agent:boss answered"})
		if said := boss.seen(); len(said) != 1 || !strings.Contains(said[0].Prompt, "> is the deploy\n> blocked?") || !strings.Contains(said[0].Prompt, "lead cannot answer Will") {
			t.Errorf("the lead was asked %+v", said)
		}
		if d := w.dispositions(); !slices.Contains(d, "2 responded") { // the lead's own event ends at the same moment
			t.Errorf("the event ended as %q", d)
		}
	})
}

// TestEscalation_AsksEachLevelOnce checks that a lead that cannot answer declines at once and
// asks nobody. A person in the chat has a time limit, which survives a restart, and only then the
// author is notified.
func TestEscalation_AsksEachLevelOnce(t *testing.T) {
	policy := attention.EscalationPolicy{Lead: "boss", Owner: "agent:boss", Person: "tg:88"}
	withLead(t, newStub(broken), policy, func(t *testing.T, w *fixture) {
		w.say(by(post("0", "morning"), "88", "human"))
		w.say(mention(post("1", "@lead is the deploy blocked?")))
		w.sleep(time.Minute)
		asked := []string{"agent:lead lead agent:boss unanswered", "agent:lead person tg:88 unanswered+lead_asked+owner_asked"}
		equal(t, "escalations", w.escalations(), asked)
		if q := w.questions(); len(q) != 1 || !strings.Contains(q[0], "> @lead is the deploy blocked?") || w.replies[0].InReplyTo != "0" {
			t.Errorf("the person was asked %q by %+v", q, w.replies)
		}
		w.stop()
		w.start()
		w.sleep(8 * time.Minute)
		equal(t, "rungs after a restart", w.escalations(), asked)
		w.sleep(3 * time.Minute)
		equal(t, "escalations in the end", w.escalations(), append(asked, "agent:lead author tg:77 unanswered+lead_asked+owner_asked+person_asked"))
		w.wantTextsOnce(misconfiguredText + " I asked boss and 88, but got no answer.")
		equal(t, "the question ends", w.questions()[1:], []string{
			"replied: lead cannot answer Will (the harness cannot run turns: no such model). Please answer instead; it will forward your answer. The message:\n> @lead is the deploy blocked?\n\nIt no longer needs an answer.",
		})
		w.sleep(time.Hour)
		if n := len(w.escalations()); n != 3 || len(w.replies) != 3 {
			t.Errorf("%d steps, and %d messages: %+v", n, len(w.replies), w.replies)
		}
	})
}

// mention names the agent of the fixture.
func mention(m protocol.ChatMessage) protocol.ChatMessage {
	m.Mentions = []string{"agent:lead"}
	return m
}

// TestEscalation_PersonAnswersWithoutABroker checks that only the asked person can answer in the
// chat, by a reply to the question.
func TestEscalation_PersonAnswersWithoutABroker(t *testing.T) {
	policy := attention.EscalationPolicy{Lead: "boss", Person: "tg:88"}
	withFixture(t, newStub(broken), &agent.Options{Escalation: policy}, func(t *testing.T, w *fixture) {
		w.say(by(post("0", "morning"), "88", "human"))
		w.say(mention(post("1", "@lead is the deploy blocked?")))
		w.sleep(time.Minute)
		equal(t, "escalations", w.escalations(), []string{"agent:lead person tg:88 unanswered+lead_unreached"})
		w.shown(w.replies[0], "shown")
		w.say(inReply(post("2", "I think so"), "shown"))
		w.say(by(inReply(post("3", "no"), "shown"), "88", "human"))
		w.say(by(inReply(post("4", "or is it"), "shown"), "88", "human"))
		w.sleep(time.Minute)
		w.wantTextsOnce("tg:88 answers: no")
		equal(t, "answers", w.escalations()[1:2], []string{"agent:lead person tg:88 answered"})
	})
}

// TestEscalation_SkipsALevelWithFiveQuestions checks that a level with five questions is skipped, and that an
// edit or a stop ends a question.
func TestEscalation_SkipsALevelWithFiveQuestions(t *testing.T) {
	policy := attention.EscalationPolicy{Person: "tg:88", Timeout: time.Hour}
	withFixture(t, newStub(broken), &agent.Options{Escalation: policy}, func(t *testing.T, w *fixture) {
		w.say(by(post("0", "morning"), "88", "human"))
		for i := range 6 {
			w.say(mention(post(fmt.Sprint("e", i), "@lead "+fresh(i)+"?")))
			w.sleep(time.Minute)
		}
		if n := len(w.questions()); n != 5 {
			t.Errorf("%d questions were asked", n)
		}
		w.wantTextsOnce(misconfiguredText)
		w.say(edit(mention(post("e0", "@lead never mind?")), "thanks", 2))
		w.sleep(time.Minute)
		w.say(mention(post("e7", "@lead what now?")))
		w.sleep(time.Minute)
		if list := w.escalations(); list[len(list)-1] != "agent:lead person tg:88 unanswered" {
			t.Errorf("the steps are %q", list)
		}
	})
}

// TestEscalation_BetweenTwoLeadsEnds checks that neither lead sends the other's question back to it.
func TestEscalation_BetweenTwoLeadsEnds(t *testing.T) {
	withLead(t, newStub(broken), attention.EscalationPolicy{Lead: "boss"}, func(t *testing.T, w *fixture) {
		w.say(dm("1", "is the deploy blocked?"))
		w.sleep(time.Hour)
		equal(t, "escalations", w.escalations(), []string{"agent:lead lead agent:boss unanswered", "agent:lead author tg:77 unanswered+lead_asked"})
		w.wantTexts(misconfiguredText + " I asked boss, but got no answer.")
	})
}

// TestEscalation_TakesLeadAndOwnerFromTheWork checks that the conversation's master and the
// item's owner are read from the broker, and that the answer returns to the chat of the question.
func TestEscalation_TakesLeadAndOwnerFromTheWork(t *testing.T) {
	boss := newStub(answering("no, it is not"))
	withLead(t, boss, attention.EscalationPolicy{}, func(t *testing.T, w *fixture) {
		cli := w.bus.Join(t, "cli:will.1", "cli:will.1")
		ask := func(method string, params map[string]any) {
			cli.Send(t, protocol.TopicBroker, protocol.TypeCollabRequest, map[string]any{"requestId": method, "method": method, "params": params})
			w.sleep(time.Minute)
		}
		ask("conversation.create", map[string]any{"id": "c1", "kind": "group", "title": "ops", "memberIds": []string{"agent:lead", "agent:boss"}, "masterId": "agent:boss"})
		ask("message.post", map[string]any{"conversationId": "c1", "text": "is the deploy blocked?", "surface": "human", "targets": []string{"agent:lead"}})
		ask("work_item.create", map[string]any{"id": "w1", "title": "unblock it", "ownerId": "agent:boss", "nextMoveOwnerId": "agent:lead", "wake": true})
		ask("conversation.get", map[string]any{"id": "c1"})
		equal(t, "escalations", w.escalations(), []string{
			"agent:lead lead agent:boss unanswered", "agent:lead lead agent:boss answered",
			"agent:lead owner agent:boss unanswered", "agent:lead owner agent:boss answered",
		})
		var got struct {
			Result struct{ Messages []struct{ Text string } }
		}
		for cli.Pending() > 0 {
			if d := cli.Next(t); strings.Contains(string(d.Message.Content), `"conversation.get"`) {
				got = content[struct {
					Result struct{ Messages []struct{ Text string } }
				}](t, d)
			}
		}
		if list := got.Result.Messages; len(list) != 2 || list[1].Text != "agent:boss answers: no, it is not" {
			t.Errorf("the conversation is %+v", list)
		}
	})
}

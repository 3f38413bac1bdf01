package agent_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// noAnswerToAgent is what an agent reads when it gets no answer.
const noAnswerToAgent = "I could not answer this message. Ask somebody else, or go on without it."

// TestFailure_IsReportedToTheAskingAgent checks that an agent is notified once per message,
// without an obligation, until it only repeats itself or a person was called in.
func TestFailure_IsReportedToTheAskingAgent(t *testing.T) {
	withFixture(t, newStub(silent), nil, func(t *testing.T, w *fixture) {
		for i, said := range []string{"is the north gate open?", "who has the key of the cellar?", "Who has the key of the cellar", "when does the last boat leave?"} {
			w.say(by(dm(fmt.Sprint("e", i), said), "agent:w3", "agent"))
			w.sleep(10 * time.Minute)
		}
		var notified []string
		for _, r := range w.replies {
			notified = append(notified, r.InReplyTo+" "+r.Directedness)
			if r.Text != noAnswerToAgent {
				t.Errorf("the agent is told %q", r.Text)
			}
		}
		equal(t, "told of", notified, []string{"e0 ambient", "e1 ambient", "e3 ambient"})
		w.wantDispositions("e0 failed", "e1 failed", "e2 failed", "e3 failed")

		w.replies = nil
		for i := range 12 {
			w.say(by(dm(fmt.Sprint("f", i), fresh(i)+"?"), "agent:w3", "agent"))
			w.sleep(10 * time.Minute)
		}
		calls := slices.IndexFunc(w.replies, func(r protocol.ChatReply) bool { return strings.HasPrefix(r.Text, "Two agents have been talking here") })
		if calls != 6 || len(w.replies) != 7 { // the limit counts the other agent's messages, four of which are above
			t.Errorf("a person is called by message %d of %d: %+v", calls, len(w.replies), w.replies)
		}
	})
}

// TestFailure_ReportsBetweenTwoAgentsEnd uses a chat that does not report whom a message obliges.
func TestFailure_ReportsBetweenTwoAgentsEnd(t *testing.T) {
	withFixture(t, newStub(silent), nil, func(t *testing.T, w *fixture) {
		w.say(by(dm("e0", "is the north gate open?"), "agent:w3", "agent"))
		for i := 0; ; i++ {
			w.sleep(10 * time.Minute)
			if i == len(w.replies) {
				break
			}
			w.say(by(dm(fmt.Sprint("n", i), w.replies[i].Text), "agent:w3", "agent")) // it fails, too
		}
		if len(w.replies) != 2 {
			t.Errorf("%d messages were said: %+v", len(w.replies), w.replies)
		}
	})
}

// TestFailure_OfAWokenAgentIsReported checks that the failure is reported to the requester, for each way
// to ask through the broker.
func TestFailure_OfAWokenAgentIsReported(t *testing.T) {
	withFixture(t, newStub(silent), nil, func(t *testing.T, w *fixture) {
		b := joinBroker(t, w)
		wake := func(id, sender string, more map[string]any) {
			more["deliveryId"], more["rule"], more["senderId"], more["senderKind"] = "dlv-"+id, "explicit_mention", sender, "agent"
			if sender == "will" {
				more["senderKind"] = "human"
			}
			b.tell(t, "collab.delivery.woken", id, more)
			w.sleep(10 * time.Second)
		}
		talk := func(id, kind, author string) map[string]any {
			return map[string]any{
				"message":      map[string]any{"id": id, "conversationId": "c-1", "authorId": author, "kind": kind, "text": id + " is it done?"},
				"conversation": map[string]any{"id": "c-1", "kind": "channel"},
			}
		}
		wake("ev-1", "w3", talk("m-1", "chat", "w3"))
		wake("ev-2", "will", talk("m-2", "chat", "will"))
		wake("ev-3", "w3", map[string]any{"question": map[string]any{"id": "q-1", "title": "what is it?", "state": "open"}})
		wake("ev-4", "w4", talk("m-4", "status", "w4"))

		var posts []string
		for _, raw := range b.requests("message.post") {
			var p struct {
				Text, Kind, InReplyTo string
				Targets               []string
			}
			json.Unmarshal([]byte(raw), &p)
			posts = append(posts, fmt.Sprint(p.Kind, " ", p.InReplyTo, p.Targets, " ", p.Text))
		}
		equal(t, "posts", posts, []string{
			"status m-1[w3] " + noAnswerToAgent, "status [] I could not answer this message. Please send it again, or ask somebody else.",
		})
		equal(t, "answers", b.requests("question.answer"), []string{`{"answer":"` + noAnswerToAgent + `","id":"q-1"}`})
		w.wantDispositions("ev-1 failed", "ev-2 failed", "ev-3 failed", "ev-4 ignored") // a report of a failure obliges nobody
		seen := w.stub.seen()
		if last := seen[len(seen)-1]; last.Event.EventID != "ev-4" || last.Event.Policy != string(attention.PolicyMayRespond) {
			t.Errorf("what another could not answer comes as %+v", last.Event)
		}
	})
}

// TestBudget_NotifiesAgentsOncePerChat checks one notice for each chat, each conversation of the
// broker and each question.
func TestBudget_NotifiesAgentsOncePerChat(t *testing.T) {
	withFixture(t, newStub(answering("yes")), &agent.Options{Budget: &attention.Budget{Turns: 1}}, func(t *testing.T, w *fixture) {
		b := joinBroker(t, w)
		for i := range 3 {
			w.say(by(dm(fmt.Sprint("e", i), fresh(i)+"?"), "agent:w3", "agent"))
			w.sleep(time.Minute)
		}
		if len(w.replies) != 2 || !strings.Contains(w.replies[1].Text, "a daily limit") {
			t.Errorf("the chat heard %+v", w.replies)
		}
		for i, c := range []string{"c-1", "c-1", "c-2"} {
			b.tell(t, "collab.delivery.woken", fmt.Sprint("ev-", i), map[string]any{
				"deliveryId": fmt.Sprint("dlv-", i), "rule": "explicit_mention", "senderId": "w4", "senderKind": "agent",
				"message":      map[string]any{"id": fmt.Sprint("m-", i), "conversationId": c, "authorId": "w4", "text": fresh(20+i) + "?"},
				"conversation": map[string]any{"id": c, "kind": "channel"},
			})
			b.tell(t, "collab.delivery.woken", fmt.Sprint("eq-", i), map[string]any{
				"deliveryId": fmt.Sprint("dlq-", i), "rule": "next_move_owner", "senderId": "w5", "senderKind": "agent",
				"question": map[string]any{"id": fmt.Sprint("q-", i), "title": fresh(40 + i), "state": "open"},
			})
			w.sleep(time.Minute)
		}
		if posts, answers := b.requests("message.post"), b.requests("question.answer"); len(posts) != 2 || len(answers) != 3 || !strings.Contains(answers[2], "a daily limit") {
			t.Errorf("posted %v, answered %v", posts, answers)
		}
	})
}

// TestExchange_ContinuesAfterAThumbsUp checks that the call that ends an exchange of agents is a
// question, and that agreeing to it starts a turn.
func TestExchange_ContinuesAfterAThumbsUp(t *testing.T) {
	s := newStub(silent)
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		for i := 0; len(w.replies) == 0 || !strings.HasPrefix(w.replies[len(w.replies)-1].Text, "Two agents have been talking here"); i++ {
			w.say(by(mention(post(fmt.Sprint("e", i), "@lead "+fresh(i)+"?\nand more")), "agent:w3", "agent"))
			w.sleep(10 * time.Second)
		}
		call := w.replies[len(w.replies)-1]
		if strings.Contains(call.Text, "u000a") {
			t.Errorf("the call is %q", call.Text)
		}
		before := len(s.seen())
		w.shown(call, "shown")
		w.say(protocol.ChatMessage{
			SourceID: "r1", Event: "reaction", Signal: "agree", ReplyTo: &protocol.ReplyTo{SourceID: "shown", Author: "agent:lead"},
			Chat: post("", "").Chat, Author: &protocol.Author{ID: "77", Kind: "human"},
		})
		w.sleep(10 * time.Second)
		if turns := s.seen()[before:]; len(turns) != 1 || turns[0].Event.Reason != "reaction_proceeds" {
			t.Errorf("after the thumbs-up: %+v", turns)
		}
	})
}

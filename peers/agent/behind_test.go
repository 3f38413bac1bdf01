package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
)

// inBroker returns a wake from agent w3 about a question.
func inBroker(id, state, behind string, more map[string]any) map[string]any {
	q := map[string]any{"id": id, "title": "what of it?", "state": state, "onBehalfOf": behind}
	for k, v := range more {
		q[k] = v
	}
	return map[string]any{"deliveryId": "dlv-" + id, "rule": "next_move_owner", "senderId": "w3", "senderIdentity": "agent:w3", "senderKind": "agent", "question": q}
}

// TestExchange_IgnoresQuestionsForAPerson checks that an agent answers questions from another
// agent if a person caused them. Otherwise it calls a person in where the asking agent reads it,
// and declines the rest until a person causes one.
func TestExchange_IgnoresQuestionsForAPerson(t *testing.T) {
	n := 0
	s := newStub(func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		n++
		return harness.Outcome{State: harness.Finished, FinalText: fresh(n)}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		b := joinBroker(t, w)
		asked := 0
		ask := func(n int, behind string) (turns, calls, declined int) {
			before, answers, no := len(s.seen()), len(b.requests("question.answer")), len(b.requests("question.decline"))
			for range n {
				asked++
				b.tell(t, "collab.delivery.woken", fmt.Sprint("evt-", asked), inBroker(fmt.Sprint("q-", asked), "open", behind, nil))
				w.sleep(2 * time.Minute)
			}
			for _, a := range b.requests("question.answer")[answers:] {
				if strings.Contains(a, "Two agents have been talking here") {
					calls++
				}
			}
			return len(s.seen()) - before, calls, len(b.requests("question.decline")) - no
		}
		if turns, calls, declined := ask(20, "tg:77"); turns != 20 || calls+declined != 0 {
			t.Errorf("for a person: %d turns, %d calls, %d declined", turns, calls, declined)
		}
		if turns, calls, declined := ask(20, ""); turns > attention.ExchangeTotal || calls != 1 || turns+calls+declined != 20 {
			t.Errorf("for nobody: %d turns, %d calls, %d declined", turns, calls, declined)
		}
		if turns, _, _ := ask(1, "tg:77"); turns != 1 {
			t.Error("a person's question is not answered after the call")
		}
	})
}

// TestExchange_AnswersRequestsForAPerson checks that requests to the broker name the person. However
// often they make the agent ask another, it gets each answer. If the two then continue without a
// person, they end with a call in the chat where the person reads.
func TestExchange_AnswersRequestsForAPerson(t *testing.T) {
	n := 0
	s := newStub(func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if n++; strings.HasPrefix(tn.Event.EventID, "e") && !strings.HasPrefix(tn.Event.EventID, "evt") {
			call(tools, "ask", map[string]any{"title": fresh(n) + "?", "askedOfId": "w3"})
			call(tools, "work.create", map[string]any{"title": "look", "ownerId": "w3", "nextMoveOwnerId": "w3"})
		}
		return harness.Outcome{State: harness.Finished, FinalText: fresh(n)}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		b := joinBroker(t, w)
		answer := func(i int) {
			b.tell(t, "collab.delivery.woken", fmt.Sprint("evt-", i), inBroker("q-1", "answered", "", map[string]any{"askedById": "lead", "answer": fresh(1000 + i)}))
			w.sleep(2 * time.Minute)
		}
		for i := range 20 {
			w.say(dm(fmt.Sprint("e", i), "ask w3"))
			w.sleep(time.Minute)
			answer(i)
		}
		if turns := len(s.seen()); turns != 40 {
			t.Errorf("%d turns for 20 questions and their answers", turns)
		}
		for _, method := range []string{"question.ask", "work_item.create"} {
			list := b.requests(method)
			if len(list) != 20 {
				t.Errorf("%d of %s", len(list), method)
			}
			for _, r := range list {
				if !strings.Contains(r, `"onBehalfOf":"tg:77"`) {
					t.Errorf("%s %s", method, r)
				}
			}
		}
		before := len(w.replies)
		for i := range 20 {
			answer(100 + i)
		}
		if turns := len(s.seen()) - 40; turns > attention.ExchangeTotal {
			t.Errorf("%d turns for what nobody asked", turns)
		}
		if said := w.replies[before:]; len(said) != 1 || !strings.HasPrefix(said[0].Text, "Two agents have been talking here") {
			t.Errorf("people read %+v", said)
		}
	})
}

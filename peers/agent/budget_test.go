package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"

	"github.com/rs/zerolog"
)

// costing answers, and takes tokens.
func costing(tokens int64) func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		return harness.Outcome{State: harness.Finished, FinalText: "yes", Usage: harness.Usage{InputTokens: tokens / 2, OutputTokens: tokens - tokens/2}}, nil
	}
}

// overBudget returns the events whose turns a budget prevented, with the reasons.
func (w *fixture) overBudget() (list []string) {
	for _, r := range w.records {
		if r.is("budget") {
			list = append(list, fmt.Sprint(r["eventId"], " ", r["reason"]))
		}
	}
	return list
}

// ask says something and waits until it has been handled.
func (w *fixture) ask(ids ...string) {
	for _, id := range ids {
		w.say(dm(id, "hello"))
		w.sleep(5 * time.Second)
	}
}

func TestBudget_LimitsOneAuthor(t *testing.T) {
	var lines strings.Builder
	log := zerolog.New(&lines)
	withFixture(t, newStub(answering("yes")), &agent.Options{Log: &log, Budget: &attention.Budget{AuthorTurns: 2}}, func(t *testing.T, w *fixture) {
		w.ask("e1", "e2", "e3", "e4")
		if got := lines.String(); strings.Count(got, "turns for one author (2); hubbub resume") != 1 {
			t.Errorf("its log has the bound not once:\n%s", got)
		}
		equal(t, "withheld", w.overBudget(), []string{"e3 budget_author_turns", "e4 budget_author_turns"})
		if len(w.stub.seen()) != 2 || len(w.replies) != 3 || !strings.Contains(w.replies[2].Text, "turns for one author (2)") {
			t.Errorf("%d turns ran, and the chat heard %v", len(w.stub.seen()), w.replies)
		}
		w.wantDispositions("e1 responded", "e2 responded", "e3 failed", "e4 failed")
		for _, r := range w.records {
			if (r.is("turn") || r.is("budget")) && r["chat"] != "tg:42" {
				t.Errorf("%v is on the account of %v", r["event"], r["chat"])
			}
		}

		w.stop() // the spent budget is stored
		w.start()
		w.ask("e5")
		w.say(by(dm("e6", "hello"), "78", "human")) // another author has another budget
		w.sleep(5 * time.Second)
		if len(w.stub.seen()) != 3 || len(w.replies) != 4 {
			t.Errorf("%d turns ran, and the chat heard %v", len(w.stub.seen()), w.replies)
		}

		if w.halt(w.tg, "tg:42", "tg:42", "anew") || w.halt(w.tg, "tg:42", "agent:lead", "anew") {
			t.Error("a chat had the budget counted anew")
		}
		operator := w.bus.Join(t, "cli:will")
		w.halt(operator, "cli:will", "agent:lead", "anew")
		equal(t, "halts", w.halts(), []string{"counted_anew agent:lead by Will <nil>"})
		w.ask("e7", "e8", "e9")
		if len(w.stub.seen()) != 5 || !strings.Contains(w.replies[len(w.replies)-1].Text, "hubbub resume agent:lead --budget") {
			t.Errorf("counted anew, %d turns ran, and the chat heard %v", len(w.stub.seen()), w.replies)
		}

		w.sleep(24 * time.Hour)
		w.ask("e10")
		if len(w.stub.seen()) != 6 || w.replies[len(w.replies)-1].Text != "yes" {
			t.Errorf("a day later %d turns ran, and the chat heard %v", len(w.stub.seen()), w.replies)
		}
	})
}

func TestBudget_HoldsInABurst(t *testing.T) {
	withFixture(t, newStub(answering("yes")), &agent.Options{Budget: &attention.Budget{ChatTurns: 3}}, func(t *testing.T, w *fixture) {
		for i := range 20 { // separate authors, so that the messages are not merged
			w.say(by(dm(fmt.Sprint("e", i), "hello"), fmt.Sprint("u", i), "human"))
		}
		w.sleep(time.Minute)
		if len(w.stub.seen()) != 3 || len(w.replies) != 4 || len(w.overBudget()) != 17 {
			t.Errorf("%d turns ran, %d were withheld, and the chat heard %v", len(w.stub.seen()), len(w.overBudget()), w.replies)
		}
	})
}

func TestBudget_LimitsTokens(t *testing.T) {
	withFixture(t, newStub(costing(60)), &agent.Options{Budget: &attention.Budget{ChatTokens: 100}}, func(t *testing.T, w *fixture) {
		w.ask("e1", "e2", "e3")
		equal(t, "withheld", w.overBudget(), []string{"e3 budget_chat_tokens"})
	})
}

// TestBudget_CountsARetriedTurnOnce checks that a turn that runs again is the same turn.
func TestBudget_CountsARetriedTurnOnce(t *testing.T) {
	failures := 0
	turn := func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		if failures++; failures <= 2 {
			return harness.Outcome{}, harness.ErrTemporary
		}
		return harness.Outcome{State: harness.Finished, FinalText: "yes"}, nil
	}
	withFixture(t, newStub(turn), &agent.Options{Budget: &attention.Budget{Turns: 1}}, func(t *testing.T, w *fixture) {
		w.ask("e1")
		w.sleep(time.Minute)
		w.wantTexts("yes")
		w.ask("e2")
		equal(t, "withheld", w.overBudget(), []string{"e2 budget_turns"})
	})
}

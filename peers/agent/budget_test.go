package agent_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/attention"
	"hubbub/protocol"

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

// TestBudget_CountsTokensOfEveryRun covers the runs that do not end their turn with an answer.
func TestBudget_CountsTokensOfEveryRun(t *testing.T) {
	usage := harness.Usage{InputTokens: 70, OutputTokens: 10}
	ending := func(text string, err error) func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		return func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
			return harness.Outcome{State: harness.Finished, FinalText: text, Usage: usage}, err
		}
	}
	var refused atomic.Bool
	refusingOnce := func(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if refused.Swap(true) {
			return silent(ctx, t, tools)
		}
		return harness.Outcome{Usage: usage}, harness.ErrModeUnsupported
	}
	stopped := func(ctx context.Context, turn *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
		if turn.Event.Text() == "work" {
			<-ctx.Done()
			return harness.Outcome{Usage: usage}, context.Cause(ctx)
		}
		return harness.Outcome{State: harness.Finished, FinalText: "yes"}, nil
	}
	for name, c := range map[string]struct {
		turn func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error)
		act  func(w *fixture)
		runs int64
	}{
		"failed":          {ending("", harness.ErrBudget), func(*fixture) {}, 1},
		"retried":         {ending("", harness.ErrTemporary), func(*fixture) {}, 3},
		"mode refused":    {refusingOnce, func(*fixture) {}, 1},
		"silent":          {ending("", nil), func(*fixture) {}, 2},
		"nothing visible": {ending("<think>hm</think>", nil), func(*fixture) {}, 2},
		"edited":          {stopped, func(w *fixture) { w.say(edit(dm("e1", "work"), "work less", 2)) }, 1},
		"stop word":       {stopped, func(w *fixture) { w.say(dm("e2", "stop")) }, 1},
		"deleted": {stopped, func(w *fixture) {
			m := dm("e1", "")
			m.Event = protocol.EventDelete
			w.say(m)
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			opts := &agent.Options{Budget: &attention.Budget{ChatTokens: 80}}
			withFixture(t, newStub(c.turn), opts, func(t *testing.T, w *fixture) {
				w.say(dm("e1", "work"))
				w.sleep(3 * time.Second)
				c.act(w)
				w.sleep(time.Minute)
				w.ask("last")
				if !slices.Contains(w.overBudget(), "last budget_chat_tokens") {
					t.Errorf("%q were withheld", w.overBudget())
				}
				recorded := int64(0)
				for _, r := range w.records {
					for _, member := range []string{"inputTokens", "outputTokens"} {
						n, _ := r[member].(float64)
						recorded += int64(n)
					}
				}
				if recorded != c.runs*80 {
					t.Errorf("the records have %d tokens, want %d", recorded, c.runs*80)
				}
			})
		})
	}
}

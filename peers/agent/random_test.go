package agent_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// randomModel plays a model that does anything at random.
func randomModel(r *rand.Rand, s *stub) func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
	return func(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		s.mu.Lock()
		choice, pause := r.IntN(10), time.Duration(r.IntN(8))*time.Second
		s.mu.Unlock()
		done := harness.Outcome{State: harness.Finished}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return done, context.Cause(ctx)
		}
		text := fmt.Sprintf("words on %s, attempt %d", t.Event.EventID, t.Attempt)
		switch choice {
		case 0:
			return done, fmt.Errorf("out of luck: %w", harness.ErrTemporary)
		case 1:
			return done, fmt.Errorf("out of money: %w", harness.ErrBudget)
		case 2:
			call(tools, "chat.react", map[string]any{"signal": []string{"seen", "working", "done", "declined", "unclear"}[len(t.Event.EventID)%5]})
		case 3:
			call(tools, "chat.send_message", map[string]any{"text": text})
			call(tools, "chat.send_message", map[string]any{"text": text + ", again", "idempotencyKey": "other " + text})
		case 4:
			call(tools, "chat.claim", nil)
		case 5:
			call(tools, "chat.resolve", nil)
		case 6:
			call(tools, "chat.send_message", map[string]any{"text": text})
			return done, fmt.Errorf("after the fact: %w", harness.ErrTemporary)
		case 7:
			<-ctx.Done()
			return done, context.Cause(ctx)
		default:
			done.FinalText = text
		}
		return done, nil
	}
}

// randomMessage returns a random chat event.
func randomMessage(r *rand.Rand, n int) protocol.ChatMessage {
	id := fmt.Sprint("e", n)
	texts := []string{"hello", "@lead look", "@backend-agents?", "thanks", "stop", "@lead leave", "lunch?", "@w3 hi", "@lead and?"}
	m := dm(id, texts[r.IntN(len(texts))])
	switch r.IntN(4) {
	case 0:
		m.Chat = &protocol.Chat{ID: "C1", Kind: "channel"}
	case 1:
		m.Chat = &protocol.Chat{ID: "C1", Kind: "thread", ThreadID: "T1"}
	}
	m.Author = []*protocol.Author{{ID: "77", Kind: "human"}, {ID: "78", Kind: "human"}, {ID: "agent:w3", Kind: "agent"}}[r.IntN(3)]
	if old := fmt.Sprint("e", r.IntN(n+1)); r.IntN(5) == 0 {
		m.SourceID, m.Event, m.Sequence = old, []string{"edit", "delete"}[r.IntN(2)], int64(n)
	}
	if r.IntN(12) == 0 {
		m.Event = "status"
	}
	return m
}

// TestRandomChat_EndsEachEventOnce sends a random chat to an agent with an erratic model,
// restarts the agent now and then, and checks the invariants. The variable HUBBUB_CHAOS_ROUNDS sets
// the number of rounds.
func TestRandomChat_EndsEachEventOnce(t *testing.T) {
	seeds := uint64(1)
	if more, err := strconv.ParseUint(os.Getenv("HUBBUB_CHAOS_ROUNDS"), 10, 32); err == nil {
		seeds = more
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			s := newStub(nil)
			s.turn = randomModel(rand.New(rand.NewPCG(seed, 8)), s)
			opts := &agent.Options{Roles: []string{"backend-agents"}, Deadline: 20 * time.Second, FirstRetry: time.Second}
			withFixture(t, s, opts, func(t *testing.T, w *fixture) {
				for n := range 20 {
					w.tg.SendAs(t, "tg:42", "agent:lead", protocol.TypeTGMessage, randomMessage(r, n))
					w.sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
					if r.IntN(10) == 0 {
						w.stop()
						w.start()
					}
				}
				w.sleep(time.Minute)
				checkEnds(t, w)
			})
		})
	}
}

func checkEnds(t *testing.T, w *fixture) {
	final := map[string][]string{}
	policy := map[string]string{}
	for _, r := range w.records {
		id := fmt.Sprint(r["eventId"])
		switch {
		case r.is("attention_decision"):
			policy[id] = fmt.Sprint(r["policy"])
		case r.is("disposition") && r["disposition"] != "claimed" && r["disposition"] != "deferred":
			final[id] = append(final[id], fmt.Sprint(r["disposition"]))
		}
	}
	result, _ := call(w.tools(), "chat.list_events", map[string]any{"limit": 200})
	for _, item := range result["events"].([]any) {
		e := item.(map[string]any)
		id := e["eventId"].(string)
		if len(final[id]) != 1 {
			t.Errorf("%s (%v) ended %v, and stands at %v", id, e["policy"], final[id], e["disposition"])
		}
	}
	texts := map[string]string{}
	for _, r := range w.replies {
		if r.Text == "" || strings.HasPrefix(r.Text, "Two agents have been") || strings.HasPrefix(r.Text, "I could not answer") {
			continue
		}
		id := strings.TrimSuffix(r.IdempotencyKey, ":reply")
		if before := texts[id]; before != "" && before != r.Text {
			t.Errorf("%s was answered %q and %q", id, before, r.Text)
		}
		texts[id] = r.Text
		if p := policy[id]; p == "must_not_respond" || p == "ack_only" {
			t.Errorf("%s was answered %q, and its policy is %s", id, r.Text, p)
		}
	}
}

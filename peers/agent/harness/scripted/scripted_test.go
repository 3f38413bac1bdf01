package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/scripted"
)

func turnOf(policy, text string) *harness.Turn {
	t := &harness.Turn{ID: "turn-1", Attempt: 1, Event: harness.Event{
		EventID: "evt_1", IdempotencyKey: "evt_1:agent_a",
		ChatEvent: harness.ChatEvent{Conversation: harness.Conversation{ID: "C1", Kind: "dm"}},
		Decision:  harness.Decision{Policy: policy, Directedness: "to_me", Mode: "buffered"},
	}}
	if text != "" {
		t.Event.Content = []harness.Part{{Type: "text", Text: text}}
	}
	return t
}

// TestRules checks, for each rule, which tools are called with which arguments.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		name, policy, text string
		want               []string // tool and, after a colon, the signal or claim
	}{
		{"ambient", "must_not_respond", "lunch?", nil},
		{"thanks as a receipt", "ack_only", "thanks!", []string{"chat.react:seen"}},
		{"question", "must_respond", "is the deploy blocked?", []string{"chat.send_message"}},
		{"work", "must_respond", "@lead Please work on the rollback", []string{"chat.react:working", "chat.react:done"}},
		{"later", "must_respond", "look at the logs later", []string{"chat.defer"}},
		{"unclear", "must_respond", "Fix it!", []string{"chat.react:unclear", "chat.send_message"}},
		{"declined", "must_respond", "sorry, not you", []string{"chat.react:declined"}},
		{"signal by name", "must_respond", "react queued", []string{"chat.react:queued"}},
		{"catch up", "must_respond", "what did I miss?", []string{"chat.list_events", "chat.list_events", "chat.send_message"}},
		{"recap", "must_respond", "recap please", []string{"chat.read_thread", "chat.send_message"}},
		{"silence when nothing is asked", "may_respond", "the build is green", nil},
		{"answer when asked", "may_respond", "who can look?", []string{"chat.send_message"}},
		{"discussion", "must_respond", "@lead discuss the launch with second", []string{"chat.send_message"}},
		{"anything else", "must_respond", "the sky is blue", []string{"chat.send_message"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tools := &harnesstest.Tools{}
			out, err := scripted.New(nil).Turn(t.Context(), turnOf(c.policy, c.text), tools)
			if err != nil || out.State != harness.Finished || out.FinalText != "" {
				t.Fatalf("outcome %+v, %v", out, err)
			}
			var got []string
			for _, call := range tools.Calls() {
				name := call.Name
				if s, ok := call.Arguments["signal"].(string); ok {
					name += ":" + s
				}
				got = append(got, name)
				if text, ok := call.Arguments["text"].(string); ok && !strings.Contains(text, scripted.Marker) {
					t.Errorf("%q does not say that no model wrote it", text)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("called %v, want %v", got, c.want)
			}
		})
	}
}

func TestTurn_IsDeterministic(t *testing.T) {
	first, second := &harnesstest.Tools{}, &harnesstest.Tools{}
	h := scripted.New(nil)
	for _, tools := range []*harnesstest.Tools{first, second} {
		if _, err := h.Turn(t.Context(), turnOf("must_respond", "why is it red?"), tools); err != nil {
			t.Fatal(err)
		}
	}
	a, _ := json.Marshal(first.Calls())
	b, _ := json.Marshal(second.Calls())
	if string(a) != string(b) || first.Calls()[0].Arguments["idempotencyKey"] != "evt_1:reply" {
		t.Errorf("%s\n%s", a, b)
	}
}

func TestTurn_AnswersADeferredEvent(t *testing.T) {
	for deferrals, want := range []string{"chat.defer", "chat.send_message"} {
		tools, turn := &harnesstest.Tools{}, turnOf("must_respond", "look at it later")
		turn.Deferrals = deferrals
		if _, err := scripted.New(nil).Turn(t.Context(), turn, tools); err != nil {
			t.Fatal(err)
		}
		if got := tools.Called(); !slices.Equal(got, []string{want}) {
			t.Errorf("after %d deferrals it calls %v", deferrals, got)
		}
	}
}

func TestTurn_ClaimsAKnockThatAsks(t *testing.T) {
	for body, want := range map[string][]string{
		"who can look at this?": {"chat.read_thread", "chat.claim"},
		"ok, noted":             {"chat.read_thread"},
	} {
		tools := &harnesstest.Tools{Answer: func(_ context.Context, c harnesstest.Call) (harness.Result, bool) {
			return harness.StructuredResult(map[string]any{"messages": []any{
				map[string]any{"eventId": "evt_0", "text": "help me please?"},
				map[string]any{"eventId": "evt_1", "text": body},
			}}), c.Name == "chat.read_thread"
		}}
		turn := turnOf("may_respond", "")
		turn.Event.Knock = &harness.Knock{From: "human:will", PullWith: "chat.read_thread"}
		if _, err := scripted.New(nil).Turn(t.Context(), turn, tools); err != nil {
			t.Fatal(err)
		}
		if got := tools.Called(); !slices.Equal(got, want) {
			t.Errorf("%q: called %v, want %v", body, got, want)
		}
	}
}

func TestTurn_ReturnsTextWithoutASendTool(t *testing.T) {
	tools := &harnesstest.Tools{Names: []string{"chat.react"}}
	out, err := scripted.New(nil).Turn(t.Context(), turnOf("must_respond", "are you there?"), tools)
	if err != nil || !strings.Contains(out.FinalText, "are you there?") || len(tools.Calls()) != 0 {
		t.Fatalf("%+v, %v, calls %v", out, err, tools.Called())
	}
}

func TestTurn_CanceledWorkIsNotDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("message was edited before response")
		ctx, cancel := context.WithCancelCause(t.Context())
		tools := &harnesstest.Tools{}
		time.AfterFunc(15*time.Second, func() { cancel(cause) })
		_, err := scripted.New(&scripted.Options{StepDelay: 10 * time.Second}).Turn(ctx, turnOf("must_respond", "work on it all"), tools)
		if !errors.Is(err, cause) {
			t.Errorf("err = %v, want the cause", err)
		}
		if got := tools.Called(); len(got) != 1 {
			t.Errorf("called %v, want the working reaction only", got)
		}
	})
}

func TestTurn_MergedFragmentsAreOneReply(t *testing.T) {
	turn := turnOf("must_respond", "when someone types")
	turn.Event.Content = append(turn.Event.Content, harness.Part{Type: "text", Text: "in pieces"})
	turn.Event.MergedEventIDs = []string{"evt_0", "evt_1"}
	tools := &harnesstest.Tools{}
	if _, err := scripted.New(nil).Turn(t.Context(), turn, tools); err != nil {
		t.Fatal(err)
	}
	calls := tools.Calls()
	if len(calls) != 1 || !strings.Contains(calls[0].Arguments["text"].(string), "2 pieces") {
		t.Errorf("%v", calls)
	}
}

func TestRun_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := scripted.New(nil).Run(ctx, harness.Host{}); err != nil {
		t.Fatal(err)
	}
}

// TestTurn_ReportsStepsOfWork checks for two reports, a pace apart, before the end.
func TestTurn_ReportsStepsOfWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var progress []string
		h := scripted.New(&scripted.Options{StepDelay: 10 * time.Second})
		h.Attach(harness.Host{Progress: func(p harness.Progress) {
			progress = append(progress, fmt.Sprintf("%v of %v in %s: %s", p.Progress, p.Total, p.TurnID, p.Message))
		}})
		from, tools := time.Now(), &harnesstest.Tools{}
		if _, err := h.Turn(t.Context(), turnOf("must_respond", "work on it all"), tools); err != nil {
			t.Fatal(err)
		}
		if want := []string{"1 of 2 in turn-1: working on it all", "2 of 2 in turn-1: working on it all"}; !slices.Equal(progress, want) {
			t.Errorf("told %q", progress)
		}
		if calls := tools.Calls(); len(calls) != 2 || calls[0].Arguments["signal"] != "working" || calls[1].Arguments["signal"] != "done" || time.Since(from) != 20*time.Second {
			t.Errorf("called %v in %v", calls, time.Since(from))
		}
	})
}

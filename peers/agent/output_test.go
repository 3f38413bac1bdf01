package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// output hands one output of the program to the agent.
func (w *fixture) output(o harness.Output) error {
	w.t.Helper()
	err := w.stub.host.Output(w.t.Context(), o)
	w.sleep(time.Second)
	return err
}

// TestOutput_OfATurnIsOneAnswer checks that the parts of a program's answer become one answer, in
// order with its reports. A repeated key changes nothing.
func TestOutput_OfATurnIsOneAnswer(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "how is the weather?"))
		w.sleep(3 * time.Second)
		turn := w.stub.seen()[0].ID
		w.collect()
		for i, o := range []harness.Output{
			{Report: &harness.Progress{Kind: harness.ProgressToolCall, Tool: "search", CallID: "1"}},
			{Text: "Cold."},
			{Text: "And cloudy."},
			{Report: &harness.Progress{Kind: harness.ProgressStatus, Message: "<think>secret</think>reading"}},
			{Report: &harness.Progress{Kind: harness.ProgressError, Message: "lost the rest", Code: "tool_error"}},
		} {
			o.TurnID, o.Key = turn, fmt.Sprint("k", i)
			for range 2 {
				if err := w.stub.host.Output(t.Context(), o); err != nil {
					t.Errorf("%+v: %v", o, err)
				}
			}
		}
		var got []string
		for range 5 {
			d := w.tg.Next(t)
			for d.Message.Type == protocol.TypeTGReply && content[protocol.ChatReply](t, d).Typing {
				d = w.tg.Next(t)
			}
			got = append(got, string(d.Message.Content))
		}
		want := []string{
			`{"event":"tool_call","inReplyTo":"e1","agent":"agent:lead","name":"search","id":"1"}`,
			`{"text":"Cold.","inReplyTo":"e1","idempotencyKey":"k1","visibility":"dm","directedness":"ambient"}`,
			`{"text":"And cloudy.","inReplyTo":"e1","idempotencyKey":"k2","visibility":"dm","directedness":"ambient"}`,
			`{"event":"status","inReplyTo":"e1","agent":"agent:lead","status":"reading"}`,
			`{"event":"error","inReplyTo":"e1","agent":"agent:lead","message":"lost the rest","code":"tool_error"}`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the chat got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		w.sleep(time.Second)
		w.wantDispositions("e1 responded")
	})
}

// TestOutput_ObeysPolicy checks that one sentence is enough to leave a thread, and that output for
// the words before an edit is refused and recorded.
func TestOutput_ObeysPolicy(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a", Deadline: time.Minute}, func(t *testing.T, w *fixture) {
		refused := func(o harness.Output, reason string) {
			t.Helper()
			var r *harness.RefusedError
			if err := w.output(o); !errors.As(err, &r) || r.Reason != reason {
				t.Errorf("%q: %v; want it refused as %s", o.Text, err, reason)
			}
		}
		w.say(dm("e1", "@lead please leave"))
		w.sleep(3 * time.Second)
		turn := w.stub.seen()[0].ID
		if err := w.output(harness.Output{TurnID: turn, Key: "1", Text: "Bye."}); err != nil {
			t.Error(err)
		}
		refused(harness.Output{TurnID: turn, Key: "2", Text: "One more thing"}, "left")
		refused(harness.Output{TurnID: "turn_none", Key: "3", Text: "hello"}, "unknown_turn")

		w.say(dm("e2", "@lead are you there?"))
		w.sleep(3 * time.Second)
		turn = w.stub.seen()[1].ID
		refused(harness.Output{TurnID: turn, Key: "4", Text: "of before", Stale: true}, "cancelled")
		w.collect()
		w.replies = nil
		for _, key := range []string{"5", "6"} {
			if err := w.output(harness.Output{TurnID: turn, Key: key, Report: &harness.Progress{Kind: harness.ProgressError, Message: "out of credit"}}); err != nil {
				t.Error(err)
			}
		}
		w.sleep(time.Second)
		w.collect()
		w.wantTexts("lead says that it failed: out of credit") // at once
		w.sleep(2 * time.Minute)
		w.collect()
		w.wantTexts("lead says that it failed: out of credit") // and once
		w.wantDispositions("e1 responded", "e2 failed")
		for _, r := range w.records {
			if r.is("disposition") && r["eventId"] == "e2" && r["reason"] != "error: out of credit" {
				t.Errorf("the record says %v", r)
			}
		}
	})
}

// TestOutput_TakesTheClaimOfItsEvent checks that a program's output for an event that several agents
// could answer takes the claim, once. If another agent holds the claim, the output is refused.
func TestOutput_TakesTheClaimOfItsEvent(t *testing.T) {
	withFixture(t, newStub(accepting), holder, func(t *testing.T, w *fixture) {
		b := joinBroker(t, w)
		w.say(post("e1", "@backend-agents who can look?"))
		w.sleep(time.Second)
		turn := w.turnOf("e1").ID
		if err := w.output(harness.Output{TurnID: turn, Key: "k0", Text: "of before", Stale: true}); err == nil || b.requests("claim.acquire") != nil {
			t.Errorf("what came too late claims %q: %v", b.requests("claim.acquire"), err)
		}
		for _, key := range []string{"k1", "k2"} {
			if err := w.output(harness.Output{TurnID: turn, Key: key, Text: "part " + key}); err != nil {
				t.Error(err)
			}
		}
		if got := b.requests("claim.acquire"); len(got) != 1 || !strings.Contains(got[0], `"eventId":"e1"`) {
			t.Errorf("claimed were %q", got)
		}
		w.wantTexts("part k1", "part k2")
		if w.replies[0].Claim == nil || w.replies[0].Claim.Token != 1 {
			t.Errorf("the first part carries %+v", w.replies[0].Claim)
		}
		b.mu.Lock()
		b.owners["e2"] = "w4"
		b.mu.Unlock()
		w.say(post("e2", "@backend-agents and this?"))
		w.sleep(time.Second)
		var refused *harness.RefusedError
		if err := w.output(harness.Output{TurnID: w.turnOf("e2").ID, Key: "k3", Text: "me"}); !errors.As(err, &refused) || refused.Reason != "claimed_by_other" {
			t.Errorf("an answer to what another has gives %v", err)
		}
		if len(w.replies) != 2 {
			t.Errorf("%d replies were sent", len(w.replies))
		}
	})
	withFixture(t, newStub(accepting), holder, func(t *testing.T, w *fixture) { // no other agent is present
		w.say(post("e1", "@backend-agents who can look?"))
		w.sleep(time.Second)
		if err := w.output(harness.Output{TurnID: w.turnOf("e1").ID, Key: "k1", Text: "me"}); err != nil {
			t.Error(err)
		}
		w.wantTexts("me")
		w.wantDispositions("e1 responded")
	})
}

// TestClaim_HoldsForItsTTL checks that a claim holds for the requested time, up to a day, or for
// the default.
func TestClaim_HoldsForItsTTL(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		0: 5 * time.Minute, -time.Second: 5 * time.Minute, time.Second: time.Second, 24 * time.Hour: 24 * time.Hour, 24*time.Hour + 1e6: 5 * time.Minute,
	} {
		withFixture(t, newStub(accepting), holder, func(t *testing.T, w *fixture) {
			w.say(post("e1", "@backend-agents who can look?"))
			w.sleep(time.Second)
			r, _ := call(w.tools(), "chat.claim", map[string]any{"eventId": "e1", "ttlMs": ttl.Milliseconds()})
			until, err := time.Parse(time.RFC3339, fmt.Sprint(r["expiresAt"]))
			if got := time.Until(until).Round(time.Second); err != nil || got != want {
				t.Errorf("a claim for %v holds %v, %v; want %v", ttl, got, err, want)
			}
		})
	}
}

// TestModelOutput_HidesThoughtsAndToolCalls checks that thoughts, calls of tools as text and copies
// of the prompt reach no chat, however a text arrives. If the answer has nothing else, the turn
// runs once more, with the reason for the model.
func TestModelOutput_HidesThoughtsAndToolCalls(t *testing.T) {
	const nothing = "<think>secret</think>\n<tool_call>{\"name\":\"secret\"}</tool_call>"
	answers := map[string][]string{
		"e1": {"<think>secret</think>\n\nIt is 4.\n<|im_end|>"},
		"e2": {nothing, "It is 5."},
		"e3": {nothing, nothing, "too late"},
	}
	var calls []harness.Result
	s := newStub(func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		id := turn.Event.EventID
		if id == "e4" {
			for _, text := range []string{nothing, "<thinking>secret</thinking>It is 6."} {
				_, result := call(tools, "chat.send_message", map[string]any{"text": text})
				calls = append(calls, result)
			}
			return harness.Outcome{State: harness.Finished}, nil
		}
		said := answers[id][0]
		answers[id] = answers[id][1:]
		return harness.Outcome{State: harness.Finished, FinalText: said}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		for _, id := range []string{"e1", "e2", "e3", "e4"} {
			w.say(dm(id, "what is "+id+"?"))
			w.sleep(time.Minute)
		}
		w.wantTexts("It is 4.", "It is 5.", "I could not answer this message. Please send it again, or ask somebody else.", "It is 6.")
		w.wantDispositions("e1 responded", "e2 responded", "e3 failed", "e4 responded")
		seen := w.stub.seen()
		if strings.Contains(seen[1].Prompt, "last_try") || !strings.Contains(seen[2].Prompt, "\nlast_try: What you wrote holds only thoughts") {
			t.Errorf("the second try was told\n%s\nand the first\n%s", seen[2].Prompt, seen[1].Prompt)
		}
		if len(calls) != 2 || !calls[0].IsError || !strings.Contains(calls[0].Content[0].Text, "plain words") || calls[1].IsError {
			t.Errorf("the tool said %+v", calls)
		}
	})
}

// TestOutput_HidesAThoughtInSeveralParts checks that the parts of an external agent's output are read as one
// text, so that no piece of a thought reaches the chat. The agent knows where the thought began.
// After an edit, reading starts over.
func TestOutput_HidesAThoughtInSeveralParts(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "how is the weather?"))
		w.sleep(3 * time.Second)
		turn := w.stub.seen()[0]
		for i, c := range []struct{ text, refused string }{
			{"Let me look.", ""}, {"<think>secret one", "was not closed"}, {"secret two", "was not closed"},
			{"secret three</think>\n\nIt is cold.", ""}, {"[TOOL_CALLS][{\"name\":", "begin your next text with </think>"}, {"</think>And cloudy.", ""},
		} {
			err := w.output(harness.Output{TurnID: turn.ID, Revision: turn.Event.Revision, Key: fmt.Sprint(i), Text: c.text})
			if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
				t.Errorf("%q: %v", c.text, err)
			}
		}
		w.wantTexts("Let me look.", "It is cold.", "And cloudy.")

		w.say(dm("e2", "and tomorrow?"))
		w.sleep(3 * time.Second)
		before := w.turnOf("e2")
		if w.output(harness.Output{TurnID: before.ID, Revision: before.Event.Revision, Key: "a", Text: "<think>of tomorrow"}) == nil {
			t.Error("a thought was taken")
		}
		w.say(edit(dm("e2", ""), "and on Monday?", 2))
		w.sleep(3 * time.Second)
		after := w.turnOf("e2")
		if err := w.output(harness.Output{TurnID: after.ID, Revision: after.Event.Revision, Key: "b", Text: "Warm."}); err != nil {
			t.Errorf("the answer to the new words: %v", err)
		}
		w.wantTexts("Let me look.", "It is cold.", "And cloudy.", "Warm.")
	})
}

package agent_test

import (
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
func (w *world) output(o harness.Output) error {
	w.t.Helper()
	err := w.stub.host.Output(w.t.Context(), o)
	w.sleep(time.Second)
	return err
}

// TestTheOutputOfATurnIsOneAnswer: what a program says of a turn in several parts is
// one answer, in order with what it reports; a repeated key changes nothing.
func TestTheOutputOfATurnIsOneAnswer(t *testing.T) {
	inWorld(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *world) {
		w.say(dm("e1", "how is the weather?"))
		w.sleep(3 * time.Second)
		turn := w.stub.seen()[0].ID
		w.collect()
		for i, o := range []harness.Output{
			{Report: &harness.Progress{Kind: harness.ProgressToolCall, Tool: "search", CallID: "1"}},
			{Text: "Cold."},
			{Text: "And cloudy."},
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
		for range 4 {
			d := w.tg.Next(t)
			for d.Message.Type == protocol.TypeTGReply && content[protocol.ChatReply](t, d).Typing {
				d = w.tg.Next(t)
			}
			got = append(got, string(d.Message.Content))
		}
		want := []string{
			`{"event":"tool_call","inReplyTo":"e1","agent":"agent:lead","name":"search","id":"1"}`,
			`{"text":"Cold.","inReplyTo":"e1","idempotencyKey":"k1"}`,
			`{"text":"And cloudy.","inReplyTo":"e1","idempotencyKey":"k2"}`,
			`{"event":"error","inReplyTo":"e1","agent":"agent:lead","message":"lost the rest","code":"tool_error"}`,
		}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the chat got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		w.sleep(time.Second)
		w.wantDispositions("e1 responded")
	})
}

// TestOutputObeysPolicy: one sentence is enough to leave, and what is for words of
// before an edit is refused and recorded.
func TestOutputObeysPolicy(t *testing.T) {
	inWorld(t, newStub(accepting), &agent.Options{HarnessType: "c2a", Deadline: time.Minute}, func(t *testing.T, w *world) {
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
		if err := w.output(harness.Output{TurnID: turn, Key: "5", Report: &harness.Progress{Kind: harness.ProgressError, Message: "out of credit"}}); err != nil {
			t.Error(err)
		}
		w.sleep(2 * time.Minute)
		w.wantDispositions("e1 responded", "e2 failed")
		for _, r := range w.records {
			if r.is("disposition") && r["eventId"] == "e2" && r["reason"] != "error: out of credit" {
				t.Errorf("the record says %v", r)
			}
		}
	})
}

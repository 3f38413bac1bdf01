package agent_test

import (
	"context"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// TestRepeatedMessage_OfAnAgentGetsOneTurn checks that the same text of the same agent gets one
// turn until a person writes. Other texts and other authors get turns.
func TestRepeatedMessage_OfAnAgentGetsOneTurn(t *testing.T) {
	said := func(id, author, text string) protocol.ChatMessage {
		m := post(id, text)
		m.Author = &protocol.Author{ID: author, Kind: "agent"}
		return m
	}
	answers := map[string]string{"e1": "Yes, it is.", "e3": "I told them already.", "e5": "Nothing changed since.", "e9": "Ann wrote one."}
	answering := func(_ context.Context, turn *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
		return harness.Outcome{State: harness.Finished, FinalText: answers[turn.Event.EventID]}, nil
	}
	withFixture(t, newStub(answering), nil, func(t *testing.T, w *fixture) {
		var want []string
		for _, step := range []struct {
			m    protocol.ChatMessage
			turn bool
		}{
			{said("e1", "agent:w3", "@lead is step 3 safe"), true},
			{said("e2", "agent:w3", "@lead is step 3 safe"), false},
			{said("e3", "agent:w4", "@lead is step 3 safe"), true},
			{post("e4", "carry on"), false},
			{said("e5", "agent:w3", "@lead is step 3 safe"), true},
			{said("e6", "agent:w3", "@lead is step 3 safe"), false},
			{post("e8", "go on"), false},
			{said("e9", "agent:w3", "@lead who has the rollback plan"), true},
		} {
			w.say(step.m)
			w.sleep(10 * time.Second)
			if step.turn {
				want = append(want, step.m.SourceID)
			}
		}
		var got []string
		for _, turn := range w.stub.seen() {
			got = append(got, turn.Event.EventID)
		}
		equal(t, "turns", got, want)
		for _, r := range w.records {
			if r.is("attention_decision") && r["eventId"] == "e2" && r["reason"] != "repeated" {
				t.Errorf("e2 was decided as %v", r)
			}
		}
	})
}

// TestRepeatedMessage_AfterAFailureIsAnswered checks that an author who repeats an unanswered message gets
// an answer.
func TestRepeatedMessage_AfterAFailureIsAnswered(t *testing.T) {
	failing := func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		return harness.Outcome{}, harness.ErrPermanent
	}
	withFixture(t, newStub(failing), nil, func(t *testing.T, w *fixture) {
		m := dm("e1", "is step 3 safe?")
		m.Author = &protocol.Author{ID: "agent:w3", Kind: "agent"}
		w.say(m)
		w.sleep(10 * time.Minute)
		before := len(w.stub.seen())
		m.SourceID = "e2"
		w.say(m)
		w.sleep(10 * time.Second)
		if len(w.stub.seen()) == before {
			t.Error("the repeated message got no turn, and the first one failed")
		}
	})
}

package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// interim calls chat.send_message with interim, and returns the result.
func interim(tools harness.Tools, event, text string) string {
	got, _ := call(tools, "chat.send_message", map[string]any{"inReplyTo": event, "text": text, "interim": true})
	status, _ := got["status"].(string)
	reason, _ := got["reason"].(string)
	return strings.TrimSpace(status + " " + reason)
}

// edits lists "text<-what it edits" of the replies.
func (w *fixture) edits() (list []string) {
	for _, r := range w.replies {
		list = append(list, r.Text+"<-"+r.Edits)
	}
	return list
}

// TestInterim_IsReplacedByTheAnswer checks that an event has one interim message, which may be
// updated. The answer replaces it, and no interim message follows the answer.
func TestInterim_IsReplacedByTheAnswer(t *testing.T) {
	long := strings.Repeat("x", 1001)
	turn := func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		var got []string
		for _, text := range []string{long, "<think>hm</think>", " ", long[1:], long[1:], "other words"} {
			got = append(got, interim(tools, "", text))
		}
		want := []string{"refused invalid", "refused not_for_people", "refused invalid", "sent", "duplicate", "refused interim_sent"}
		equal(t, "results", got, want)
		if r, _ := call(tools, "chat.send_message", map[string]any{"text": "keyed", "interim": true, "idempotencyKey": "k"}); r["reason"] != "interim_sent" {
			t.Errorf("with a key: %v", r)
		}
		if r, _ := call(tools, "chat.send_message", map[string]any{"text": long[1:], "interim": true, "idempotencyKey": "k"}); r["status"] != "duplicate" {
			t.Errorf("again with a key: %v", r)
		}
		if r, _ := call(tools, "chat.send_message", map[string]any{"text": "the key of it", "idempotencyKey": "interim:e1"}); r["reason"] != "key_reused" {
			t.Errorf("its key was taken: %v", r)
		}
		if r, _ := call(tools, "chat.send_message", map[string]any{"text": "elsewhere", "interim": true, "target": "99"}); turn.Event.EventID == "e1" && r["reason"] != "interim_sent" {
			t.Errorf("elsewhere: %v", r)
		}
		if r, _ := call(tools, "chat.send_message", map[string]any{"text": "It is 4."}); r["status"] != "sent" {
			t.Errorf("the answer: %v", r)
		}
		equal(t, "after the answer", []string{interim(tools, "", "one more")}, []string{"refused interim_sent"})
		return harness.Outcome{State: harness.Finished}, nil
	}
	withFixture(t, newStub(turn), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "what is 2+2?"))
		w.sleep(10 * time.Second)
		equal(t, "replies", w.edits(), []string{long[1:] + "<-", "It is 4.<-interim:e1"})
		for _, r := range w.replies {
			if r.InReplyTo != "e1" || r.Visibility != "dm" {
				t.Errorf("%+v", r)
			}
		}
		w.wantDispositions("e1 responded")
	})
}

// TestInterim_ObeysTheRulesOfAnAnswer also checks that an earlier reaction remains.
func TestInterim_ObeysTheRulesOfAnAnswer(t *testing.T) {
	turn := func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if turn.Event.EventID == "e2" {
			equal(t, "elsewhere", []string{func() string {
				r, _ := call(tools, "chat.send_message", map[string]any{"text": "elsewhere", "interim": true, "target": "99"})
				reason, _ := r["reason"].(string)
				return reason
			}()}, []string{"wrong_target"})
			equal(t, "of no event", []string{interim(tools, "nowhere", "x")}, []string{"refused unknown_event"})
			equal(t, "of an ambient one", []string{interim(tools, "e1", "x")}, []string{"refused must_not_respond"})
		}
		return harness.Outcome{State: harness.Finished, FinalText: "Yes."}, nil
	}
	withFixture(t, newStub(turn), nil, func(t *testing.T, w *fixture) {
		w.say(post("e1", "lunch, everybody?"))
		w.sleep(5 * time.Second)
		w.say(post("e2", "@lead are you coming?"))
		w.sleep(10 * time.Second)
		equal(t, "replies", w.edits(), []string{"Yes.<-"})
	})
}

// TestInterim_DoesNotPreventARetry checks that an interim message is not an outbound
// action, and that the sentence for a missing answer replaces it.
func TestInterim_DoesNotPreventARetry(t *testing.T) {
	var results []string
	fails := true
	turn := func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		results = append(results, interim(tools, "", "Looking."))
		if fails {
			return harness.Outcome{}, errors.Join(harness.ErrTemporary, errors.New("gone"))
		}
		return harness.Outcome{State: harness.Finished, FinalText: "Found."}, nil
	}
	withFixture(t, newStub(turn), &agent.Options{MaxAttempts: 2}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "where is it?"))
		w.sleep(time.Minute)
		equal(t, "results", results, []string{"sent", "duplicate"})
		if got := w.edits(); len(got) != 2 || got[0] != "Looking.<-" || !strings.HasSuffix(got[1], "<-interim:e1") {
			t.Errorf("replies are %q", got)
		}
		w.wantDispositions("e1 failed")

		fails = false
		w.say(dm("e2", "and now?"))
		w.sleep(time.Minute)
		if got := w.edits(); len(got) != 4 || got[3] != "Found.<-interim:e2" {
			t.Errorf("replies are %q", got)
		}
	})
}

// TestInterim_IsReplacedByTheAnswerToAnEdit checks that an edited message keeps its one interim
// message.
func TestInterim_IsReplacedByTheAnswerToAnEdit(t *testing.T) {
	var results []string
	turn := func(ctx context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		results = append(results, interim(tools, "", "Looking."))
		if len(results) > 1 {
			return harness.Outcome{State: harness.Finished, FinalText: "6"}, nil
		}
		<-ctx.Done()
		return harness.Outcome{}, context.Cause(ctx)
	}
	withFixture(t, newStub(turn), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "what is 2+2?"))
		w.sleep(5 * time.Second)
		w.say(edit(dm("e1", ""), "what is 3+3?", 2))
		w.sleep(time.Minute)
		equal(t, "results", results, []string{"sent", "duplicate"})
		equal(t, "replies", w.edits(), []string{"Looking.<-", "6<-interim:e1"})
	})
}

// TestInterim_IsReplacedByTheFirstPart checks that the later parts of an answer follow as
// messages.
func TestInterim_IsReplacedByTheFirstPart(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a"}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "how is the weather?"))
		w.sleep(3 * time.Second)
		turn := w.stub.seen()[0].ID
		equal(t, "interim", []string{interim(w.tools(), "e1", "Looking.")}, []string{"sent"})
		for _, text := range []string{"Cold.", "And cloudy."} {
			if err := w.output(harness.Output{TurnID: turn, Key: text, Text: text}); err != nil {
				t.Error(err)
			}
		}
		equal(t, "replies", w.edits(), []string{"Looking.<-", "Cold.<-interim:e1", "And cloudy.<-"})
	})
}

// TestInterim_IsAStatusForAService checks this for a service, to which each reply is an answer.
func TestInterim_IsAStatusForAService(t *testing.T) {
	turn := func(_ context.Context, _ *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		equal(t, "interim", []string{interim(tools, "", "Looking.")}, []string{"sent"})
		return harness.Outcome{State: harness.Finished, FinalText: "Found."}, nil
	}
	withFixture(t, newStub(turn), nil, func(t *testing.T, w *fixture) {
		gateway := w.bus.Join(t, "chorus:-9", "chorus:*")
		gateway.SendAs(t, "chorus:-9", "agent:lead", protocol.TypeChatMessage, dm("e1", "where is it?"))
		w.sleep(10 * time.Second)
		var got []string
		for gateway.Pending() > 0 {
			d := gateway.Next(t)
			if c := string(d.Message.Content); !strings.Contains(c, `"typing"`) {
				got = append(got, string(d.Message.Type)+" "+c)
			}
		}
		want := []string{
			`agent_event {"event":"status","inReplyTo":"e1","status":"Looking."}`,
			`chat_reply {"text":"Found.","inReplyTo":"e1","idempotencyKey":"e1:reply","visibility":"dm","directedness":"ambient"}`,
		}
		equal(t, "the service got", got, want)
	})
}

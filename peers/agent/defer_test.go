package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/protocol"
)

// deferring puts its events off until they came back often enough, and then
// answers them.
func deferring(times int, eta string) *stub {
	return newStub(func(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if t.Attempt > times {
			return harness.Outcome{State: harness.Finished, FinalText: fmt.Sprintf("done at attempt %d", t.Attempt)}, nil
		}
		_, r := call(tools, "chat.defer", map[string]any{"eventId": t.Event.EventID, "reason": "the deploy runs", "eta": eta})
		if r.IsError {
			return harness.Outcome{State: harness.Finished, FinalText: r.Content[0].Text}, nil
		}
		return harness.Outcome{State: harness.Finished, FinalText: "not sent"}, nil
	})
}

func TestDefer_RedeliversAfterRestarts(t *testing.T) {
	withFixture(t, deferring(2, ""), &agent.Options{DeferFor: time.Minute}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "check the deploy"))
		w.sleep(3 * time.Second)
		w.wantDispositions("e1 deferred")
		w.stop()
		w.start()
		w.sleep(50 * time.Second)
		w.wantTexts()
		w.sleep(20 * time.Second)
		w.wantDispositions("e1 deferred", "e1 deferred")
		w.sleep(2*time.Minute + 10*time.Second) // the second pause is twice as long
		w.wantDispositions("e1 deferred", "e1 deferred", "e1 responded")
		w.wantTexts("done at attempt 3")
		last := w.stub.seen()[2]
		if !strings.Contains(last.Prompt, "deferred_before: 2 of at most 5 times\n") || !strings.Contains(last.Prompt, "check the deploy") {
			t.Errorf("the model is shown\n%s", last.Prompt)
		}
	})
}

func TestDefer_ReadsItsTimeFromTheETA(t *testing.T) {
	withFixture(t, deferring(1, "2m"), nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "check the deploy"))
		w.sleep(90 * time.Second)
		w.wantTexts()
		w.sleep(time.Minute)
		w.wantTexts("done at attempt 2")
	})
}

func TestDefer_IsBounded(t *testing.T) {
	withFixture(t, deferring(99, ""), &agent.Options{DeferFor: 2 * time.Second}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "check the deploy"))
		w.sleep(2 * time.Minute)
		equal(t, "refusals", w.refusals(), []string{"e1 chat.defer deferred_too_often"})
		w.wantTexts("This event was deferred 5 times. Answer it now, or say plainly that you cannot, and why.")
		w.wantDispositions("e1 deferred", "e1 deferred", "e1 deferred", "e1 deferred", "e1 deferred", "e1 responded")
		if n := len(w.stub.seen()); n != 6 {
			t.Errorf("%d turns", n)
		}
	})
}

func TestSignal_QueuedDefersItsEvent(t *testing.T) {
	s := newStub(func(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if t.Attempt == 1 {
			call(tools, "chat.react", map[string]any{"signal": "queued", "eta": "1m"})
			return harness.Outcome{State: harness.Finished}, nil
		}
		return harness.Outcome{State: harness.Finished, FinalText: "it is green"}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "check the deploy"))
		w.sleep(70 * time.Second)
		w.wantTexts("signal queued", "it is green")
		w.wantDispositions("e1 deferred", "e1 responded")
	})
}

func TestDefer_EndsWithADeletionOrAStop(t *testing.T) {
	for name, ended := range map[string]struct {
		by   func(w *fixture)
		want []string
	}{
		"stop word": {func(w *fixture) { w.say(dm("e2", "stop")) }, []string{"e1 deferred", "e1 superseded", "e2 deferred"}},
		"edit": {func(w *fixture) { w.say(edit(dm("e1", "check the other deploy"), "check the other deploy", 2)) },
			[]string{"e1 deferred", "e1 superseded", "e1#edit-1 deferred"}},
		"delete": {func(w *fixture) {
			m := dm("e1", "")
			m.Event = "delete"
			w.say(m)
		}, []string{"e1 deferred", "e1 superseded"}},
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, deferring(99, "5m"), nil, func(t *testing.T, w *fixture) {
				w.say(dm("e1", "check the deploy"))
				w.sleep(3 * time.Second)
				ended.by(w)
				w.sleep(2 * time.Minute)
				w.wantDispositions(ended.want...)
			})
		})
	}
}

// TestClaim_EndsWithAStopOrAnEdit checks that a claimed event in no turn fails only if nothing took its
// place.
func TestClaim_EndsWithAStopOrAnEdit(t *testing.T) {
	failed := "I did not finish an answer to this message in time. Please send it again, or ask for less at once."
	edited := edit(dm("e1", ""), "check the other deploy", 2)
	for name, c := range map[string]struct {
		next         protocol.ChatMessage
		dispositions []string
		texts        []string
	}{
		"stop word": {dm("e2", "stop"), []string{"e1 claimed", "e1 superseded", "e2 responded"}, []string{"signal working", "done"}},
		"edit":      {edited, []string{"e1 claimed", "e1 superseded", "e1#edit-1 responded"}, []string{"signal working", "done"}},
		"edit during its turn": {edited, []string{"e1 claimed", "e1 superseded", "e1#edit-1 responded"},
			[]string{"signal working", "done"}},
		"another message": {dm("e2", "what about lunch?"), []string{"e1 claimed", "e2 responded", "e1 failed"},
			[]string{"signal working", "done", failed}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(func(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
				if t.Event.EventID == "e1" {
					call(tools, "chat.react", map[string]any{"signal": "working"})
					if strings.Contains(name, "during") {
						pause(10 * time.Second)
					}
					return harness.Outcome{State: harness.Finished}, nil
				}
				return harness.Outcome{State: harness.Finished, FinalText: "done"}, nil
			})
			withFixture(t, s, nil, func(t *testing.T, w *fixture) {
				w.say(dm("e1", "check the deploy"))
				w.sleep(3 * time.Second)
				w.say(c.next)
				w.sleep(10 * time.Minute)
				w.wantDispositions(c.dispositions...)
				w.wantTexts(c.texts...)
			})
		})
	}
}

func TestDefer_AnotherTurnCanSettleTheEvent(t *testing.T) {
	s := newStub(func(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if t.Event.EventID == "e1" {
			call(tools, "chat.defer", map[string]any{"reason": "busy"})
			return harness.Outcome{State: harness.Finished}, nil
		}
		call(tools, "chat.resolve", map[string]any{"eventId": "e1"})
		return harness.Outcome{State: harness.Finished, FinalText: "both are done"}, nil
	})
	withFixture(t, s, &agent.Options{DeferFor: time.Minute}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "check the deploy"))
		w.sleep(3 * time.Second)
		w.say(dm("e2", "any news?"))
		w.sleep(2 * time.Minute)
		w.wantDispositions("e1 deferred", "e1 responded", "e2 responded")
		if seen := w.stub.seen(); len(seen) != 2 || !strings.Contains(seen[1].Prompt, "deferred_by_you: e1\n") {
			t.Errorf("%d turns, the second is shown\n%s", len(seen), seen[1].Prompt)
		}
	})
}

// TestDefer_DoesNotRedeliverToAProgram checks that an accepted delivery is never repeated to an
// asynchronous program.
func TestDefer_DoesNotRedeliverToAProgram(t *testing.T) {
	withFixture(t, newStub(accepting), &agent.Options{HarnessType: "c2a", DeferFor: time.Second}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "check the deploy"))
		w.sleep(3 * time.Second)
		call(w.tools(), "chat.defer", map[string]any{"eventId": "e1", "reason": "busy"})
		w.sleep(90 * time.Second)
		w.wantDispositions("e1 deferred")
		w.sleep(10 * time.Second)
		w.wantDispositions("e1 deferred", "e1 failed")
		w.wantTexts("I could not answer this message. Please send it again, or ask somebody else.")
		if n := len(w.stub.seen()); n != 1 {
			t.Errorf("%d deliveries", n)
		}
	})
}

func TestLeave_DropsDeferredEvents(t *testing.T) {
	s := newStub(func(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if t.Event.EventID == "e1" {
			call(tools, "chat.defer", map[string]any{"reason": "busy"})
			return harness.Outcome{State: harness.Finished}, nil
		}
		return harness.Outcome{State: harness.Finished, FinalText: "bye"}, nil
	})
	withFixture(t, s, &agent.Options{DeferFor: time.Minute}, func(t *testing.T, w *fixture) {
		for _, m := range []protocol.ChatMessage{post("e1", "@lead check the deploy"), post("e2", "@lead leave")} {
			m.Mentions = []string{"agent:lead"}
			w.say(m)
			w.sleep(3 * time.Second)
		}
		w.sleep(2 * time.Minute)
		w.wantTexts("bye")
		w.wantDispositions("e1 deferred", "e2 responded", "e1 ignored")
	})
}

// TestDefer_TakesAnEventOutOfTheComposeWindow checks that a program outside of a turn may defer
// an event in the compose window. The event leaves the window, and comes back.
func TestDefer_TakesAnEventOutOfTheComposeWindow(t *testing.T) {
	withFixture(t, newStub(answering("done")), &agent.Options{ComposeWindow: 10 * time.Second}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "check the deploy"))
		w.sleep(time.Second)
		call(w.tools(), "chat.defer", map[string]any{"eventId": "e1", "reason": "busy", "eta": "5m"})
		w.sleep(4 * time.Minute)
		w.wantDispositions("e1 deferred")
		w.wantTexts()
		w.sleep(2 * time.Minute)
		w.wantDispositions("e1 deferred", "e1 responded")
		w.wantTexts("done")
	})
}

// TestDefer_RefusesAnAnsweredEvent covers an answer that is queued and one that was delivered.
func TestDefer_RefusesAnAnsweredEvent(t *testing.T) {
	s := newStub(func(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		call(tools, "chat.send_message", map[string]any{"text": "green"})
		call(tools, "chat.defer", map[string]any{"reason": "more later"})
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "check the deploy"))
		w.sleep(time.Hour)
		w.wantTexts("green")
		w.wantDispositions("e1 responded")
	})
}

// TestDefer_CutsALongReasonBetweenCharacters checks that no character is cut.
func TestDefer_CutsALongReasonBetweenCharacters(t *testing.T) {
	s := newStub(func(_ context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		call(tools, "chat.defer", map[string]any{"reason": "x" + strings.Repeat("é", 400)})
		return harness.Outcome{State: harness.Finished}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "check the deploy"))
		w.sleep(5 * time.Second)
		w.wantDispositions("e1 deferred")
		for _, r := range w.records {
			if reason, _ := r["reason"].(string); strings.ContainsRune(reason, '\uFFFD') || len(reason) > 500 {
				t.Errorf("the record says %q", reason)
			}
		}
	})
}

// TestDefer_TakesTimesOnly tries etas that are times and others that are not. The latter are
// refused with examples of valid ones.
func TestDefer_TakesTimesOnly(t *testing.T) {
	for eta, ok := range map[string]bool{
		"tomorrow 9:00": true, "Friday": true, "in 45 minutes": true, "2h": true, "2099-01-31T17:00:00+01:00": true, "": true,
		"after the deploy": false, "later": false, "soon": false, "when CI is green": false, "daily 9:00": false, "ASAP": false,
	} {
		t.Run(eta, func(t *testing.T) {
			withFixture(t, deferring(1, eta), nil, func(t *testing.T, w *fixture) {
				w.say(dm("e1", "check the deploy"))
				w.sleep(10 * time.Second)
				if ok {
					w.wantTexts()
					w.wantDispositions("e1 deferred")
				} else if len(w.replies) != 1 || !strings.Contains(w.replies[0].Text, "This eta is not a time. Write a local time (2027-01-31 17:00") {
					t.Errorf("said %+v", w.replies)
				}
			})
		})
	}
}

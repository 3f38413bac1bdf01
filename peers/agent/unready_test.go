package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"

	"github.com/rs/zerolog"
)

const noAnswerText = "I could not answer this message. Please send it again, or ask somebody else."

// TestUnreadyHarness_EndsWaitingEvents checks that events and turns that wait for the harness end
// at the deadline of an answer, that their authors are notified, and that later events are
// answered once the harness is ready.
func TestUnreadyHarness_EndsWaitingEvents(t *testing.T) {
	s := newStub(answering("here I am"))
	s.setReady(false)
	withFixture(t, s, &agent.Options{Deadline: time.Minute}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "is anybody there?"))
		w.say(post("e2", "lunch?"))
		w.sleep(50 * time.Second)
		w.wantDispositions()
		w.stop()
		w.start() // what it waited before this start does not count
		w.sleep(50 * time.Second)
		w.wantDispositions()
		w.sleep(15 * time.Second)
		w.wantDispositions("e1 failed", "e2 ignored")
		w.wantTexts(noAnswerText)

		s.setReady(true)
		w.say(dm("e3", "and now?"))
		w.sleep(time.Second) // it is held
		s.setReady(false)
		w.sleep(2 * time.Minute)
		w.wantDispositions("e1 failed", "e2 ignored", "e3 failed")
		s.setReady(true)
		w.say(dm("e4", "now?"))
		w.sleep(10 * time.Second)
		w.wantDispositions("e1 failed", "e2 ignored", "e3 failed", "e4 responded")
		w.wantTexts(noAnswerText, noAnswerText, "here I am")
	})
}

// TestUnreadyHarness_HoldsDeferredEvents checks that the event waits as long as
// any other; the time for which it was deferred does not count.
func TestUnreadyHarness_HoldsDeferredEvents(t *testing.T) {
	s := newStub(nil)
	s.turn = func(_ context.Context, tn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if tn.Deferrals == 0 {
			call(tools, "chat.defer", map[string]any{"reason": "later", "eta": "30m"})
		}
		return harness.Outcome{State: harness.Finished, FinalText: "done"}, nil
	}
	withFixture(t, s, &agent.Options{Deadline: 5 * time.Minute}, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "look at it later"))
		w.sleep(10 * time.Second)
		s.setReady(false)
		w.say(post("e2", "lunch?"))
		w.sleep(31 * time.Minute)
		w.wantDispositions("e1 deferred", "e2 ignored")
		s.setReady(true)
		w.sleep(10 * time.Second)
		w.wantTexts("done")
		w.wantDispositions("e1 deferred", "e2 ignored", "e1 responded")
	})
}

// TestRetries_ShareTheDeadlineOfTheTurn checks that a model that keeps failing gets no extra time,
// and is not asked before the time that it named.
func TestRetries_ShareTheDeadlineOfTheTurn(t *testing.T) {
	var asked []time.Duration
	for name, c := range map[string]struct {
		fail func(ctx context.Context) error
		want string // when the turn began its attempts
		end  time.Duration
	}{
		"it hangs after a failure": {func(ctx context.Context) error {
			if len(asked) == 1 {
				pause(40 * time.Second)
				return fmt.Errorf("%w: overloaded", harness.ErrTemporary)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}, "[0s 42s]", 60 * time.Second},
		"it wants to be left alone for a while": {func(context.Context) error {
			return &harness.RetryLaterError{After: 25 * time.Second, Err: errors.New("429")}
		}, "[0s 25s 50s]", 50 * time.Second},
		"it wants to be left alone for longer": {func(context.Context) error {
			return &harness.RetryLaterError{After: time.Hour, Err: errors.New("429")}
		}, "[0s]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			var first time.Time
			s := newStub(nil)
			s.turn = func(ctx context.Context, _ *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
				if len(asked) == 0 {
					first = time.Now()
				}
				asked = append(asked, time.Since(first))
				return harness.Outcome{}, c.fail(ctx)
			}
			withFixture(t, s, &agent.Options{Deadline: time.Minute}, func(t *testing.T, w *fixture) {
				w.say(dm("e1", "well?"))
				w.sleep(3*time.Second + c.end)
				w.wantDispositions("e1 failed")
				want := noAnswerText
				if c.end == 60*time.Second { // it was stopped at its deadline
					want = "I did not finish an answer to this message in time. Please send it again, or ask for less at once."
				}
				w.wantTexts(want)
				if got := fmt.Sprint(asked); got != c.want {
					t.Errorf("asked at %s, want %s", got, c.want)
				}
				w.sleep(10 * time.Minute)
				w.wantDispositions("e1 failed")
			})
		})
	}
}

// TestCutAnswer_IsMarked checks a text that ends at the model's limit.
func TestCutAnswer_IsMarked(t *testing.T) {
	s := newStub(func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		return harness.Outcome{State: harness.Finished, FinalText: "first, and second", Truncated: true}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		w.say(dm("e1", "list everything"))
		w.sleep(5 * time.Second)
		if len(w.replies) != 1 || !strings.HasPrefix(w.replies[0].Text, "first, and second\n") || !strings.Contains(w.replies[0].Text, "was cut here") {
			t.Errorf("replies: %+v", w.replies)
		}
	})
}

// TestFailure_SaysInTheChatWhatToDo checks that people are asked to send a message again only if
// that can help, and that a misconfiguration is not apologized for. The agent's log has each reason
// once, with its count.
func TestFailure_SaysInTheChatWhatToDo(t *testing.T) {
	var lines strings.Builder
	log := zerolog.New(&lines)
	failure := fmt.Errorf("%w: %w", harness.ErrPermanent, &harness.UserError{Message: "The key is refused.", Err: errors.New("https://x/v1 answered 401 (check KEY)")})
	says := "well"
	s := newStub(func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		return harness.Outcome{State: harness.Finished, FinalText: says}, failure
	})
	withFixture(t, s, &agent.Options{Log: &log}, func(t *testing.T, w *fixture) {
		for i := range 10 {
			w.say(dm(fmt.Sprint("e", i), fmt.Sprint("help me ", i)))
			w.sleep(5 * time.Second)
		}
		w.wantTexts(slices.Repeat([]string{"The key is refused."}, 10)...)
		reason, count, since, err := mailbox.Failing(t.Context(), w.path)
		if err != nil || count != 10 || !strings.Contains(reason, "check KEY") || time.Since(since) > time.Minute {
			t.Errorf("its database says %q, %d since %s, %v", reason, count, since, err)
		}
		failure = nil
		w.say(dm("last", "help me"))
		w.sleep(5 * time.Second)
		if _, count, _, err := mailbox.Failing(t.Context(), w.path); err != nil || count != 0 {
			t.Errorf("after a good turn: %d, %v", count, err)
		}
		if got := lines.String(); strings.Count(got, "turn failed") != 2 || !strings.Contains(got, `"times":1,"message":"turn failed"`) ||
			!strings.Contains(got, `"times":10,"message":"turn failed"`) || !strings.Contains(got, `"times":10,"message":"turns succeed again"`) {
			t.Errorf("its log:\n%s", got)
		}
		w.replies = nil
		for i, c := range []struct {
			failure error
			want    string
		}{
			{fmt.Errorf("%w: no such program /x", harness.ErrPermanent), "I'm misconfigured and can't answer. Please tell whoever runs me; sending this again won't help."},
			{fmt.Errorf("%w: it took longer than 5m0s", harness.ErrTimeout), "I did not finish an answer to this message in time. Please send it again, or ask for less at once."},
			{fmt.Errorf("%w: 500 tokens", harness.ErrBudget), "I could not finish an answer within the limits of one turn. Please ask for less at once."},
			{errors.New("odd"), noAnswerText},
		} {
			failure = c.failure
			w.say(dm(fmt.Sprint("f", i), fmt.Sprint("and now ", i)))
			w.sleep(5 * time.Second)
			if n := len(w.replies); n != i+1 || w.replies[i].Text != c.want {
				t.Errorf("%v: apology %v", c.failure, w.replies)
			}
		}
		failure, says = nil, ""
		w.say(dm("empty", "say nothing"))
		w.sleep(5 * time.Second)
		if got := lines.String(); strings.Count(got, `"reason":"it ended without an answer"`) != 1 {
			t.Errorf("the log of a turn without an answer:\n%s", got)
		}
	})
}

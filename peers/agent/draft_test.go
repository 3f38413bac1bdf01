package agent_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
)

// TestDraft_SettingOutlivesARestart checks that the first answer after a start shows a draft if
// an earlier draft of the same model was kept.
func TestDraft_SettingOutlivesARestart(t *testing.T) {
	const text = "This is the beginning of an answer that is longer than forty bytes and goes on"
	s := newStub(nil)
	s.turn = func(_ context.Context, t *harness.Turn, _ harness.Tools) (harness.Outcome, error) {
		s.host.Progress(harness.Progress{TurnID: t.ID, Kind: harness.ProgressText, Message: text})
		pause(5 * time.Second)
		return harness.Outcome{State: harness.Finished, FinalText: text}, nil
	}
	withFixture(t, s, &agent.Options{Model: "m"}, func(t *testing.T, w *fixture) {
		drafts := func(id string) int {
			w.drafts = nil
			w.say(dm(id, "well, "+id+"?"))
			w.sleep(20 * time.Second)
			return len(w.drafts)
		}
		got := []int{drafts("e1"), drafts("e2")}
		w.stop()
		w.start()
		got = append(got, drafts("e3"))
		w.stop()
		w.opts.Model = "another"
		w.start()
		if got = append(got, drafts("e4")); !slices.Equal(got, []int{0, 1, 1, 0}) {
			t.Errorf("drafts %v; want none of the first answer of each model, and one of each later", got)
		}
	})
}

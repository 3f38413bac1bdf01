package tg_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
)

// An asker is a harness whose model asks with choices and repeats what it receives.
type asker struct{ reader }

func (a *asker) Turn(ctx context.Context, t *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
	said := t.Event.Content[len(t.Event.Content)-1].Text
	if strings.HasSuffix(said, "deploy") {
		tools.Call(ctx, "chat.ask_choice", json.RawMessage(`{"question":"Where to?","choices":["Staging","Production","👍"]}`))
		return harness.Outcome{State: harness.Finished}, t.Attempted(t.Attempt)
	}
	return harness.Outcome{State: harness.Finished, FinalText: "heard " + said}, t.Attempted(t.Attempt)
}

// TestChoice_CountsFirstPress runs a choice over bridge, bus and agent. The first press counts
// and removes the buttons. Each later press is answered with the choice.
func TestChoice_CountsFirstPress(t *testing.T) {
	dir := t.TempDir()
	withFixture(t, func(t *testing.T, h *fixture) {
		will, ann := h.api.User("Will"), h.api.User("Ann")
		group := h.api.Group(-5, "House")
		h.startSpawner("agent:lead")
		h.startAgent(dir, &asker{})
		h.start()
		h.api.Say(group, will, "@"+h.api.Bot().Username+" deploy")
		h.pass(time.Minute)
		h.expect("asked", h.shows(group.ID), "Where to? | [Staging] [Production] | [👍]")
		asked := h.api.Messages(group.ID)[len(h.api.Messages(group.ID))-1]
		h.api.Say(group, ann, "I would wait")
		h.pass(10 * time.Second)
		h.api.Press(asked, ann, "👍")
		h.api.Press(asked, ann, "👍")
		h.api.Press(asked, will, "Staging")
		h.pass(time.Minute)
		h.expect("answered", h.shows(group.ID), "Where to?\n\nChosen: 👍 (Ann)", "heard 👍")
		h.api.Press(asked, will, "Production")
		h.pass(10 * time.Second)
		if answers := h.pressAnswers(); answers[len(answers)-1] != "Chosen: 👍 (Ann)" && answers[len(answers)-1] != "Chosen: 👍 (`Ann`)" {
			t.Errorf("told %q", answers)
		}
	})
}

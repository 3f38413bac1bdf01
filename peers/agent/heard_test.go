package agent_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
)

// TestWake_OfAReturnedBrokerFindsItKnown lets a broker return that was away for so long that the
// agent rarely looks for it. The turn that it wakes has its contract and its tools, and the agent
// announces itself. An event that the command line sends in its place says nothing about it.
func TestWake_OfAReturnedBrokerFindsItKnown(t *testing.T) {
	var tools []string
	s := newStub(func(_ context.Context, _ *harness.Turn, kit harness.Tools) (harness.Outcome, error) {
		for _, tool := range kit.List() {
			tools = append(tools, tool.Name)
		}
		return harness.Outcome{State: harness.Finished, FinalText: "on it"}, nil
	})
	withFixture(t, s, nil, func(t *testing.T, w *fixture) {
		joinBroker(t, w).leave()
		w.sleep(2 * time.Hour)
		wake := map[string]any{
			"deliveryId": "dlv-1", "rule": "owner", "senderId": "will",
			"workItem": map[string]any{"id": "wi-1", "title": "release", "state": "open"},
		}
		cli := &fakeBroker{peer: w.bus.Join(t, "cli:will").Peer}
		cli.tell(t, "collab.delivery.woken", "evt-1", wake)
		w.sleep(10 * time.Second)
		if joined := strings.Join(tools, " "); joined == "" || strings.Contains(joined, "work.update") {
			t.Errorf("tools without a broker: %s", joined)
		}
		b := startBroker(t, w)
		w.sleep(time.Second)
		if n := len(b.requests("identity.announce")); n != 0 {
			t.Fatalf("the agent looked for the broker at once")
		}
		tools = nil
		b.tell(t, "collab.delivery.woken", "evt-2", wake)
		w.sleep(10 * time.Second)
		if joined := strings.Join(tools, " "); !strings.Contains(joined, "work.update") {
			t.Errorf("tools of the turn: %s", joined)
		}
		if turns := s.seen(); len(turns) != 2 || !strings.HasPrefix(turns[1].System, "# How you work with others here") {
			t.Errorf("turns: %+v", turns)
		}
		if n := len(b.requests("identity.announce")); n != 1 {
			t.Errorf("announced %d times; want once", n)
		}
	})
}

package console_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// TestWhoWaitsForWhomIsShown: what the broker says to who may act, and to others what its events
// told, of which nothing is shown that is done.
func TestWhoWaitsForWhomIsShown(t *testing.T) {
	s, d := newDecidingStage(t)
	d.owed = []collab.Obligation{{ID: "q_1", Kind: collab.KindQuestion, Title: "which <b>region?", State: "open", OwedByID: "will", OwedByIdentity: "cli:will", OwedToID: "lead", OwedToIdentity: "agent:lead"}}
	home, cookie := s.enter(t, "operator")
	if body := s.page(t, home+"owed", cookie); !strings.Contains(body, "which &lt;b&gt;region?") || !strings.Contains(body, "cli:will") || !strings.Contains(body, "This is what the broker says") {
		t.Errorf("an operator sees %s", body)
	}
	if body := s.page(t, home+"owed?q=nothing", cookie); strings.Contains(body, "q_1") || !strings.Contains(body, "Nobody waits for anybody.") {
		t.Error("the filter does not filter")
	}
	broker := s.Join(t, "collab:broker", "collab:*")
	now := protocol.FormatTime(time.Now())
	for id, kind := range map[string]string{"wi_1": "open", "wi_2": "done", "wi_3": "open"} {
		w := collab.WorkItem{
			ID: id, Kind: collab.KindWorkItem, Title: "item " + id, State: collab.WorkState(kind), CreatedByID: "lead", CreatedByIdentity: "agent:lead",
			NextMoveOwnerID: "worker", NextMoveOwnerIdentity: "agent:worker", CreatedAt: now, UpdatedAt: now,
		}
		if id == "wi_3" { // lead's own
			w.NextMoveOwnerID, w.NextMoveOwnerIdentity = w.CreatedByID, w.CreatedByIdentity
		}
		raw, err := json.Marshal(w)
		if err != nil {
			t.Fatal(err)
		}
		broker.SendAs(t, "collab:broker", protocol.TopicCollabEvents, protocol.TypeCollabEvent, protocol.CollabEvent{ID: "e-" + id, Type: "collab.work_item.created", Source: "agent:lead", Payload: raw})
	}
	theirs, reader := s.enter(t, "watcher")
	body := s.becomes(t, theirs+"owed", "the item", func(body string) bool { return strings.Contains(body, "wi_1") }, reader)
	if strings.Contains(body, "wi_2") || strings.Contains(body, "wi_3") || !strings.Contains(body, now) || !strings.Contains(body, "Worked out from what the broker published") {
		t.Errorf("a reader sees %s", body)
	}
	d.err = collab.ErrNoBroker
	if body := s.page(t, home+"owed", cookie); !strings.Contains(body, "The broker could not be asked") || !strings.Contains(body, "wi_1") {
		t.Errorf("without a broker %s", body)
	}
}

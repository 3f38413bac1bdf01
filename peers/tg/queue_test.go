package tg_test

import (
	"testing"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/tg"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
)

// A letter is an item as an operator sees it.
type letter struct {
	outbox.Item
	queue       bridge.Queue
	agent, text string
}

// letters returns the items in the given states from the database, as the command line does while
// the bridge runs.
func (h *fixture) letters(states ...outbox.State) (all []letter) {
	h.t.Helper()
	queues, err := tg.Queues(h.t.Context(), h.db)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, q := range queues {
		items, err := q.List(h.t.Context(), &outbox.Filter{States: states})
		if err != nil {
			h.t.Fatal(err)
		}
		for _, item := range items {
			l := letter{Item: item, queue: q}
			if l.agent, l.text, err = q.Describe(h.t.Context(), &item); err != nil {
				h.t.Fatal(err)
			}
			all = append(all, l)
		}
	}
	return all
}

// deadLetters returns the dead items.
func (h *fixture) deadLetters() []letter {
	h.t.Helper()
	return h.letters(outbox.StateDead, outbox.StateUnknown)
}

func TestQueue_OperatorRetries(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Cut: tgtest.CutUnheard, Times: 2})
		for _, text := range []string{"first", "second"} {
			reply(t, lead, dm.ID, protocol.ChatReply{Text: text, IdempotencyKey: text})
		}
		for range 2 {
			if s := status(t, lead); s.Status != protocol.StatusUnknown {
				t.Fatalf("status %+v", s)
			}
		}
		items := h.deadLetters()
		if len(items) != 2 || items[0].text != "first" || items[0].agent != "agent:lead" ||
			items[0].queue.Name != "telegram" || items[0].queue.Bot != 123456 || items[0].State != outbox.StateUnknown {
			t.Fatalf("%+v", items)
		}
		if err := items[0].queue.Retry(t.Context(), items[0].ID); err != nil {
			t.Fatal(err)
		}
		if err := items[1].queue.Drop(t.Context(), items[1].ID); err != nil {
			t.Fatal(err)
		}
		if got := h.texts(dm.ID, 1); got[0] != "first" {
			t.Errorf("sent %q", got)
		}
		got := map[string]string{}
		for lead.Pending() > 0 {
			s := status(t, lead)
			got[s.IdempotencyKey] = s.Status
		}
		if got["first"] != protocol.StatusDelivered || got["second"] != protocol.StatusFailed {
			t.Errorf("statuses %v", got)
		}
		h.pass(5 * time.Second)
		if items := h.letters(outbox.StateDead, outbox.StateUnknown, outbox.StatePending); len(items) != 0 {
			t.Errorf("%+v", items)
		}
	})
}

// TestReport_ToEndedCommandIsDropped writes to a chat from a command line. While the command
// runs, it receives the report. After it has ended, the report is dropped without a failure.
func TestReport_ToEndedCommandIsDropped(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, _, _ := h.talk()
		gone := h.bus.Join(t, "cli:pub-1")
		reply(t, gone, dm.ID, protocol.ChatReply{Text: "from a command that ends"})
		gone.Leave()
		stays := h.bus.Join(t, "cli:sub-1", "cli:sub-1")
		reply(t, stays, dm.ID, protocol.ChatReply{Text: "from one that stays"})
		h.texts(dm.ID, 2)
		if s := status(t, stays); s.Status != protocol.StatusDelivered {
			t.Errorf("the command that stays is told %+v", s)
		}
		h.pass(5 * time.Minute) // longer than any backoff
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		if items := h.letters(outbox.StateDead, outbox.StateUnknown, outbox.StatePending); len(items) != 0 {
			t.Errorf("what waits or failed: %+v", items)
		}
	})
}

package tg_test

import (
	"errors"
	"testing"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/tg"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
)

// deadLetters are what waits for the operator.
func (h *house) deadLetters() []tg.Waiting {
	h.t.Helper()
	db, err := tg.Open(h.path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer db.Close()
	items, err := tg.NewQueues(db).List(h.t.Context(), outbox.StateDead, outbox.StateUnknown)
	if err != nil {
		h.t.Fatal(err)
	}
	return items
}

func TestAnOperatorDecidesWhatIsSentAgain(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
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
		// As the command line does: on the database, beside the running bridge.
		db, err := tg.Open(h.path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		q := tg.NewQueues(db)
		items, err := q.List(t.Context(), outbox.StateDead, outbox.StateUnknown)
		if err != nil || len(items) != 2 || items[0].Text != "first" || items[0].Agent != "agent:lead" ||
			items[0].Queue != "telegram" || items[0].Bot != 123456 || items[0].State != outbox.StateUnknown {
			t.Fatalf("%+v, %v", items, err)
		}
		if err := q.Retry(t.Context(), items[0].ID); err != nil {
			t.Fatal(err)
		}
		if err := q.Drop(t.Context(), items[1].ID); err != nil {
			t.Fatal(err)
		}
		if err := q.Retry(t.Context(), 4711); !errors.Is(err, outbox.ErrNotFound) {
			t.Errorf("an unknown item: %v", err)
		}
		if got := h.texts(dm.ID, 1); got[0] != "first" {
			t.Errorf("sent %q", got)
		}
		got := map[string]string{}
		for lead.Waiting() > 0 {
			s := status(t, lead)
			got[s.IdempotencyKey] = s.Status
		}
		if got["first"] != protocol.StatusDelivered || got["second"] != protocol.StatusFailed {
			t.Errorf("statuses %v", got)
		}
		h.pass(5 * time.Second)
		items, err = q.List(t.Context(), outbox.StateDead, outbox.StateUnknown, outbox.StatePending)
		if err != nil || len(items) != 0 {
			t.Errorf("%+v, %v", items, err)
		}
	})
}

// TestAnOperatorsReplyLeavesNoDeadLetter has a command line write to a chat: while
// it stays it is told what became of its reply; when it has ended, nobody is, and
// that is no failure.
func TestAnOperatorsReplyLeavesNoDeadLetter(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
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
		db, err := tg.Open(h.path)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		items, err := tg.NewQueues(db).List(t.Context(), outbox.StateDead, outbox.StateUnknown, outbox.StatePending)
		if err != nil || len(items) != 0 {
			t.Errorf("what waits or failed: %+v, %v", items, err)
		}
	})
}

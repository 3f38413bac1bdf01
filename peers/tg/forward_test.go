package tg_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// TestMessage_HasOwnIDPerAgent checks that an event has one sourceId and a messageId for each
// agent, so that a messageId has one send_start in the activity log. An answer may refer to
// either.
func TestMessage_HasOwnIDPerAgent(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		first := h.bus.Join(t, "agent:first", "agent:first")
		second := h.bus.Join(t, "agent:second", "agent:second")
		h.startSpawner("agent:first")
		h.start()
		h.api.Say(dm, will, "one")
		first.NextOf(t, protocol.TypeTGMessage)
		h.assign(dm.ID, "agent:second")
		h.api.Say(dm, will, "hello")
		a, b := first.NextOf(t, protocol.TypeTGMessage), second.NextOf(t, protocol.TypeTGMessage)
		if a.Message.MessageID == b.Message.MessageID {
			t.Errorf("both agents got the messageId %s", a.Message.MessageID)
		}
		var mine, yours protocol.ChatMessage
		if err := a.Decode(&mine); err != nil {
			t.Fatal(err)
		}
		if err := b.Decode(&yours); err != nil || mine.SourceID == "" || mine.SourceID != yours.SourceID {
			t.Errorf("the sourceIds are %q and %q, %v; want one", mine.SourceID, yours.SourceID, err)
		}
		for agent, d := range map[*bustest.Scripted]*bustest.Delivery{first: a, second: b} {
			agent.Send(t, topic(dm.ID), protocol.TypeTGReply, protocol.ChatReply{
				Text: "from " + string(agent.ID()), InReplyTo: string(d.Message.MessageID), IdempotencyKey: "k",
			})
		}
		if texts := h.texts(dm.ID, 2); len(texts) != 2 {
			t.Errorf("the chat shows %q; want both answers", texts)
		}
	})
}

// TestDelivery_OversizedEventIsDeadLetter checks that an event beyond the bus's frame limit does
// not close the connection that all chats share.
func TestDelivery_OversizedEventIsDeadLetter(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		will := models.User{ID: dm.ID, FirstName: "Will"}
		h.api.Say(dm, will, strings.Repeat("x", 1<<20))
		h.api.Say(dm, will, "after it")
		if got := next(t, lead); got.Text != "after it" {
			t.Errorf("got %.20q", got.Text)
		}
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "could not be delivered to @lead") || !strings.Contains(got[0], "bytes") {
			t.Errorf("Will reads %q", got)
		}
	})
}

// TestDecliningAgent_IsReportedToChat checks that the chat is notified once a day and nothing is
// lost.
func TestDecliningAgent_IsReportedToChat(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		will := models.User{ID: dm.ID, FirstName: "Will"}
		lead.Refuse(func(*bustest.Delivery) error { return errors.New("the disk is full") })
		h.api.Say(dm, will, "one")
		h.pass(3 * time.Second)
		h.texts(dm.ID, 0) // a short failure is not reported
		h.pass(10 * time.Minute)
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "@lead isn't accepting messages") {
			t.Errorf("Will reads %q", got)
		}
		lead.Refuse(nil)
		if got := next(t, lead); got.Text != "one" {
			t.Errorf("lead got %q", got.Text)
		}
		lead.Refuse(func(*bustest.Delivery) error { return errors.New("the disk is full again") })
		h.api.Say(dm, will, "two")
		h.pass(10 * time.Minute)
		h.texts(dm.ID, 1)
	})
}

// TestDecliningAgent_IsReportedAfterReturn covers an agent that was absent for long and fails
// after its return.
func TestDecliningAgent_IsReportedAfterReturn(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		lead.Leave()
		h.api.Say(dm, models.User{ID: dm.ID, FirstName: "Will"}, "one")
		h.pass(5 * time.Minute)
		h.texts(dm.ID, 0)
		back := h.bus.Join(t, "agent:lead", "agent:lead")
		back.Refuse(func(*bustest.Delivery) error { return errors.New("the disk is full") })
		h.pass(10 * time.Minute)
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "@lead isn't accepting messages") {
			t.Errorf("Will reads %q", got)
		}
	})
}

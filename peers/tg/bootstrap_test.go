package tg_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"hubbub/protocol"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

func TestTheSevenSteps(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		will, dm := h.dm("Will")
		h.spawner("agent:lead")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		m := h.api.Say(dm, will, "hello")

		request := h.system.NextOf(h.t, protocol.TypeSpawnRequest)
		if request.Topic != protocol.TopicSpawn || request.Message.From != protocol.PeerID(topic(dm.ID)) {
			t.Errorf("the request came on %s from %s", request.Topic, request.Message.From)
		}
		configure := lead.Next(h.t)
		var c protocol.Configure
		if err := configure.Decode(&c); err != nil || configure.Message.Type != protocol.TypeConfigure || c.TalkTo != topic(dm.ID) {
			t.Errorf("first the agent got %+v, %v", configure.Message, err)
		}
		d := lead.Next(h.t)
		var got protocol.ChatMessage
		if err := d.Decode(&got); err != nil || d.Message.Type != protocol.TypeTGMessage {
			t.Fatalf("then the agent got %+v, %v", d.Message, err)
		}
		source := "tg:123456:" + itoa(dm.ID) + ":" + strconv.Itoa(m.ID)
		if got.Text != "hello" || got.SourceID != source || got.Chat.Kind != "dm" || got.Author.ID != itoa(will.ID) ||
			got.Author.Kind != "human" || got.Event != "message" || got.Sequence == 0 {
			t.Errorf("the message is %+v", got)
		}
		lead.Send(h.t, topic(dm.ID), protocol.TypeTGReply, protocol.ChatReply{Text: "hi **Will**", InReplyTo: got.SourceID})
		if texts := h.texts(dm.ID, 1); texts[0] != "hi Will" {
			t.Errorf("Will reads %q", texts)
		}
		if s := status(h.t, lead); s.Status != protocol.StatusDelivered || s.TelegramMessageID == 0 {
			t.Errorf("the agent hears %+v", s)
		}
	})
}

func TestAChatWaitsForItsSpawner(t *testing.T) {
	inHouse(t, func(t *testing.T, h *house) {
		will, dm := h.dm("Will")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		for _, text := range []string{"one", "two", "three"} {
			h.api.Say(dm, will, text)
		}
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "takes longer") {
			t.Errorf("Will reads %q", got)
		}
		time.Sleep(3 * time.Minute)
		if got := h.api.Texts(dm.ID); len(got) != 1 {
			t.Errorf("Will was told more than once: %q", got)
		}
		start := time.Now()
		h.spawner("agent:lead")
		for _, want := range []string{"one", "two", "three"} {
			if got := next(h.t, lead); got.Text != want {
				t.Errorf("got %q, want %q", got.Text, want)
			}
		}
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("the chat recovered after %v", d)
		}
	})
}

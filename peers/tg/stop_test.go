package tg_test

import (
	"strings"
	"testing"
	"time"

	"hubbub/peers/peer"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// TestStop_FollowsMessagesThatWaitForAnAbsentAgent stops a chat whose agent was stopped as idle and has
// been requested again.
func TestStop_FollowsMessagesThatWaitForAnAbsentAgent(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.startSpawner("agent:lead")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		h.api.Say(dm, will, "hello")
		next(t, lead)
		lead.Leave()
		h.system.Refuse(func(*peer.Delivery) error { return nil }) // it starts the agent later
		h.api.Say(dm, will, "deploy to prod")
		h.pass(10 * time.Second)
		h.api.Say(dm, will, "/stop")
		h.texts(dm.ID, 1)
		lead = h.bus.Join(t, "agent:lead", "agent:lead")
		if got := next(t, lead); got.Text != "deploy to prod" {
			t.Errorf("the agent got %+v", got)
		}
		if got := next(t, lead); got.Signal != protocol.SignalStop {
			t.Errorf("then the agent got %+v", got)
		}
	})
}

// TestStop_WakesNoModel stops chats in which a turn runs, waits, is deferred or has answered. No
// model runs for it, nothing more is shown, and /start opens the chat again.
func TestStop_WakesNoModel(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		deferring := func(role, _ string) any {
			if role == "tool" {
				return ""
			}
			return toolCall("chat_defer", `{"reason":"later","eta":"10m"}`)
		}
		quick := func(string, string) any { return "It is noon." }
		for _, c := range []struct {
			name   string
			script func(role, prompt string) any
			said   []string
			wait   time.Duration
			stop   string
			turns  int // requests before the stop
			shown  string
		}{
			{"while it runs", quick, []string{"what time is it?"}, 10 * time.Second, "/stop", 1, ""},
			{"while it waits for more", quick, []string{"what time is it?"}, 0, "/stop@hubbub_bot", 0, ""},
			{"after a part", quick, []string{"what", "time is it?"}, 100 * time.Millisecond, "/Stop", 0, ""},
			{"while it is deferred", deferring, []string{"remember the milk"}, time.Minute, "/stop", 2, ""},
			{"after its answer", quick, []string{"what time is it?"}, time.Minute, "/stop please", 1, "It is noon. | "},
			{"in silence", quick, nil, 0, "/stop now", 0, ""},
		} {
			m.play(func(string, string) any { return "Hello." })
			will, dm := h.dm("Will")
			h.api.Say(dm, will, "good morning")
			h.pass(time.Minute)
			m.take()
			if c.name == "while it runs" {
				m.delay = 30 * time.Second
			}
			m.play(c.script)
			for _, text := range c.said {
				h.api.Say(dm, will, text)
				h.pass(c.wait)
			}
			h.api.Say(dm, will, c.stop)
			h.pass(time.Hour)
			want := "Hello. | " + c.shown + "Stopped. The agents don't see messages from here and don't answer until you send /start."
			if got := strings.Join(h.shows(dm.ID), " | "); got != want || len(m.take()) != c.turns {
				t.Errorf("%s: shown %q; want %q", c.name, got, want)
			}
			m.delay = 0
			m.play(func(string, string) any { return "Welcome back." })
			h.api.Say(dm, will, "/start")
			h.api.Say(dm, will, "and now?")
			h.pass(time.Minute)
			if got := h.shows(dm.ID); got[len(got)-1] != "Welcome back." || len(m.take()) != 1 {
				t.Errorf("%s: shown after /start %q", c.name, got)
			}
		}
	})
}

// TestStop_EndsTheTurnsOfAllTopics stops a group in one topic while turns run in two.
func TestStop_EndsTheTurnsOfAllTopics(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		ann, forum := h.api.User("Ann"), h.api.Supergroup(-1007, "House")
		forum.IsForum = true
		m.delay = time.Minute
		for thread := 5; thread < 7; thread++ {
			text := "@hubbub_bot what time is it?"
			h.api.Post(models.Message{Chat: forum, From: &ann, MessageThreadID: thread, IsTopicMessage: true, Text: text,
				Entities: []models.MessageEntity{entity(text, "@hubbub_bot", models.MessageEntity{Type: "mention"})}})
		}
		h.pass(20 * time.Second)
		h.api.Post(models.Message{Chat: forum, From: &ann, MessageThreadID: 5, IsTopicMessage: true, Text: "/stop",
			Entities: []models.MessageEntity{{Type: "bot_command", Length: 5}}})
		h.pass(time.Hour)
		if got := h.shows(forum.ID); len(got) != 1 || !strings.HasPrefix(got[0], "Stopped.") {
			t.Errorf("shown %q", got)
		}
		if n := len(m.take()); n != 2 {
			t.Errorf("%d requests; want 2", n)
		}
	})
}

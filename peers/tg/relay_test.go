package tg_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/bus/bustest"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
)

// TestRelay_ReachesOtherAgents checks that a message from an agent reaches the other agents once
// people see it, with its number and the agent as author. It does not reach its author. Nothing
// is relayed in a chat with one agent or with an unknown outcome.
func TestRelay_ReachesOtherAgents(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		team, will, w3, w4 := h.team()
		next(t, w3)
		reply(t, w3, team.ID, protocol.ChatReply{Text: "I look at it.", IdempotencyKey: "one", InReplyTo: "tg:123456:-10:1"})
		h.pass(5 * time.Second)
		c := next(t, w4)
		sent := h.api.Calls("sendMessage")[0].Message
		if c.Text != "I look at it." || c.Event != protocol.EventMessage || c.Author.ID != "agent:w3" || c.Author.Kind != "agent" || len(c.Mentions) != 0 ||
			c.Chat.ID != "-10" || c.Chat.Kind != "channel" || c.Chat.Title != "Team" || c.SourceID != fmt.Sprintf("tg:123456:-10:%d", sent.ID) {
			t.Errorf("w4 got %+v of %+v in %+v", c, c.Author, c.Chat)
		}
		reply(t, w4, team.ID, protocol.ChatReply{Text: "@w3 the second step is mine.", IdempotencyKey: "two"})
		h.pass(5 * time.Second)
		if c := next(t, w3); !slices.Equal(c.Mentions, []string{"agent:w3"}) {
			t.Errorf("w3 got %+v", c)
		}
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Cut: tgtest.CutUnheard, Times: 1})
		reply(t, w3, team.ID, protocol.ChatReply{Text: "Was it shown?", IdempotencyKey: "three"})
		reply(t, w3, team.ID, protocol.ChatReply{Text: "I look at it no more.", IdempotencyKey: "four", Edits: "one"})
		h.pass(time.Minute)
		h.api.Say(team, will, "Go on.")
		h.pass(5 * time.Second)
		if c := next(t, w4); c.Text != "I look at it no more." || c.Event != protocol.EventEdit || c.SourceID != fmt.Sprintf("tg:123456:-10:%d", sent.ID) {
			t.Errorf("w4 got %+v; want the edit of what it heard", c)
		}
		for name, agent := range map[string]*bustest.Scripted{"w3": w3, "w4": w4} {
			if c := next(t, agent); c.Text != "Go on." {
				t.Errorf("%s got %q", name, c.Text)
			}
		}
	})
}

// TestRelay_DirectChatIsChannel checks that a message of one agent does not oblige the other, as
// a direct message would.
func TestRelay_DirectChatIsChannel(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		other := h.bus.Join(t, "agent:other", "agent:other")
		reply(t, lead, dm.ID, protocol.ChatReply{Text: "Alone here."})
		h.texts(dm.ID, 1)
		h.assign(dm.ID, "agent:other")
		reply(t, lead, dm.ID, protocol.ChatReply{Text: strings.Repeat("long ", 1000) + "answer"})
		h.texts(dm.ID, 3)
		if c := next(t, other); c.Chat.Kind != "channel" || c.Chat.ID != fmt.Sprint(dm.ID) || !strings.HasSuffix(c.Text, "answer") {
			t.Errorf("got %q in %+v", c.Text, c.Chat)
		}
	})
}

func TestRelay_KeepsTopic(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, forum := h.api.User("Will"), h.api.Forum(-100500, "House")
		w3, w4 := h.bus.Join(h.t, "agent:w3", "agent:w3"), h.bus.Join(h.t, "agent:w4", "agent:w4")
		h.start()
		topic := h.api.Topic(forum, "Roof")
		h.api.SayIn(forum, topic, will, "hello")
		h.pass(time.Second)
		h.assign(forum.ID, "agent:w3")
		h.assign(forum.ID, "agent:w4")
		asked := next(t, w3)
		for asked.Text != "hello" { // Telegram also reports the new topic
			asked = next(t, w3)
		}
		reply(t, w3, forum.ID, protocol.ChatReply{Text: "It leaks.", InReplyTo: asked.SourceID})
		h.pass(5 * time.Second)
		if c := next(t, w4); c.Chat.Kind != "thread" || c.Chat.ThreadID != fmt.Sprint(topic) || c.Text != "It leaks." {
			t.Errorf("got %q in %+v", c.Text, c.Chat)
		}
	})
}

// TestRelay_KeepsObligation covers an obligation set by the author and one through a mention.
func TestRelay_KeepsObligation(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		team, _, w3, w4 := h.team()
		next(t, w3)
		first := ""
		for _, c := range []struct{ text, chosen, want string }{
			{"for your information", "", "ambient"},
			{"@w4 please look", "", "to_me"},
			{"@w4 said so", "ambient", "ambient"},
			{"who can look?", "to_my_role", "to_my_role"},
			{"@hubbub_bot says hello", "ambient", "ambient"},
		} {
			reply(t, w3, team.ID, protocol.ChatReply{Text: c.text, Directedness: c.chosen, ReplyTo: first})
			heard := next(t, w4)
			if heard.Directedness != c.want || strings.Contains(c.text, "bot") && len(heard.Mentions) != 0 {
				t.Errorf("%q, chosen %q: w4 heard %+v; want it to carry %s", c.text, c.chosen, heard, c.want)
			}
			if first != "" && !strings.Contains(c.text, "@") && (heard.ReplyTo == nil || heard.ReplyTo.SourceID != first || heard.ReplyTo.Author != "agent:w3") {
				t.Errorf("%q answers %+v; want %s of w3", c.text, heard.ReplyTo, first)
			}
			first = heard.SourceID
		}
	})
}

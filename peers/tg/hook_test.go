package tg_test

import (
	"slices"
	"testing"
	"time"

	"hubbub/protocol"
)

// fromHook returns what the gateway sends for a message from a hook.
func fromHook(id, event, text string) protocol.ChatMessage {
	return protocol.ChatMessage{
		Text: text, Event: event, SourceID: "hook:ci:" + id, Chat: &protocol.Chat{ID: "7", Kind: "dm"}, Mentions: []string{"agent:w4"},
		Author: &protocol.Author{ID: "hook:ci", Kind: "human", DisplayName: "Will", Username: "will"},
	}
}

// TestHookMessage_IsEventOfChat checks that a message from a hook is one event for every agent of
// the chat, that its author is the hook, and that an assignment is for the first agent. People
// see nothing.
func TestHookMessage_IsEventOfChat(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		team, will, w3, w4 := h.team()
		next(t, w3)
		gateway := h.bus.Join(t, "chorus:gateway")
		topic := protocol.Topic("tg:-10")
		for range 2 {
			if r := gateway.Send(t, topic, protocol.TypeChatMessage, fromHook("1", "status", "> red @w4")); r.DeliveredTo != 1 {
				t.Fatalf("%+v", r)
			}
		}
		if r := gateway.Send(t, topic, protocol.TypeChatMessage, fromHook("2", "assignment", "> red @w4")); r.DeliveredTo != 1 {
			t.Fatalf("%+v", r)
		}
		h.pass(5 * time.Second)
		for _, want := range []struct {
			id, event string
			mentions  []string
		}{{"hook:ci:1", "status", nil}, {"hook:ci:2", "assignment", []string{"agent:w3"}}} {
			for _, agent := range []protocol.ChatMessage{next(t, w3), next(t, w4)} {
				if agent.SourceID != want.id || agent.Event != want.event || agent.Text != "> red @w4" || !slices.Equal(agent.Mentions, want.mentions) ||
					agent.Author.ID != "hook:ci" || agent.Author.Kind != "system" || agent.Author.DisplayName != "ci" || agent.Author.Username != "" ||
					agent.Chat.ID != "-10" || agent.Chat.Kind != "channel" {
					t.Errorf("an agent got %+v of %+v in %+v; want %+v", agent, agent.Author, agent.Chat, want)
				}
			}
		}
		reply(t, w3, team.ID, protocol.ChatReply{Text: "I look at it.", InReplyTo: "hook:ci:2", ReplyTo: "hook:ci:2"})
		h.pass(5 * time.Second)
		if got := h.api.Texts(team.ID); !slices.Contains(got, "I look at it.") {
			t.Errorf("the chat shows %q", got)
		}
		h.api.Say(team, will, "/stop")
		h.pass(5 * time.Second)
		for name, bad := range map[string]struct {
			topic   protocol.Topic
			content protocol.ChatMessage
		}{
			"no chat":        {"tg:ops", fromHook("3", "status", "> red")},
			"a stopped chat": {topic, fromHook("3", "status", "> red")},
			"no hook":        {topic, protocol.ChatMessage{Text: "hello", SourceID: "tg:123456:-10:9"}},
			"another's name": {topic, func() protocol.ChatMessage {
				c := fromHook("3", "status", "> red")
				c.Author.ID = "hook:other"
				return c
			}()},
			"what a person says": {topic, fromHook("3", "message", "@w3 hello")},
			"nothing":            {topic, fromHook("3", "status", "")},
		} {
			if r := gateway.Send(t, bad.topic, protocol.TypeChatMessage, bad.content); r.DeliveredTo != 0 || len(r.Failures) != 1 || r.Failures[0].Status != "rejected" {
				t.Errorf("%s: %+v", name, r)
			}
		}
	})
}

package tg_test

import (
	"testing"

	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// TestReaction_BelongsToTheTopicOfItsMessage reacts to messages of a person and of an agent, and presses a
// button of an old message. Telegram does not tell the topic.
func TestReaction_BelongsToTheTopicOfItsMessage(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, forum := h.api.User("Will"), h.api.Forum(-100500, "House")
		garden := h.api.Topic(forum, "Garden")
		inGarden := protocol.Chat{Kind: "thread", ThreadID: itoa(int64(garden))}
		inGeneral := protocol.Chat{Kind: "channel", ThreadID: "1"}
		h.startSpawner("agent:lead")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		saidInGarden := h.api.SayIn(forum, garden, will, "in the garden")
		saidInGeneral := h.api.Say(forum, will, "in general")
		next(t, lead) // the topic
		source := next(t, lead).SourceID
		next(t, lead)
		for _, reply := range []protocol.ChatReply{
			{
				Text: "Shall I water it?", InReplyTo: source,
				Buttons: []protocol.Button{{Text: "Yes", Value: "yes"}},
			},
			{Text: "Shall I call?", ThreadID: "1"},
			{Text: "Good morning"},
		} {
			lead.Send(t, topic(forum.ID), protocol.TypeTGReply, reply)
		}
		h.texts(forum.ID, 3)
		calls := h.api.Calls("sendMessage")
		for i, c := range []struct {
			message int
			want    protocol.Chat
		}{
			{saidInGarden.ID, inGarden}, {saidInGeneral.ID, inGeneral},
			{calls[0].Message.ID, inGarden}, {calls[1].Message.ID, inGeneral}, {calls[2].Message.ID, inGeneral},
		} {
			h.api.React(forum, will, c.message, nil, "👍")
			got := next(t, lead)
			if got.Event != protocol.EventReaction || got.Chat.Kind != c.want.Kind || got.Chat.ThreadID != c.want.ThreadID {
				t.Errorf("reaction %d is a %s in %+v; want %+v", i, got.Event, got.Chat, c.want)
			}
		}
		asked := calls[0].Message
		h.api.Inject(&models.Update{CallbackQuery: &models.CallbackQuery{ID: "old", From: will, Data: "yes",
			Message: models.MaybeInaccessibleMessage{
				Type:                models.MaybeInaccessibleMessageTypeInaccessibleMessage,
				InaccessibleMessage: &models.InaccessibleMessage{Chat: asked.Chat, MessageID: asked.ID},
			}}})
		if got := next(t, lead); got.Text != "yes" || got.Chat.ThreadID != inGarden.ThreadID {
			t.Errorf("the press is %q in %+v", got.Text, got.Chat)
		}
	})
}

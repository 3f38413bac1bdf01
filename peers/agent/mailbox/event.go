package mailbox

import (
	"hubbub/peers/attention"
	"hubbub/protocol"
)

// Complete gives the missing fields of a chat message their documented defaults. m
// is the message that brought it.
func Complete(c *protocol.ChatMessage, m *protocol.Message) {
	if c.Chat == nil {
		c.Chat = &protocol.Chat{}
	}
	if c.Author == nil {
		c.Author = &protocol.Author{}
	}
	for _, field := range []struct {
		value    *string
		fallback string
	}{
		{&c.Event, protocol.EventMessage}, {&c.SourceID, string(m.MessageID)}, {&c.CreatedAt, m.Timestamp},
		{&c.Chat.Kind, string(attention.ConversationDM)}, {&c.Chat.ID, m.From.Name()},
		{&c.Author.Kind, string(attention.AuthorHuman)}, {&c.Author.ID, m.From.Name()},
	} {
		if *field.value == "" {
			*field.value = field.fallback
		}
	}
}

// EventOf returns a complete chat message as the attention layer sees it. Its id is
// the message's sourceId.
func EventOf(c *protocol.ChatMessage) attention.Event {
	event := attention.Event{
		EventID: c.SourceID, Kind: attention.EventKind(c.Event), Text: c.Text, Mentions: c.Mentions,
		Conversation: attention.Conversation{
			ID: c.Chat.ID, Kind: attention.ConversationKind(c.Chat.Kind), ThreadID: c.Chat.ThreadID, StreamID: c.Chat.StreamID, Title: c.Chat.Title,
		},
		Author: attention.Author{
			ID: c.Author.ID, Kind: attention.AuthorKind(c.Author.Kind), DisplayName: c.Author.DisplayName, Username: c.Author.Username,
		},
		Priority: attention.Priority(c.Priority), Signal: c.Signal, Attachments: len(c.Attachments),
	}
	if c.ReplyTo != nil {
		event.ReplyTo = &attention.ReplyTo{EventID: c.ReplyTo.SourceID, Author: c.ReplyTo.Author}
	}
	return event
}

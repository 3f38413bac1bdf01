package bridge

import (
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// hookSource starts the sourceId of a message from a hook.
const hookSource = "hook:"

// IsFromHook reports whether the sourceId of an event belongs to a message from a hook.
func IsFromHook(source string) bool { return strings.HasPrefix(source, hookSource) }

// ParseHookMessage returns the content of a chat_message from a hook, or a rejection if
// the message has another origin. The author of the content is always the hook, so that
// a hook cannot speak for a person.
func ParseHookMessage(d *peer.Delivery) (content protocol.ChatMessage, err error) {
	if err := d.Decode(&content); err != nil {
		return content, peer.Reject("the content of this chat_message cannot be read: " + err.Error())
	}
	fromHook := IsFromHook(content.SourceID) && content.Author != nil &&
		strings.HasPrefix(content.SourceID, content.Author.ID+":")
	if !fromHook || content.Text == "" {
		return content, peer.Reject("a chat accepts a chat_message only from a hook: " +
			"it needs a text, a sourceId such as hook:NAME:ID, and the author hook:NAME")
	}
	if content.Event != protocol.EventStatus && content.Event != protocol.EventAssignment {
		return content, peer.Reject("a message from a hook must be a status or an assignment")
	}
	return protocol.ChatMessage{
		Text:      content.Text,
		Event:     content.Event,
		SourceID:  content.SourceID,
		CreatedAt: content.CreatedAt,
		Author: &protocol.Author{
			ID:          content.Author.ID,
			Kind:        string(attention.AuthorSystem),
			DisplayName: strings.TrimPrefix(content.Author.ID, hookSource),
		},
	}, nil
}

package bridge

import (
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// hookSource begins the sourceId of what a hook took.
const hookSource = "hook:"

// IsFromHook reports whether an event is what a hook took.
func IsFromHook(source string) bool { return strings.HasPrefix(source, hookSource) }

// ParseHookMessage returns what a hook took for a chat, out of the chat_message that brings it to the
// chat's bridge, or the rejection of one that brings anything else. Its author is the hook,
// whatever the message says: nobody speaks for people so.
func ParseHookMessage(d *peer.Delivery) (content protocol.ChatMessage, err error) {
	if err := d.Decode(&content); err != nil {
		return content, peer.Reject("the content of this chat_message cannot be read: " + err.Error())
	}
	if !IsFromHook(content.SourceID) || content.Author == nil || !strings.HasPrefix(content.SourceID, content.Author.ID+":") || content.Text == "" {
		return content, peer.Reject("a chat takes as chat_message only what a hook took: with a text, a sourceId such as hook:NAME:ID, and the author hook:NAME")
	}
	if content.Event != protocol.EventStatus && content.Event != protocol.EventAssignment {
		return content, peer.Reject("what a hook took is a status, or an assignment")
	}
	return protocol.ChatMessage{
		Text: content.Text, Event: content.Event, SourceID: content.SourceID, CreatedAt: content.CreatedAt,
		Author: &protocol.Author{ID: content.Author.ID, Kind: string(attention.AuthorSystem), DisplayName: strings.TrimPrefix(content.Author.ID, hookSource)},
	}, nil
}

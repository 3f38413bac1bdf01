// Package directchat implements the direct chat of a person with an agent, for the command line
// and the console. The person's messages come from an identity of the chat, and the agent answers
// it.
package directchat

import (
	"fmt"
	"slices"
	"strings"

	"hubbub/protocol"
)

// Suffix returns the end of the identity of a person's chat with an agent. The identity begins
// with cli: and the person's name. The credential of the agent lets it publish to identities with
// this suffix.
func Suffix(agent protocol.PeerID) string { return ".chat-" + agent.Name() }

// NewMessage returns a message from a person to an agent. self is the identity of the chat.
func NewMessage(self protocol.PeerID, person, text string) protocol.Message {
	return protocol.NewMessage(protocol.TypeChatMessage, self, protocol.ChatMessage{
		Text: text, Chat: &protocol.Chat{ID: string(self), Kind: "dm"},
		Author: &protocol.Author{ID: "cli:" + person, Kind: "human", DisplayName: person},
	})
}

// CheckSent returns an error that says why an agent did not receive a message, or nil.
func CheckSent(agent protocol.PeerID, result *protocol.SendResult) error {
	switch {
	case len(result.Failures) > 0:
		f := result.Failures[0]
		return fmt.Errorf("%s did not accept the message: %s", agent,
			strings.TrimSuffix(string(f.Status)+", "+f.Error, ", "))
	case result.DeliveredTo == 0:
		return fmt.Errorf(
			"%s is not on the bus or has no subscriptions; `hubbub peers` lists peers and subscriptions, and `hubbub "+
				"chat --start %s` starts the agent",
			agent,
			agent,
		)
	}
	return nil
}

// ReplyText returns the text of a reply. It is empty for a reply without text, such as a typing
// indicator.
func ReplyText(r *protocol.ChatReply) string {
	return strings.Join(slices.DeleteFunc([]string{r.Signal, r.Text}, func(s string) bool { return s == "" }), " ")
}

// Package directchat is a direct chat of a person with an agent of a running system, as the
// command line and the console have it: the person's messages come from an identity of the
// chat's own, which the agent answers.
package directchat

import (
	"fmt"
	"slices"
	"strings"

	"hubbub/protocol"
)

// Suffix ends the identity of a person's chat with an agent, which begins with cli: and the
// person's name: to it an agent's credential lets it answer.
func Suffix(agent protocol.PeerID) string { return ".chat-" + agent.Name() }

// Say returns a message of a person to an agent, whose chat is self.
func Say(self protocol.PeerID, person, text string) protocol.Message {
	return protocol.NewMessage(protocol.TypeChatMessage, self, protocol.ChatMessage{
		Text: text, Chat: &protocol.Chat{ID: string(self), Kind: "dm"},
		Author: &protocol.Author{ID: "cli:" + person, Kind: "human", DisplayName: person},
	})
}

// Taken returns an error that says why an agent did not take a message, and nil if it did.
func Taken(agent protocol.PeerID, result *protocol.SendResult) error {
	switch {
	case len(result.Failures) > 0:
		f := result.Failures[0]
		return fmt.Errorf("%s did not take it: %s", agent, strings.TrimSuffix(string(f.Status)+", "+f.Error, ", "))
	case result.DeliveredTo == 0:
		return fmt.Errorf("%s is not on the bus, or subscribes to nothing; `hubbub peers` lists who is and does, and `hubbub chat --start %s` starts it", agent, agent)
	}
	return nil
}

// Spoken is a reply in words, empty if it has none, as a sign that the agent writes.
func Spoken(r *protocol.ChatReply) string {
	return strings.Join(slices.DeleteFunc([]string{r.Signal, r.Text}, func(s string) bool { return s == "" }), " ")
}

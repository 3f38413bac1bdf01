package broker

import (
	"hubbub/protocol"
	"hubbub/protocol/collab"
)

// tellChat sends an event about something in a chat's conversation to that chat, which shows
// it, unless somebody in chats of its kind caused it: they see there what came of it.
func tellChat(t *tx, conversationID string, e collab.Event) {
	c := t.conversations.get(conversationID)
	if c == nil || !isBridge(c.CreatedByIdentity) || protocol.RoleOf(c.CreatedByIdentity) == protocol.RoleOf(t.caller.Identity) {
		return
	}
	t.sends = append(t.sends, sending{to: c.CreatedByIdentity, event: e})
}

// tellPerson sends an event to where a person is: the chat of a conversation if it has one, else
// the person's own chat. Who is known by the command line alone sees it there.
func tellPerson(t *tx, conversationID string, person protocol.PeerID, e collab.Event) {
	if c := t.conversations.get(conversationID); c != nil && isBridge(c.CreatedByIdentity) {
		tellChat(t, conversationID, e)
	} else if isBridge(person) {
		t.sends = append(t.sends, sending{to: person, event: e})
	}
}

// isBridge reports whether an identity is one of a program that shows chats.
func isBridge(id protocol.PeerID) bool {
	role := protocol.RoleOf(id)
	return role == protocol.RoleTG || role == protocol.RoleChorus
}

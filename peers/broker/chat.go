package broker

import (
	"hubbub/peers/broker/rules"
	"hubbub/protocol"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// notifyChat sends an event about a chat's conversation to that chat, which shows it. It does
// nothing if somebody in a chat of the same kind caused the event, because that chat shows the
// outcome.
func notifyChat(t *tx, conversationID string, e collab.Event) {
	c := t.conversations.get(conversationID)
	if c == nil || !isBridge(c.CreatedByIdentity) ||
		protocol.RoleOf(c.CreatedByIdentity) == protocol.RoleOf(t.caller.Identity) {
		return
	}
	t.sends = append(t.sends, sending{to: c.CreatedByIdentity, event: e})
}

// notifyPerson sends an event to a person: to the chat of a conversation if there is one, else to
// the person's own chat. A person who only uses the command line sees it there.
func notifyPerson(t *tx, conversationID string, person protocol.PeerID, e collab.Event) {
	if c := t.conversations.get(conversationID); c != nil && isBridge(c.CreatedByIdentity) {
		notifyChat(t, conversationID, e)
	} else if isBridge(person) {
		t.sends = append(t.sends, sending{to: person, event: e})
	}
}

// isBridge reports whether an identity belongs to a program that shows chats.
func isBridge(id protocol.PeerID) bool { return protocol.IsChat(id) }

// openChat makes the conversation of a chat and binds the chat to its agent, both in the name of
// the chat, unless that is done. A nil chat opens nothing.
func (t conversationHandler) openChat(conversationID string, c *collab.ChatParams) {
	if c == nil {
		return
	}
	if !isBridge(t.caller.Identity) || protocol.RoleOf(c.Identity) != protocol.RoleOf(t.caller.Identity) {
		rules.Fail(collab.CodeForbidden, "%s does not speak for the chat %s", t.caller.Identity,
			text.Clip(string(c.Identity), 80))
	}
	rules.MustBeText("conversationId", conversationID, rules.MaxName)
	rules.MustBeName("chat.identity", string(c.Identity))
	caller, before := t.caller, len(t.events)
	defer func() {
		t.caller = caller
		t.chatEvents = len(t.events) - before
	}()
	t.caller = t.state.Caller(c.Identity, nil)
	if t.conversations.get(conversationID) == nil {
		t.create(collab.ConversationParams{ID: &conversationID, Kind: c.Kind, Title: c.Title, MasterID: c.AgentID})
	}
	if c.AgentID != "" {
		surface := string(protocol.RoleOf(c.Identity))
		t.bind(collab.BindingParams{Surface: surface, ExternalID: string(c.Identity), AgentID: c.AgentID})
	}
}

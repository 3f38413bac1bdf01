package mailbox

import (
	"cmp"
	"slices"
	"strings"

	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// PersonIdentity returns the identity of the author as a person of the chat.
func (e *Entry) PersonIdentity() string { return PersonIdentity(e.Chat, e.Content.Author.ID) }

// PersonIdentity returns the identity of a person of a chat. At the command line, id already is
// an identity.
func PersonIdentity(chat protocol.Topic, id string) string {
	family := protocol.PeerID(chat).Family() + ":"
	return family + strings.TrimPrefix(id, family)
}

// OnBehalfOf returns the person who wrote the event, or "" if it was not a person.
func (e *Entry) OnBehalfOf() string {
	switch {
	case e.Content.Author.Kind != string(attention.AuthorHuman):
		return ""
	case e.FromBroker():
		return e.Content.Author.ID
	}
	return e.PersonIdentity()
}

// QuotedName returns the name of an author for a text of the agent's program. Its markup has no
// effect.
func QuotedName(a *protocol.Author) string {
	name := attention.HeaderValue(cmp.Or(a.DisplayName, a.Username, a.ID))
	const backtick = "\x60"
	return backtick + text.Clip(strings.ReplaceAll(name, backtick, "'"), 60) + backtick
}

// WithNames replaces identities in a text for a chat with the names of the people there, if they
// have written to the agent.
func (v *View) WithNames(said string, chat protocol.Topic, ids ...string) string {
	slices.SortFunc(ids, func(a, b string) int { return len(b) - len(a) }) // tg:77 is a part of tg:770
	var pairs []string
	for _, id := range ids {
		e := v.FindPerson(id, chat)
		if e != nil && protocol.IsPerson(protocol.PeerID(id)) &&
			cmp.Or(e.Content.Author.DisplayName, e.Content.Author.Username) != "" {
			pairs = append(pairs, id, QuotedName(e.Content.Author))
		}
	}
	return strings.NewReplacer(pairs...).Replace(said)
}

// FindPerson returns the newest event from a person in the given chat or, if they do not write
// there, in their direct chat with the agent. It returns nil if there is none. The name is an
// identity ("tg:77"), an author as shown in headers ("human:77"), or a user name.
func (v *View) FindPerson(name string, chat protocol.Topic) *Entry {
	if name = strings.TrimSpace(name); strings.HasPrefix(name, "@") && strings.Contains(name, ":") { // of Matrix
		name = protocol.PeerID(chat).Family() + ":" + name
	}
	name = strings.TrimPrefix(name, "@")
	family, id, typed := strings.Cut(name, ":")
	switch {
	case !typed:
		family, id = "", ""
	case family == string(attention.AuthorHuman):
		family = protocol.PeerID(chat).Family()
	}
	list := v.Events(`WHERE author_kind = 'human' AND chat IN (SELECT topic FROM chats)
		AND (author = ?1 AND chat LIKE ?2 || ':%' OR ?1 = '' AND lower(content ->> '$.author.username') = lower(?3) AND ?3 <> '')
		AND (chat = ?4 OR content ->> '$.chat.kind' = 'dm') ORDER BY chat = ?4 DESC, seq DESC LIMIT 1`, id, family,
		name, chat)
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// ShowsMessages reports whether the bridge of a chat shows each reply as a message of its own,
// which can be edited, have files, and refer to the message that it answers.
func ShowsMessages(chat protocol.Topic) bool {
	family := protocol.PeerID(chat).Family()
	return family == "tg" || family == "mx"
}

// SupportsReplies reports whether a message of the chat can refer to the message it replies to.
func SupportsReplies(chat protocol.Topic) bool { return ShowsMessages(chat) }

// SupportsButtons reports whether a chat can show buttons.
func SupportsButtons(chat protocol.Topic) bool { return protocol.PeerID(chat).Family() == "tg" }

// ObligationID returns the id of the event that all participants use.
func (e *Entry) ObligationID() string {
	return cmp.Or(e.Origin.QuestionID, e.Origin.MessageID, e.SourceID)
}

// PartyIdentity returns the identity of a party that a chat names. An id without a role gets the
// prefix agent: if the party is an agent, and otherwise the chat's family, such as tg:.
func PartyIdentity(p protocol.Party, chat protocol.Topic) string {
	switch {
	case p.ID == "" || protocol.RoleOf(protocol.PeerID(p.ID)) != protocol.RoleUnknown:
		return p.ID
	case p.Kind == string(attention.AuthorAgent):
		return "agent:" + p.ID
	}
	return protocol.PeerID(chat).Family() + ":" + strings.TrimPrefix(p.ID, string(attention.AuthorHuman)+":")
}

// ParseBlocks parses how urgently the author waits. The default is none.
func ParseBlocks(said string) attention.Blocks {
	if b := attention.Blocks(said); slices.Contains(attention.AllBlocks, b) {
		return b
	}
	return attention.BlocksNone
}

// conversationID returns the id of the conversation that a chat message names. Ids of Telegram
// are used as they are. Every other id is prefixed with the identity of its chat, so that a chat
// cannot read or impersonate another chat by naming its id.
func conversationID(given string, from protocol.PeerID) string {
	own := string(from)
	switch {
	case from.Family() == "tg":
		return cmp.Or(given, from.Name())
	case given == "" || given == from.Name():
		return own
	case given == own || strings.HasPrefix(given, own+"/"):
		return given
	}
	return own + "/" + given
}

// AuthorIdentity returns the identity of the event's author. A person's identity belongs to the
// family of the chat, whatever identity the message claims.
func (e *Entry) AuthorIdentity() string {
	switch id := e.Content.Author.ID; {
	case strings.Contains(id, ":") && (e.FromBroker() || e.Content.Author.Kind != string(attention.AuthorHuman)):
		return id
	case e.FromAgent():
		return "agent:" + id
	}
	return e.PersonIdentity()
}

package mailbox

import (
	"time"

	"hubbub/peers/store"
	"hubbub/protocol"
)

// SetPeople stores the people of a chat in the order of its configuration.
func SetPeople(tx *Tx, topic protocol.Topic, people []protocol.PeerID) {
	tx.Exec(`UPDATE chats SET people = ? WHERE topic = ?`, store.JSON{V: people}, topic)
}

// AddChat stores a chat that the agent talks to. conversation may be empty.
func (tx *Tx) AddChat(topic protocol.Topic, conversation string) {
	tx.Exec(`INSERT INTO chats (topic, conversation, configured_at) VALUES (?1, ?2, ?3)
		ON CONFLICT (topic) DO UPDATE SET conversation = CASE WHEN ?2 = '' THEN conversation ELSE ?2 END`, topic,
		conversation, time.Now().UnixMicro())
}

// ConversationOf returns the conversation of a chat, or "" if it is unknown.
func (v *View) ConversationOf(chat protocol.Topic) string {
	return store.Value[string](v.Tx, `SELECT conversation FROM chats WHERE topic = ?`, chat)
}

// AssignedChat returns an entry for the chat that target names, by topic or by conversation, or
// nil if the agent does not talk to that chat.
func (v *View) AssignedChat(target string) *Entry {
	there, ok := store.One(v.Tx, func(e *Entry) []any {
		e.Content.Chat = &protocol.Chat{}
		return []any{&e.Chat, &e.Content.Chat.ID, &e.Content.Chat.Kind, &e.Content.Chat.TimeZone}
	}, `SELECT topic, conversation,
		coalesce((SELECT iif(content ->> '$.chat.kind' = 'dm', 'dm', 'channel') FROM events WHERE chat = topic ORDER BY seq DESC LIMIT 1), ''),
		coalesce((SELECT content ->> '$.chat.timeZone' FROM events WHERE chat = topic ORDER BY seq DESC LIMIT 1), '')
		FROM chats WHERE (topic IN (?1, 'tg:' || ?1) OR conversation = ?1) AND topic <> ?2 ORDER BY topic = ?1 DESC, topic LIMIT 1`, target, protocol.TopicBroker)
	if !ok || !protocol.IsIdentity(there.Chat) {
		return nil
	}
	there.Content.Author = &protocol.Author{}
	there.Content.Chat.ID = conversationID(there.Content.Chat.ID, protocol.PeerID(there.Chat))
	return &there
}

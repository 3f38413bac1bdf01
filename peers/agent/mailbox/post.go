package mailbox

import (
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// PostKey begins the keys of messages that the agent sends without an event.
const PostKey = "post:"

// A Post is a message to a chat that answers no event.
type Post struct {
	Key, Text    string
	Directedness string
	Reason       string // as the model gives it
	Turn         string // that sends it; may be empty
	Cause        *Entry // the event of that turn, or nil
}

// AssignedChat returns an entry for the chat that target names, by topic or by conversation, or
// nil if the agent does not talk to that chat.
func (v *View) AssignedChat(target string) *Entry {
	there, ok := store.One(v.Tx, func(e *Entry) []any {
		e.Content.Chat = &protocol.Chat{}
		return []any{&e.Chat, &e.Content.Chat.ID}
	}, `SELECT topic, conversation FROM chats WHERE (topic IN (?1, 'tg:' || ?1) OR conversation = ?1) AND topic <> ?2 ORDER BY topic = ?1 DESC, topic LIMIT 1`, target, protocol.TopicBroker)
	if !ok || !protocol.IsIdentity(there.Chat) {
		return nil
	}
	there.Content.Author = &protocol.Author{}
	there.Content.Chat.ID = conversationID(there.Content.Chat.ID, protocol.PeerID(there.Chat))
	return &there
}

// A PostContext has the recorded facts that decide whether the agent may post to a chat.
type PostContext struct {
	Left     bool                     // the agent was asked to leave and has not been named since
	Halted   bool                     // by a person, there or everywhere
	Exchange attention.ExchangeAction // about the messages of agents there since a person wrote
	Posts    int                      // posts there within the budget window
}

// PostContext returns the facts about a chat from AssignedChat.
func (v *View) PostContext(there *Entry) (f PostContext) {
	_, f.Halted = v.halted(&Turn{Chat: there.Chat})
	f.Left, f.Exchange = v.participation(there).hasLeft(), v.Exchange(there).Next(time.Now())
	f.Posts = store.Value[int](v.Tx, `SELECT count(*) FROM sent WHERE chat = ? AND key LIKE 'post:%' AND sent_at > ?`, there.Chat, budgetSince(v.Tx))
	return f
}

// Queue queues and records the post, and marks its turn as having acted.
func (p Post) Queue(tx *Tx, there *Entry) protocol.MessageID {
	m := tx.m.MessageFor(p.Cause, ReplyType(there.Chat), protocol.ChatReply{Text: p.Text, IdempotencyKey: p.Key, Directedness: p.Directedness})
	tx.Enqueue(there.Chat, p.Key, m)
	tx.Exec(`INSERT INTO sent (`+sentNames+`, key, chat) VALUES (?, '', ?, '', ?, ?, ?, ?, ?)`,
		m.MessageID, there.Content.Chat.ID, SentText, p.Text, time.Now().UnixMicro(), p.Key, there.Chat)
	tx.Exec(`UPDATE turns SET outbound = 1 WHERE turn_id = ?`, p.Turn)
	event := ""
	if p.Cause != nil {
		event = p.Cause.EventID
	}
	tx.Record(UniqueKey("post", time.Now().UnixMicro()), p.Cause, map[string]any{
		"event": "post", "eventId": event, "agent": tx.m.id, "messageId": m.MessageID, "target": there.Chat, "directedness": p.Directedness, "reason": p.Reason,
	})
	return m.MessageID
}

package chorus

import (
	"encoding/json"
	"fmt"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// An adapter connects the channels of inboxes, as chats, to the bridge.
type adapter struct{ g *Gateway }

// FindChat returns the channel that a topic names.
func (c adapter) FindChat(tx *store.Tx, topic protocol.Topic) (protocol.PeerID, string) {
	peer, found := store.One(tx, store.Scalar[protocol.PeerID], `SELECT peer FROM channel WHERE peer = ?`, topic)
	if !found {
		return "", "there is no such channel"
	}
	return peer, ""
}

// Message returns the chat_message of an event. Every attempt has the same messageId and sourceId,
// by which the agent recognizes it.
func (c adapter) Message(tx *store.Tx, e *bridge.Event) (protocol.Message, error) {
	in := one(
		tx,
		outbox.Permanent(errNotKept),
		func(in *inboundMessage) []any { return []any{&in.messageID, (*[]byte)(&in.content)} },
		`SELECT message_id, content FROM inbound WHERE seq = ?`,
		e.ID,
	)
	if tx.Err() != nil {
		return protocol.Message{}, tx.Err()
	}
	in.channel = e.Chat
	var content protocol.ChatMessage
	if err := json.Unmarshal(in.content, &content); err != nil {
		return protocol.Message{}, outbox.Permanent(fmt.Errorf("message %d cannot be read: %w", e.ID, err))
	}
	room := content.Chat != nil && content.Author != nil && content.Chat.Kind == string(attention.ConversationChannel)
	if room && !bridge.IsFromHook(content.SourceID) { // posts of hooks are quotations and mention nobody
		c.address(tx, e, &content)
		raw, err := json.Marshal(content)
		tx.Fail(err)
		in.content = raw
	}
	return in.message(), tx.Err()
}

// onNotice reports to the callback of the oldest waiting message, once, that no agent is available.
// The messages are kept.
func (c adapter) onNotice(tx *store.Tx, n *bridge.Notice) {
	why := "no agent is available yet; the message is kept"
	if n.Kind == bridge.NoticeStartFailed || n.Kind == bridge.NoticeAgentFailed {
		why = "no agent could be started; the message is kept"
	}
	seq, found := store.One(
		tx,
		store.Scalar[int64],
		`SELECT seq FROM inbound WHERE channel = ? AND forwarded_at = 0 ORDER BY seq LIMIT 1`,
		n.Chat,
	)
	if found {
		c.g.callbacks.putError(tx, n.Chat, seq, "no-agent", why, codeNoAgent)
	}
}

// codeNoAgent is the error code if no agent is available yet and the message is kept.
const codeNoAgent = "no_agent"

// onSettled records that the agent has a message, or reports to its callback that no agent will
// get it.
func (c adapter) onSettled(tx *store.Tx, e *bridge.Event, outcome outbox.State, cause error) {
	tx.Exec(`UPDATE inbound SET forwarded_at = ? WHERE seq = ?`, micros(c.g.store.now()), e.ID)
	if outcome != outbox.StateSent && tx.Err() == nil {
		c.g.opts.Log.Warn().
			Str("peer", string(e.Chat)).
			Int64("message", e.ID).
			Err(cause).
			Msg("message abandoned; reported to its callback")
		c.g.callbacks.putError(tx, e.Chat, e.ID, "given-up", fmt.Sprintf("no agent took the message: %v", cause),
			"not_delivered")
	}
}

package tg

import (
	"context"
	"strings"
	"time"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// takeHookMessage stores a message from a hook as an event of its chat. People do not see it,
// only what the agents make of it. Its text mentions nobody. An assignment is for the chat's
// first agent.
func (in *ingester) takeHookMessage(ctx context.Context, d *peer.Delivery) error {
	content, err := bridge.ParseHookMessage(d)
	if err != nil {
		return err
	}
	return store.InTx(ctx, in.db, func(tx *store.Tx) {
		c, refusal := in.chatForReply(tx, d.Topic)
		switch {
		case refusal != "":
			tx.Fail(peer.Reject(refusal))
			return
		case !in.admitsTopic(tx, c.key):
			tx.Fail(peer.Reject("the chat is no longer admitted"))
			return
		case c.isMuted():
			tx.Fail(peer.Reject("the chat is stopped, or the bot is not a member of it"))
			return
		}
		content.Chat = &protocol.Chat{ID: id(c.key), Kind: string(attention.ConversationChannel), Title: c.title}
		if c.isDirect() {
			content.Chat.Kind, content.Chat.Title = string(attention.ConversationDM), ""
		}
		data := eventData{Content: content}
		if content.Event == protocol.EventAssignment {
			data.Names = []string{strings.ToLower(in.me.Username)}
		}
		event, fresh := store.One(tx, store.Scalar[int64],
			`INSERT INTO events (bot, chat, telegram_chat, message, source_id, data, bus_id, received_at)
			SELECT ?1, ?2, ?3, 0, ?4, ?5, ?6, ?7 WHERE NOT EXISTS (SELECT 1 FROM events WHERE bot = ?1 AND chat = ?2 AND source_id = ?4) RETURNING id`,
			in.bot, c.key, c.telegram, content.SourceID, string(mustJSON(data)), string(protocol.NewMessageID()),
			nowMicros())
		if fresh {
			in.router.Deliver(tx, &bridge.Event{ID: event, Chat: peerOf(c.key), Source: content.SourceID}, time.Time{})
		}
	})
}

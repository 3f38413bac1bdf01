package tg

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// An adapter implements [bridge.Adapter] for the bot's chats.
type adapter struct {
	*outbound
}

// FindChat implements [bridge.Adapter].
func (a *adapter) FindChat(tx *store.Tx, topic protocol.Topic) (id protocol.PeerID, refusal string) {
	key, err := chatOf(topic)
	if err != nil {
		return "", err.Error()
	}
	c, known := a.load(tx, key)
	switch {
	case !known:
		return "", fmt.Sprintf("this bot has no chat %d", key)
	case !a.admitsTopic(tx, c.key):
		refusal = fmt.Sprintf("chat %d is not admitted", c.key)
	}
	return peerOf(c.key), refusal
}

// Message implements [bridge.Adapter]. It builds the tg_message of an event from what is known
// now about agents and people. Its messageId is the same at each attempt and different for each
// agent; the agents share the sourceId.
func (a *adapter) Message(tx *store.Tx, e *bridge.Event) (protocol.Message, error) {
	var bus string
	var telegramChat int64
	raw, found := store.One(tx, func(raw *[]byte) []any { return []any{raw, &bus, &telegramChat} },
		`SELECT data, bus_id, telegram_chat FROM events WHERE id = ?`, e.ID)
	if !found {
		return protocol.Message{}, fmt.Errorf("reading event %d: %w", e.ID, cmp.Or(tx.Err(), errNotStored))
	}
	var d eventData
	if err := json.Unmarshal(raw, &d); err != nil {
		return protocol.Message{}, outbox.Permanent(fmt.Errorf("event %d cannot be read: %w", e.ID, err))
	}
	content := d.Content
	content.Mentions = bridge.ResolveMentions(d.Names, e.Agents, a.me.Username, func(name string) bool {
		return strings.HasSuffix(name, "bot") ||
			store.Value[bool](tx, `SELECT 1 FROM people WHERE bot = ? AND username = ?`, a.bot, name)
	})
	if d.ReplyText != "" {
		content.ReplyTo = &protocol.ReplyTo{Name: d.ReplyName, Text: d.ReplyText, Attachments: d.ReplyFiles}
	}
	if d.ReplyMessage != 0 {
		content.ReplyTo = &protocol.ReplyTo{
			Name: d.ReplyName, Text: d.ReplyText, Attachments: d.ReplyFiles,
			SourceID: a.sourceID(telegramChat, d.ReplyMessage),
			Author: store.Value[string](tx, `SELECT r.agent FROM sends s JOIN replies r ON r.id = s.reply
				WHERE s.bot = ? AND s.telegram_chat = ? AND s.message = ? AND s.message > 0`, a.bot, telegramChat,
				d.ReplyMessage),
		}
		switch {
		case content.ReplyTo.Author != "":
		case d.ReplyToBot && len(e.Agents) > 0:
			content.ReplyTo.Author = string(e.Agents[0])
		case d.ReplyUser != "":
			content.ReplyTo.Author = "user:" + strings.ToLower(d.ReplyUser)
		case content.Event == protocol.EventReaction && a.isSending(tx, e.Chat):
			return protocol.Message{}, bridge.ErrBeingSent
		}
	}
	if tx.Err() != nil {
		return protocol.Message{}, tx.Err()
	}
	return bridge.NewMessage(protocol.TypeTGMessage, e, bus, &content)
}

// isSending reports whether a send to the chat began within the last minute and has not ended.
func (a *adapter) isSending(tx *store.Tx, chat protocol.PeerID) bool {
	key, err := chatOf(chat.Topic())
	tx.Fail(err)
	return store.Value[bool](tx,
		`SELECT EXISTS (SELECT 1 FROM sends WHERE bot = ? AND chat = ? AND begun_at > ? AND attempt > 0 AND kind = 'text')`,
		a.bot, key, nowMicros()-time.Minute.Microseconds())
}

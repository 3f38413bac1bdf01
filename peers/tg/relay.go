package tg

import (
	"slices"
	"strconv"
	"strings"

	"hubbub/peers/attention"
	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// relayToOtherAgents delivers what an agent said, and people have seen, to the other agents of
// the chat as an event. In a direct chat with several agents the event counts as said in a
// channel: it is for none of them unless it names one.
func (out *outbound) relayToOtherAgents(tx *store.Tx, o *outgoing, telegramChat int64, message int) {
	source := out.sourceID(telegramChat, message)
	out.view(o.chat).Relay(tx, o.agent, &o.content, source, func() int64 {
		return store.Value[int64](tx, `INSERT INTO events
			(bot, chat, telegram_chat, message, thread, source_id, album, data, bus_id, received_at)
			VALUES (?, ?, ?, ?, ?, ?, '', ?, ?, ?) RETURNING id`,
			out.bot, o.chat.key, telegramChat, message, threadFor(tx, &o.content), source,
			string(mustJSON(out.relayedData(tx, o))), string(protocol.NewMessageID()), nowMicros())
	})
}

// relayedData returns a reply as event data for the other agents. The bot's name does not mean
// the first agent here, since no person wrote it.
func (out *outbound) relayedData(tx *store.Tx, o *outgoing) *eventData {
	content := &o.content
	d := &eventData{Content: bridge.RelayedMessage(protocol.PeerID(o.agent), content, &protocol.Chat{
		ID: id(o.chat.key), Kind: string(attention.ConversationChannel), Title: o.chat.title,
	})}
	d.Names = slices.DeleteFunc(mentionedNames(content.Text, nil, &out.me),
		func(name string) bool { return strings.EqualFold(name, out.me.Username) })
	if thread := threadFor(tx, content); thread > generalThread {
		d.Content.Chat.Kind, d.Content.Chat.ThreadID = string(attention.ConversationThread), strconv.Itoa(thread)
	}
	// a name takes precedence over the answered message
	if _, _, message, ok := parseSource(content.ReplyTo); ok && len(d.Names) == 0 {
		d.ReplyMessage = message
	}
	return d
}

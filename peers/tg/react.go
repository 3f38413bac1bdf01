package tg

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/peers/tg/markdown"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// react shows a signal as the bot's reaction to a message. A bot has one reaction
// per message: where another agent's signal stands, and where the chat does not
// take the emoji, a short line says it instead.
func (out *outbound) react(ctx context.Context, o *outgoing) (*models.Message, error) {
	_, telegramChat, message, ok := parseSource(o.content.InReplyTo)
	if !ok {
		return nil, outbox.Permanent(fmt.Errorf("%q is no message in Telegram that could get a reaction", o.content.InReplyTo))
	}
	if telegramChat != o.chat.telegram {
		return nil, outbox.Permanent(fmt.Errorf("%s is not in this chat", o.content.InReplyTo))
	}
	type reaction struct{ holder, signal string }
	tx := store.On(ctx, out.db)
	shown, _ := store.One(tx, func(r *reaction) []any { return []any{&r.holder, &r.signal} },
		`SELECT agent, signal FROM reactions WHERE bot = ? AND telegram_chat = ? AND message = ?`, out.bot, telegramChat, message)
	signal, others := o.body, shown.holder != "" && shown.holder != o.agent
	switch {
	case tx.Err() != nil:
		return nil, tx.Err()
	case shown.signal == signal, others && signal == "seen":
		return nil, nil // it is there already, whoever set it, or another that says at least that
	case others && shown.signal != "seen":
		return out.statusLine(ctx, o)
	}
	err := out.call(ctx, "setMessageReaction", map[string]any{
		"chat_id": telegramChat, "message_id": message,
		"reaction": []map[string]string{{"type": "emoji", "emoji": reactionOf[signal]}},
	}, nil)
	if refused, ok := errors.AsType[*botapi.Error](err); ok && refused.Code == 400 && refused.MigrateTo == 0 &&
		(refused.Says("REACTION") || refused.Says("not enough rights") || refused.Says("can't be")) {
		return out.statusLine(ctx, o)
	}
	if err != nil {
		return nil, o.idempotent(err)
	}
	tx = store.On(context.WithoutCancel(ctx), out.db)
	tx.Exec(`INSERT OR REPLACE INTO reactions (bot, telegram_chat, message, agent, signal) VALUES (?, ?, ?, ?, ?)`,
		out.bot, telegramChat, message, o.agent, signal)
	return nil, tx.Err()
}

// statusLine sends a signal in words, as an answer to its message.
func (out *outbound) statusLine(ctx context.Context, o *outgoing) (*models.Message, error) {
	line := *o
	line.content.ReplyTo = o.content.InReplyTo
	text := fmt.Sprintf("%s %s: %s", reactionOf[o.body], protocol.PeerID(o.agent).Name(), o.body)
	return out.sendText(ctx, &line, markdown.Plain(text))
}

// reactionOf maps signals to the emoji that show them. Telegram accepts 73
// emoji as reactions; of the usual ones for signals it takes only two.
var reactionOf = map[string]string{
	"seen":     "👀",
	"agree":    "👍",
	"working":  "👨‍💻",
	"queued":   "✍",
	"claimed":  "🫡",
	"done":     "👌",
	"declined": "🤷",
	"blocked":  "😨",
	"unclear":  "🤔",
}

// signalOf returns the signal that a person's reaction gives, empty for emoji
// without a meaning. Variation selectors and genders do not matter.
func signalOf(emoji string) string {
	plain := strings.NewReplacer("\ufe0f", "", "\u200d♂", "", "\u200d♀", "").Replace(emoji)
	for signal, e := range reactionOf {
		if e == plain {
			return signal
		}
	}
	return ""
}

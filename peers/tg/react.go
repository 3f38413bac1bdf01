package tg

import (
	"context"
	"errors"
	"fmt"

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// react shows a signal as the bot's reaction to a message. A bot has only one reaction per
// message. If another agent's signal is shown there, or the chat refuses the emoji, the signal is
// sent as a short text.
func (out *outbound) react(ctx context.Context, o *outgoing) (*models.Message, error) {
	_, telegramChat, message, ok := parseSource(o.content.InReplyTo)
	if !ok {
		return nil, outbox.Permanent(fmt.Errorf("%q is not a Telegram message, so it cannot get a reaction",
			o.content.InReplyTo))
	}
	if telegramChat != o.chat.telegram {
		return nil, outbox.Permanent(fmt.Errorf("%s is not in this chat", o.content.InReplyTo))
	}
	type reaction struct{ holder, signal string }
	shown, err := store.Read(ctx, out.db, func(tx *store.Tx) reaction {
		r, _ := store.One(tx, func(r *reaction) []any { return []any{&r.holder, &r.signal} },
			`SELECT agent, signal FROM reactions WHERE bot = ? AND telegram_chat = ? AND message = ?`, out.bot,
			telegramChat, message)
		return r
	})
	signal, others := o.body, shown.holder != "" && shown.holder != o.agent
	switch {
	case err != nil:
		return nil, err
	case shown.signal == signal, others && signal == "seen":
		return nil, nil // the same signal, or one that implies it, is already shown
	case others && shown.signal != "seen":
		return out.sendSignalText(ctx, o)
	}
	err = out.call(ctx, "setMessageReaction", map[string]any{
		"chat_id": telegramChat, "message_id": message,
		"reaction": []map[string]string{{"type": "emoji", "emoji": out.opts.glyphs()[signal]}},
	}, nil)
	if refused, ok := errors.AsType[*botapi.Error](err); ok && refused.Code == 400 && refused.MigrateTo == 0 &&
		(refused.Says("REACTION") || refused.Says("not enough rights") || refused.Says("can't be")) {
		return out.sendSignalText(ctx, o)
	}
	if err != nil {
		return nil, o.retryUnanswered(err)
	}
	return nil, store.Exec(context.WithoutCancel(ctx), out.db,
		`INSERT OR REPLACE INTO reactions (bot, telegram_chat, message, agent, signal) VALUES (?, ?, ?, ?, ?)`,
		out.bot, telegramChat, message, o.agent, signal)
}

// sendSignalText sends a signal in words, as a reply to its message.
func (out *outbound) sendSignalText(ctx context.Context, o *outgoing) (*models.Message, error) {
	line := *o
	line.content.ReplyTo = o.content.InReplyTo
	text := fmt.Sprintf("%s %s: %s", out.opts.glyphs()[o.body], protocol.PeerID(o.agent).Name(), o.body)
	return out.sendText(ctx, &line, markdown.Plain(text))
}

// defaultGlyphs are the default emoji of signals. Telegram accepts only 73 emoji as reactions,
// among them two of those usually used for signals.
var defaultGlyphs = bridge.Glyphs{
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

// glyphs returns the emoji of signals.
func (o *Options) glyphs() bridge.Glyphs { return defaultGlyphs.With(o.Glyphs) }

package tg

import (
	"context"
	"errors"
	"fmt"

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
	holder, shown, err := out.shownSignal(ctx, telegramChat, message)
	if err != nil {
		return nil, err
	}
	signal := o.body
	switch {
	case shown == signal:
		return nil, nil // it is there already, whoever set it
	case holder != "" && holder != o.agent && signal == "seen":
		return nil, nil // the other signal says at least that
	case holder != "" && holder != o.agent && shown != "seen":
		return out.statusLine(ctx, o)
	}
	err = out.call(ctx, "setMessageReaction", map[string]any{
		"chat_id": telegramChat, "message_id": message,
		"reaction": []map[string]string{{"type": "emoji", "emoji": reactionOf[signal]}},
	}, nil)
	var refused *botapi.Error
	if errors.As(err, &refused) && refused.Code == 400 && refused.MigrateTo == 0 &&
		(refused.Says("REACTION") || refused.Says("not enough rights") || refused.Says("can't be")) {
		return out.statusLine(ctx, o)
	}
	if err != nil {
		return nil, o.idempotent(err)
	}
	return nil, store.Exec(context.WithoutCancel(ctx), out.db, `INSERT OR REPLACE INTO reactions (bot, telegram_chat, message, agent, signal) VALUES (?, ?, ?, ?, ?)`,
		out.bot, telegramChat, message, o.agent, signal)
}

// shownSignal returns the signal that a message shows, and the agent that gave it.
func (out *outbound) shownSignal(ctx context.Context, telegramChat int64, message int) (agent, signal string, err error) {
	_, _, err = store.One(ctx, out.db, func(row store.Row) (struct{}, error) { return struct{}{}, row.Scan(&agent, &signal) },
		`SELECT agent, signal FROM reactions WHERE bot = ? AND telegram_chat = ? AND message = ?`, out.bot, telegramChat, message)
	return agent, signal, err
}

// statusLine sends a signal in words, as an answer to its message.
func (out *outbound) statusLine(ctx context.Context, o *outgoing) (*models.Message, error) {
	line := *o
	line.content.ReplyTo = o.content.InReplyTo
	text := fmt.Sprintf("%s %s: %s", reactionOf[o.body], protocol.PeerID(o.agent).Name(), o.body)
	return out.sendText(ctx, &line, markdown.Plain(text))
}

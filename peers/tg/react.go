package tg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
		return out.sendSignalText(ctx, o)
	}
	err := out.call(ctx, "setMessageReaction", map[string]any{
		"chat_id": telegramChat, "message_id": message,
		"reaction": []map[string]string{{"type": "emoji", "emoji": out.opts.glyph(signal)}},
	}, nil)
	if refused, ok := errors.AsType[*botapi.Error](err); ok && refused.Code == 400 && refused.MigrateTo == 0 &&
		(refused.Says("REACTION") || refused.Says("not enough rights") || refused.Says("can't be")) {
		return out.sendSignalText(ctx, o)
	}
	if err != nil {
		return nil, o.retryUnanswered(err)
	}
	tx = store.On(context.WithoutCancel(ctx), out.db)
	tx.Exec(`INSERT OR REPLACE INTO reactions (bot, telegram_chat, message, agent, signal) VALUES (?, ?, ?, ?, ?)`,
		out.bot, telegramChat, message, o.agent, signal)
	return nil, tx.Err()
}

// sendSignalText sends a signal in words, as an answer to its message.
func (out *outbound) sendSignalText(ctx context.Context, o *outgoing) (*models.Message, error) {
	line := *o
	line.content.ReplyTo = o.content.InReplyTo
	text := fmt.Sprintf("%s %s: %s", out.opts.glyph(o.body), protocol.PeerID(o.agent).Name(), o.body)
	return out.sendText(ctx, &line, markdown.Plain(text))
}

// signalEmoji maps signals to the emoji that show them. Telegram accepts 73
// emoji as reactions; of the usual ones for signals it takes only two.
var signalEmoji = map[string]string{
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

// plainEmoji leaves out variation selectors and genders, which do not matter.
var plainEmoji = strings.NewReplacer("\ufe0f", "", "\u200d♂", "", "\u200d♀", "")

// emojiAliases are emoji that people use for a signal besides the one that shows it.
var emojiAliases = map[string]string{"👎": "declined", "✅": "done", "❓": "unclear"}

// signalOf returns the signal that a person's reaction gives, empty for emoji
// without a meaning.
func (o *Options) signalOf(emoji string) string {
	plain := plainEmoji.Replace(emoji)
	for signal := range signalEmoji {
		if plainEmoji.Replace(o.glyph(signal)) == plain {
			return signal
		}
	}
	return emojiAliases[plain]
}

// glyph returns the emoji that shows a signal.
func (o *Options) glyph(signal string) string { return cmp.Or(o.Glyphs[signal], signalEmoji[signal]) }

// ParseGlyphs reads a choice of emoji for signals, such as working=🔥.
func ParseGlyphs(list []string) (map[string]string, error) {
	glyphs := map[string]string{}
	for _, given := range list {
		signal, emoji, _ := strings.Cut(given, "=")
		if signalEmoji[signal] == "" || emoji == "" {
			return nil, fmt.Errorf("%q is not of the form SIGNAL=EMOJI with one of the signals %s", given, strings.Join(slices.Sorted(maps.Keys(signalEmoji)), ", "))
		}
		glyphs[signal] = emoji
	}
	return glyphs, nil
}

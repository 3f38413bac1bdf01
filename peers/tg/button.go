package tg

import (
	"context"
	"errors"

	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/peers/tg/markdown"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// buttonsInRow is how many buttons stand beside each other.
const buttonsInRow = 2

// addKeyboard puts buttons under a message.
func addKeyboard(params map[string]any, buttons []protocol.Button) {
	var rows [][]models.InlineKeyboardButton
	for i, b := range buttons {
		if i%buttonsInRow == 0 {
			rows = append(rows, nil)
		}
		last := &rows[len(rows)-1]
		*last = append(*last, models.InlineKeyboardButton{Text: b.Text, CallbackData: b.Value})
	}
	if rows != nil {
		params["reply_markup"] = models.InlineKeyboardMarkup{InlineKeyboard: rows}
	}
}

// lastText reports whether a part is the last text of its reply, under which the buttons stand.
func (o *outgoing) lastText(tx *store.Tx) bool {
	return len(o.content.Buttons) > 0 && o.kind == kindText &&
		o.Part == store.Value[int](tx, `SELECT max(part) FROM sends WHERE reply = ? AND kind = 'text'`, o.Reply)
}

// edits reports whether a part takes the place of an earlier message; what does not fit into
// it follows as a message.
func (o *outgoing) edits() bool { return o.kind == kindText && o.content.Edits != "" && o.Part == 0 }

// edit puts a text in the place of the message that its agent sent under the key
// of Edits, and takes its buttons away. Where that message was not shown for certain, or cannot
// be edited any more, the text comes as a message.
func (out *outbound) edit(ctx context.Context, o *outgoing, t markdown.Text) (*models.Message, error) {
	tx := store.On(ctx, out.db)
	message := store.Value[int](tx, `SELECT s.message FROM sends s JOIN replies r ON r.id = s.reply
		WHERE r.bot = ? AND r.chat = ? AND r.agent = ? AND r.key = ? AND s.telegram_chat = ? AND s.kind = 'text' ORDER BY s.part DESC LIMIT 1`,
		out.bot, o.chat.key, o.agent, o.content.Edits, o.chat.telegram)
	switch {
	case tx.Err() != nil:
		return nil, tx.Err()
	case message == 0:
		return out.sendText(ctx, o, t)
	}
	params := map[string]any{"chat_id": o.chat.telegram, "message_id": message, "text": t.Text}
	if len(t.Entities) > 0 {
		params["entities"] = t.Entities
	}
	addKeyboard(params, o.content.Buttons)
	err := out.call(ctx, "editMessageText", params, nil)
	refused, ok := errors.AsType[*botapi.Error](err)
	switch {
	case err == nil, ok && refused.Code == 400 && refused.Says("not modified"): // an attempt before was cut off after it
		return &models.Message{ID: message}, nil
	case ok && refused.Code == 400 && refused.MigrateTo == 0:
		out.log.Info().Err(err).Str("topic", string(topicOf(o.chat.key))).Msg("message not edited; its new text is sent")
		return out.sendText(ctx, o, t)
	}
	return nil, o.idempotent(err)
}

// errNoButton is why a press is not passed on.
const errNoButton = "a button that no message of this chat has"

// press checks that the button which was pressed stands under a message of this chat, since
// whoever is in it can send any data as a press, and stops its spinning. It returns why no
// agent hears of it. A message that may have been shown counts, whatever its number.
func (in *intake) press(tx *store.Tx, c *chat, h *happening) (skip string) {
	value := h.draft.Content.Text
	known := value == "" || store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM replies r JOIN sends s ON s.reply = r.id, json_each(r.content, '$.buttons') b
		WHERE r.bot = ?1 AND r.chat = ?2 AND s.message IN (?3, 0) AND b.value ->> '$.value' = ?4)`, in.bot, c.key, h.message, value)
	answer := &reply{chat: c.key, key: "callback:" + h.callback, callback: h.callback}
	if !known {
		skip, answer.content.Text = errNoButton, "This button is none of this bot's, or its message is too old."
		in.log.Warn().Int64("chat", c.key).Int64("user", h.user).Int("message", h.message).Msg("a press was refused: no message here has this button")
	}
	in.own(tx, answer)
	return skip
}

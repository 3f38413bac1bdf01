package tg

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"
	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/go-telegram/bot/models"
)

// buttonsPerRow is the number of buttons in a row of the keyboard.
const buttonsPerRow = 2

// addKeyboard adds buttons to the parameters of a message.
func addKeyboard(params map[string]any, buttons []protocol.Button) {
	var rows [][]models.InlineKeyboardButton
	for i, b := range buttons {
		if i%buttonsPerRow == 0 {
			rows = append(rows, nil)
		}
		last := &rows[len(rows)-1]
		*last = append(*last, models.InlineKeyboardButton{Text: labelOf(b), CallbackData: b.Value})
	}
	if rows != nil {
		params["reply_markup"] = models.InlineKeyboardMarkup{InlineKeyboard: rows}
	}
}

// labelOf returns the text of a button without the marks of Markdown, which Telegram would show
// literally.
func labelOf(b protocol.Button) string { return cmp.Or(markdown.Render(b.Text).Text, b.Text) }

// errNoButton is why a press without a known button is skipped; maxAnswer bounds the answer that
// Telegram shows.
const (
	errNoButton = "a button that no message of this chat has"
	maxAnswer   = 200
)

// isLastText reports whether a part is the last text of its reply, which carries the buttons.
func (o *outgoing) isLastText(tx *store.Tx) bool {
	return len(o.content.Buttons) > 0 && o.kind == kindText &&
		o.Part == store.Value[int](tx, `SELECT max(part) FROM sends WHERE reply = ? AND kind = 'text'`, o.Reply)
}

// isEdit reports whether a part replaces an earlier message. The parts that follow are sent as
// new messages.
func (o *outgoing) isEdit() bool { return o.kind == kindText && o.content.Edits != "" && o.Part == 0 }

// editTarget returns the number of the message that an edit replaces, or 0 if it is not known to
// have been sent.
func (out *outbound) editTarget(tx *store.Tx, o *outgoing) int {
	if !o.isEdit() {
		return 0
	}
	return store.Value[int](tx, `SELECT s.message FROM sends s JOIN replies r ON r.id = s.reply
		WHERE r.bot = ? AND r.chat = ? AND r.agent = ? AND r.key = ? AND s.telegram_chat = ? AND s.kind = 'text' ORDER BY s.part DESC LIMIT 1`,
		out.bot, o.chat.key, o.agent, o.content.Edits, o.chat.telegram)
}

// mayRepeat reports whether a call may safely be made twice: an edit, or the answer to a press.
func (out *outbound) mayRepeat(tx *store.Tx, o *outgoing) bool {
	return o.kind == kindCallback || out.editTarget(tx, o) != 0
}

// editMessage replaces the text of the message that its agent sent with the key in Edits, and
// removes its buttons. If Telegram refuses the edit, the next attempt sends the text as a new
// message.
func (out *outbound) editMessage(ctx context.Context, o *outgoing, t markdown.Text, message int) (*models.Message,
	error) {
	params := map[string]any{"chat_id": o.chat.telegram, "message_id": message}
	out.setText(params, &textMethod, t)
	last, err := store.Read(ctx, out.db, o.isLastText)
	if err != nil {
		return nil, err
	}
	if last {
		addKeyboard(params, o.content.Buttons)
	}
	err = out.callWithText(ctx, "editMessageText", params, t, nil)
	refused, ok := errors.AsType[*botapi.Error](err)
	switch {
	// an interrupted attempt has made the edit
	case err == nil, ok && refused.Code == 400 && refused.Says("not modified"):
		return &models.Message{ID: message}, nil
	case ok && refused.Code == 400 && refused.MigrateTo == 0:
		out.log.Info().Err(err).Str("topic", string(topicOf(o.chat.key))).
			Msg("message not edited; sending the new text as a message")
		stored := store.Exec(context.WithoutCancel(ctx), out.db,
			`UPDATE replies SET content = json_set(json_remove(content, '$.edits'), '$.replaced', ?)
				WHERE id = ?`, o.content.Edits, o.Reply)
		return nil, cmp.Or(stored, errors.New(refused.Error()))
	}
	return nil, o.retryUnanswered(err)
}

// isAboutButtons reports whether Telegram refused a message because of its buttons.
func isAboutButtons(refused *botapi.Error) bool {
	return slices.ContainsFunc([]string{"button", "BUTTON", "markup", "MARKUP", "keyboard"}, refused.Says)
}

// choices names the buttons of a message where Telegram does not show them, or returns "" if it
// has none. Each part of a reply leaves room for it.
func choices(buttons []protocol.Button) string {
	var names []string
	for _, b := range buttons {
		names = append(names, b.Text)
	}
	if names == nil {
		return ""
	}
	return "\n\nReply to this message with one of: " + strings.Join(names, ", ")
}

// maxOpenQuestions bounds how many questions /stop closes.
const maxOpenQuestions = 50

// closeQuestions removes the buttons of the open questions of a chat that is stopped, and says so
// below each question, including one that is being sent.
func (in *ingester) closeQuestions(tx *store.Tx, c *chat) {
	open := store.All(tx, func(q *buttonReply) []any { return []any{&q.reply, &q.agent, &q.key, &q.raw} },
		`SELECT r.id, r.agent, r.key, r.content FROM replies r WHERE r.bot = ? AND r.chat = ?
			AND json_array_length(r.content, '$.buttons') > 0
			AND EXISTS (SELECT 1 FROM sends s WHERE s.reply = r.id AND s.kind = 'text' AND s.begun_at > 0)
			AND NOT EXISTS (SELECT 1 FROM replies e WHERE e.bot = r.bot AND e.chat = r.chat AND e.agent = r.agent
				AND e.id > r.id AND `+replaces+`) ORDER BY r.id DESC LIMIT ?`, in.bot, c.key, maxOpenQuestions)
	for _, q := range open {
		if err := json.Unmarshal([]byte(q.raw), &q.content); err != nil {
			tx.Fail(err)
			return
		}
		const note = "This chat was stopped, so nobody waits for an answer."
		closed := reply{chat: c.key, Reply: bridge.Reply{
			Agent: q.agent, Key: "stopped:" + q.key,
			Content: protocol.ChatReply{Text: q.content.Text + "\n\n" + note, Edits: q.key},
		}}
		// the buttons are under the last part of the question
		if len(splitParts(&reply{Reply: bridge.Reply{Content: q.content}})) > 1 || len(splitParts(&closed)) > 1 {
			closed.Content.Text = note
		}
		in.enqueueReply(tx, &closed)
	}
}

// isNeverShown reports whether a reply closes a question that was never shown. Only
// closeQuestions edits an agent's messages without a message from the bus.
func (o *outgoing) isNeverShown(editTarget int) bool {
	return editTarget == 0 && o.isEdit() && o.agent != "" && o.busID == ""
}

// isOwn reports whether a reply comes from the bridge itself, even in place of an agent's
// question.
func (o *outgoing) isOwn() bool { return o.agent == "" || o.busID == "" }

// closesQuestion reports whether a reply replaces a question with buttons that /stop left open.
func (out *outbound) closesQuestion(tx *store.Tx, o *outgoing) bool {
	return o.content.Edits != "" && store.Value[bool](tx, `SELECT EXISTS (SELECT 1 FROM replies r
		WHERE r.bot = ?1 AND r.chat = ?2 AND r.agent = ?3 AND r.key = ?4 AND json_array_length(r.content, '$.buttons') > 0
			AND NOT EXISTS (SELECT 1 FROM replies e WHERE e.bot = ?1 AND e.chat = ?2 AND e.agent = ?3
				AND e.key = 'stopped:' || ?4))`, out.bot, o.chat.key, o.agent, o.content.Edits)
}

// replaces is the SQL condition that the reply e replaces the question r. It also holds if
// Telegram refused the edit and the reply is a separate message.
const replaces = `r.key IN (e.content ->> '$.edits', e.content ->> '$.replaced')`

// A buttonReply is a sent reply with buttons.
type buttonReply struct {
	reply, message int64
	part           int
	unconfirmed    bool // Telegram did not confirm the message
	agent, key     string
	raw            string
	content        protocol.ChatReply
}

// findPressed returns the reply that has the pressed button. Members of a chat can send any data
// as a press, so there may be none. A press also proves that an unconfirmed message was sent; its
// number is then stored.
func (in *ingester) findPressed(tx *store.Tx, c *chat, u *parsedUpdate) (q buttonReply, found bool) {
	q, found = store.One(tx, func(q *buttonReply) []any {
		return []any{&q.reply, &q.message, &q.part, &q.unconfirmed, &q.agent, &q.key, &q.raw}
	}, `SELECT r.id, s.message, s.part, s.message = 0 AND s.attempt = 0 AND r.content ->> '$.edits' IS NULL, r.agent, r.key, r.content FROM replies r JOIN sends s ON s.reply = r.id, json_each(r.content, '$.buttons') b
		WHERE r.bot = ?1 AND r.chat = ?2 AND s.kind = 'text' AND s.begun_at > 0 AND s.message IN (?3, 0) AND b.value ->> '$.value' = ?4
		ORDER BY s.message = 0, r.id DESC, s.part DESC LIMIT 1`, in.bot, c.key, u.message, u.data.Content.Text)
	if q.unconfirmed {
		tx.Exec(`UPDATE sends SET message = ?, telegram_chat = ? WHERE reply = ? AND part = ?`, u.message, u.chat.ID,
			q.reply, q.part)
	}
	if found {
		tx.Fail(json.Unmarshal([]byte(q.raw), &q.content))
	}
	return q, found
}

// checkPress returns the text shown to the user who pressed a button, and why no agent receives
// the press, or "". replacement is the text that has since replaced the question, if any.
func checkPress(q *buttonReply, who, replacement string, name func(who string) string) (answer, skip string) {
	may := q.content.MayPress
	switch {
	case replacement != "":
		return lastLine(markdown.Render(replacement).Text), "a button whose question is answered"
	case len(may) > 0 && !slices.Contains(may, who):
		names := make([]string, len(may))
		for i, one := range may {
			names[i] = name(one)
		}
		return "This isn't for you to decide; only " + strings.Join(names, ", ") + " can.",
			"a button that is for somebody else"
	}
	return "", ""
}

// recentEvents is the number of newest events that may name a person without a username.
const recentEvents = 10_000

// nameOf returns the username of a person, or else the name under which they wrote in a chat.
func (in *ingester) nameOf(tx *store.Tx, c *chat, who string) string {
	if name := store.Value[string](tx, `SELECT username FROM people WHERE bot = ? AND 'tg:' || user = ?`, in.bot,
		who); name != "" {
		return "@" + name
	}
	return cmp.Or(store.Value[string](tx, `SELECT data ->> '$.content.author.displayName' FROM events
		WHERE bot = ?1 AND chat = ?2 AND 'tg:' || (data ->> '$.content.author.id') = ?3
			AND id > (SELECT max(id) FROM events) - ?4 ORDER BY id DESC LIMIT 1`, in.bot, c.key, who, recentEvents), who)
}

// lastLine returns the last line of a text, which states the result of a question.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// handlePress decides whether a press counts, and answers it so that the button stops spinning.
// It returns why no agent receives the press, or "".
func (in *ingester) handlePress(tx *store.Tx, c *chat, u *parsedUpdate) (skip string) {
	if u.data.Content.Text == "" {
		in.answerCallback(tx, c, u, "")
		return ""
	}
	answer := "This button doesn't belong to this bot, or its message is too old."
	q, found := in.findPressed(tx, c, u)
	if skip = errNoButton; found {
		replacement := store.Value[string](tx, `SELECT e.content ->> '$.text' FROM replies r JOIN replies e
			ON e.bot = r.bot AND e.chat = r.chat AND e.agent = r.agent AND e.id > r.id AND `+replaces+`
			WHERE r.id = ? ORDER BY e.key = 'stopped:' || r.key DESC, e.id DESC LIMIT 1`, q.reply)
		answer, skip = checkPress(&q, "tg:"+id(u.user), replacement, func(who string) string {
			return in.nameOf(tx, c, who)
		})
	}
	switch {
	case skip == "" && c.isStopped():
		answer = "This chat is stopped, so the button does nothing. Send /start to continue."
	case skip == "":
		answer = in.earlierPress(tx, u, &q)
	default:
		in.log.Warn().Int64("chat", c.key).Int64("user", u.user).Int("message", u.message).
			Msg("press rejected: " + skip)
	}
	in.answerCallback(tx, c, u, answer)
	return skip
}

// earlierPress says who has pressed a button of a question that is still open, or returns "". The
// agent, which decides what counts, may be about to show the outcome.
func (in *ingester) earlierPress(tx *store.Tx, u *parsedUpdate, q *buttonReply) string {
	presses := in.sourceID(u.chat.ID, u.message) + ":button:"
	raw := store.Value[string](tx, `SELECT data FROM events WHERE source_id > ?1 AND source_id < ?1 || ':' ORDER BY id LIMIT 1`,
		presses)
	var before eventData
	if raw == "" || json.Unmarshal([]byte(raw), &before) != nil || before.Content.Author == nil {
		return ""
	}
	pressed, who := before.Content.Text, before.Content.Author
	for _, b := range q.content.Buttons {
		if b.Value == pressed {
			pressed = labelOf(b)
			break
		}
	}
	if who.ID == u.author.ID {
		return fmt.Sprintf("You have pressed “%s” already. The result is shown here in a moment.", pressed)
	}
	return fmt.Sprintf("%s pressed “%s” before you. The result is shown here in a moment.",
		cmp.Or(who.DisplayName, who.Username, who.ID), pressed)
}

// answerCallback answers a press, with a text unless it is empty.
func (in *ingester) answerCallback(tx *store.Tx, c *chat, u *parsedUpdate, answer string) {
	in.enqueueReply(tx, &reply{chat: c.key, callback: u.callback, Reply: bridge.Reply{
		Key: "callback:" + u.callback, Content: protocol.ChatReply{Text: text.Clip(answer, maxAnswer)},
	}})
}

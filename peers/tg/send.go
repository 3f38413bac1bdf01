package tg

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"hubbub/peers/markdown"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A sendItem is the body of an item in the queue "telegram".
type sendItem struct {
	Reply int64  `json:"reply"`
	Part  int    `json:"part"`
	Trace string `json:"traceparent,omitempty"` // of the tg_reply
}

// An outgoing is one part of a reply with everything needed to send it.
type outgoing struct {
	sendItem
	item  *outbox.Item
	chat  *chat
	agent string
	busID protocol.MessageID
	part
	content protocol.ChatReply
	message int64 // its number in Telegram, if a press on its button has revealed it
}

// send makes one attempt to send a part of a reply.
func (out *outbound) send(ctx context.Context, item outbox.Item) error {
	var o *outgoing
	var err error
	if failed := store.Autocommit(ctx, out.db,
		func(tx *store.Tx) { o, err = out.outgoing(tx, &item) }); failed != nil || err != nil {
		return cmp.Or(err, failed)
	}
	if o.message > 0 { // a press on its button proves that it was sent
		out.shown.Store(item.ID, o.message)
		return nil
	}
	if err := out.checkMayShow(ctx, o); err != nil {
		return out.reportDelay(ctx, o, err)
	}
	if wait := out.throttle(ctx, o); wait > 0 {
		return out.reportDelay(ctx, o, outbox.Retry(wait, errThrottled))
	}
	// Record the attempt before the request leaves. If the attempt is interrupted, the outcome is
	// unknown, except for calls that may be repeated.
	err = store.Autocommit(ctx, out.db, func(tx *store.Tx) {
		attempt := item.Attempt
		if out.mayRepeat(tx, o) {
			attempt = 0
		}
		tx.Exec(`UPDATE sends SET attempt = ?, begun_at = ?, telegram_chat = ? WHERE reply = ? AND part = ?`,
			attempt, nowMicros(), o.chat.telegram, o.Reply, o.Part)
	})
	if err != nil {
		return err
	}
	out.crash("sending")
	sent, err := out.perform(ctx, o)
	out.crash("sent")
	if err != nil {
		return out.reportDelay(ctx, o, out.classifyError(ctx, o, err))
	}
	if sent != nil {
		out.shown.Store(item.ID, int64(sent.ID))
	}
	return nil
}

var errThrottled = errors.New("waiting for Telegram's limits")

// outgoing loads what is needed to send an item.
func (out *outbound) outgoing(tx *store.Tx, item *outbox.Item) (*outgoing, error) {
	var s sendItem
	if err := json.Unmarshal(item.Body, &s); err != nil {
		return nil, outbox.Permanent(fmt.Errorf("the item cannot be read: %w", err))
	}
	var chat int64
	var content []byte
	o, found := store.One(tx, func(o *outgoing) []any {
		return []any{&o.kind, &o.body, &o.message, &chat, &o.agent, &o.busID, &content}
	}, `SELECT s.kind, s.body, s.message, s.chat, r.agent, r.bus_id, r.content
		FROM sends s JOIN replies r ON r.id = s.reply WHERE s.reply = ? AND s.part = ?`, s.Reply, s.Part)
	if !found {
		return nil, fmt.Errorf("reading reply %d: %w", s.Reply, cmp.Or(tx.Err(), errNotStored))
	}
	o.sendItem, o.item = s, item
	if err := json.Unmarshal(content, &o.content); err != nil {
		return nil, outbox.Permanent(fmt.Errorf("reply %d cannot be read: %w", o.Reply, err))
	}
	if o.chat, found = out.load(tx, chat); !found {
		return nil, cmp.Or(tx.Err(), errNoChat)
	}
	return &o, nil
}

// checkMayShow returns why a reply must not be shown, or nil. The reason is the state of the
// chat, or a claim of another agent.
func (out *outbound) checkMayShow(ctx context.Context, o *outgoing) error {
	var admitted, partlyShown, closesQuestion bool
	err := store.Autocommit(ctx, out.db, func(tx *store.Tx) {
		admitted = out.admitsTopic(tx, o.chat.key)
		partlyShown = o.Part > 0 && out.isPartlyShown(tx, o)
		closesQuestion = o.chat.isStopped() && out.closesQuestion(tx, o)
	})
	v := o.content.Visibility
	switch {
	case !o.chat.present:
		return outbox.Permanent(errors.New("the bot is no longer in this chat"))
	case o.isOwn():
		return nil
	case !o.chat.isDirect() && (v == "dm" || v == "ephemeral"):
		return outbox.Permanent(fmt.Errorf("a reply with the visibility %q would be seen by everybody in this group; "+
			"send it to the person's direct chat", v))
	case o.chat.isStopped() && !closesQuestion:
		return outbox.Permanent(errors.New("the user stopped this chat; /start resumes it"))
	case err != nil:
		return err
	case !admitted:
		return outbox.Permanent(errors.New("this chat is no longer admitted"))
	case o.kind != kindText, partlyShown:
		return nil
	}
	return out.router.AuthorizeReply(ctx, protocol.PeerID(o.agent), &o.content)
}

// A sentPart is a part of a reply with its item in the queue.
type sentPart struct {
	kind string
	outbox.Item
}

// partsOf returns the parts of a reply in order. A part that the outbox no longer has was sent
// long ago.
func (out *outbound) partsOf(tx *store.Tx, o *outgoing) []sentPart {
	items := out.telegram.ListByPrefix(tx, o.item.Destination, fmt.Sprintf("%d.", o.Reply))
	parts := store.All(tx, func(p *sentPart) []any { return []any{&p.kind, &p.Key} },
		`SELECT kind, reply || '.' || part FROM sends WHERE reply = ? ORDER BY part`, o.Reply)
	for i := range parts {
		parts[i].State = outbox.StateSent
		for _, item := range items {
			if item.Key == parts[i].Key {
				parts[i].Item = item
			}
		}
	}
	return parts
}

// isPartlyShown reports whether a text of the reply has been shown. The rest must follow, whoever
// holds the claim now.
func (out *outbound) isPartlyShown(tx *store.Tx, o *outgoing) bool {
	return slices.ContainsFunc(out.partsOf(tx, o), func(p sentPart) bool {
		return p.kind == kindText && (p.State == outbox.StateSent || p.State == outbox.StateUnknown)
	})
}

// mayHaveSent reports whether the request of an interrupted attempt may have left.
func (out *outbound) mayHaveSent(item outbox.Item) bool {
	var s sendItem
	if json.Unmarshal(item.Body, &s) != nil {
		return true
	}
	attempt, err := store.ReadValue[int](context.Background(), out.db,
		`SELECT attempt FROM sends WHERE reply = ? AND part = ?`, s.Reply, s.Part)
	return err != nil || attempt == item.Attempt
}

// perform makes the call for a part and returns the message that it created, if any.
func (out *outbound) perform(ctx context.Context, o *outgoing) (*models.Message, error) {
	switch o.kind {
	case kindSignal:
		return out.react(ctx, o)
	case kindCallback:
		params := map[string]any{"callback_query_id": o.body}
		if o.content.Text != "" {
			params["text"], params["show_alert"] = o.content.Text, true
		}
		err := out.call(ctx, "answerCallbackQuery", params, nil)
		if botapi.Code(err) == 400 {
			return nil, nil // the press is too old to be answered
		}
		return nil, o.retryUnanswered(err)
	}
	var t markdown.Text
	if err := json.Unmarshal([]byte(o.body), &t); err != nil {
		return nil, outbox.Permanent(fmt.Errorf("part %d cannot be read: %w", o.Part, err))
	}
	message, err := store.Read(ctx, out.db, func(tx *store.Tx) int { return out.editTarget(tx, o) })
	switch {
	case err != nil:
		return nil, err
	case message != 0:
		return out.editMessage(ctx, o, t, message)
	case o.isNeverShown(message):
		return nil, nil
	}
	return out.sendText(ctx, o, t)
}

// sendText sends one message. If Telegram refuses the formatting, or the topic is gone, it sends
// the message without.
func (out *outbound) sendText(ctx context.Context, o *outgoing, t markdown.Text) (*models.Message, error) {
	how := sendMethodOf(&o.content)
	params := map[string]any{"chat_id": o.chat.telegram}
	out.setText(params, &how, t)
	err := store.Autocommit(ctx, out.db, func(tx *store.Tx) {
		if o.isLastText(tx) {
			addKeyboard(params, o.content.Buttons)
		}
		if thread := threadFor(tx, &o.content); thread > generalThread {
			params["message_thread_id"] = thread
		}
		if quoted := quoteFor(tx, o); quoted != 0 {
			params["reply_parameters"] = map[string]any{"message_id": quoted, "allow_sending_without_reply": true}
		}
	})
	if err != nil {
		return nil, err
	}
	out.typing.awaitDraft(ctx, o.chat.telegram)
	for {
		var m models.Message
		err := out.transmit(ctx, &how, params, t, &m)
		refused, ok := errors.AsType[*botapi.Error](err)
		if !ok || refused.Code != 400 {
			return &m, err
		}
		_, formatted := params[how.entities]
		_, inTopic := params["message_thread_id"]
		switch {
		case refused.MigrateTo != 0 && params["chat_id"] != refused.MigrateTo:
			if err := store.InTx(ctx, out.db,
				func(tx *store.Tx) { out.migrateChat(tx, o.chat.key, refused.MigrateTo) }); err != nil {
				return nil, err
			}
			o.chat.telegram = refused.MigrateTo
			params["chat_id"] = refused.MigrateTo
			delete(params, "reply_parameters")
		case params["reply_markup"] != nil && isAboutButtons(refused):
			out.log.Warn().Err(err).Str("topic", string(topicOf(o.chat.key))).
				Msg("buttons refused by Telegram; sending their texts")
			delete(params, "reply_markup")
			delete(params, "rich_message")
			t.Rich, t.Text = nil, t.Text+choices(o.content.Buttons)
			out.setText(params, &how, t)
		case formatted && (refused.Says("entit") || refused.Says("parse")):
			out.log.Warn().Err(err).Str("topic", string(topicOf(o.chat.key))).
				Msg("formatting refused by Telegram; sending plain text")
			delete(params, how.entities)
		case inTopic && (refused.Says("thread not found") || refused.Says("TOPIC_DELETED")):
			delete(params, "message_thread_id")
		case how.method == photoMethod.method: // Telegram refuses the size or shape of the picture
			how.method, how.field = documentMethod.method, documentMethod.field
		default:
			return nil, err
		}
	}
}

// threadFor returns the topic of a reply: the one that it names, else that of the message that it
// answers.
func threadFor(tx *store.Tx, content *protocol.ChatReply) int {
	if n, err := strconv.Atoi(content.ThreadID); err == nil {
		return n
	}
	return store.Value[int](tx, `SELECT thread FROM events WHERE source_id = ? ORDER BY id DESC LIMIT 1`,
		content.InReplyTo)
}

// quoteFor returns the number of the message that a reply quotes: the one that it names or, in a
// group, the one that it answers. Only the first text, or a signal in words, quotes a message,
// and only one of the same chat.
func quoteFor(tx *store.Tx, o *outgoing) int {
	if o.kind == kindText && o.Part != store.Value[int](tx,
		`SELECT min(part) FROM sends WHERE reply = ? AND kind = 'text'`, o.Reply) {
		return 0
	}
	source := o.content.ReplyTo
	if source == "" && !o.chat.isDirect() {
		source = o.content.InReplyTo
	}
	if n, err := strconv.Atoi(source); err == nil && n > 0 {
		return n // a number alone is a message of this chat
	}
	if _, telegramChat, message, ok := parseSource(source); ok && telegramChat == o.chat.telegram {
		return message
	}
	return 0
}

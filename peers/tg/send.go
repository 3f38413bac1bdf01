package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"hubbub/peers/outbox"
	"hubbub/peers/tg/botapi"
	"hubbub/peers/tg/markdown"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A sendItem is the body of an item towards Telegram.
type sendItem struct {
	Reply int64  `json:"reply"`
	Part  int    `json:"part"`
	Trace string `json:"traceparent,omitempty"` // of the tg_reply
}

// The states of one part of a reply, see the table sends.
const (
	partPending = "pending"
	partSending = "sending" // the request may have left
	partSent    = "sent"
	partUnknown = "unknown"
	partFailed  = "failed"
)

// An outgoing is one part of a reply with what is needed to send it.
type outgoing struct {
	sendItem
	chat    *chat
	agent   string
	busID   protocol.MessageID
	kind    string
	body    string
	state   string
	content protocol.ChatReply
	key     string
	attempt int
}

// sendTelegram makes one attempt at one part of a reply.
func (b *Bridge) sendTelegram(ctx context.Context, item outbox.Item) error {
	o, err := b.loadOutgoing(ctx, item)
	if err != nil {
		return err
	}
	switch {
	case o.state == partSent:
		return nil // the bridge died between sending it and settling it
	case o.state == partSending && !b.opts.ResendUnknown:
		return outbox.Unknown(errors.New("the bridge died while this was being sent"))
	}
	if err := b.mayShow(ctx, o); err != nil {
		return b.delayed(ctx, o, item, err)
	}
	if wait := b.pace(ctx, o); wait > 0 {
		return b.delayed(ctx, o, item, outbox.Retry(wait, errPaced))
	}
	if err := b.mark(ctx, o); err != nil {
		return err
	}
	b.crash("sending")
	sent, err := b.perform(ctx, o)
	b.crash("sent")
	err = b.afterSend(ctx, o, sent, err)
	b.crash("recorded")
	return b.delayed(ctx, o, item, err)
}

var errPaced = errors.New("waiting for Telegram's limits")

func (b *Bridge) loadOutgoing(ctx context.Context, item outbox.Item) (*outgoing, error) {
	o := outgoing{attempt: item.Attempt}
	if err := json.Unmarshal(item.Body, &o.sendItem); err != nil {
		return nil, permanent(fmt.Errorf("the item cannot be read: %w", err))
	}
	var key int64
	var content string
	err := b.db.QueryRowContext(ctx, `SELECT s.kind, s.body, s.state, s.chat, r.agent, r.bus_id, r.content, r.key
		FROM sends s JOIN replies r ON r.id = s.reply WHERE s.reply = ? AND s.part = ?`, o.Reply, o.Part).
		Scan(&o.kind, &o.body, &o.state, &key, &o.agent, &o.busID, &content, &o.key)
	if err != nil {
		return nil, fmt.Errorf("reading reply %d: %w", o.Reply, err)
	}
	if err := json.Unmarshal([]byte(content), &o.content); err != nil {
		return nil, permanent(fmt.Errorf("reply %d cannot be read: %w", o.Reply, err))
	}
	o.chat, err = b.loadChat(ctx, b.db, key)
	return &o, err
}

// mayShow says why a reply must not be shown now: because of the chat, or
// because another agent holds the claim on what it answers.
func (b *Bridge) mayShow(ctx context.Context, o *outgoing) error {
	if !o.chat.present {
		return permanent(errors.New("the bot is no longer in this chat"))
	}
	if o.agent == "" {
		return nil
	}
	if v := o.content.Visibility; o.chat.group() && (v == "dm" || v == "ephemeral") {
		return permanent(fmt.Errorf("a reply with the visibility %q would be seen by everybody in this group; send it to the person's direct chat", v))
	}
	if o.chat.stopped {
		return permanent(errors.New("the user stopped this chat; /start goes on"))
	}
	admitted, err := b.admitsTopic(ctx, b.db, o.chat.key)
	if err != nil {
		return err
	}
	if !admitted {
		return permanent(errors.New("this chat is no longer admitted"))
	}
	if o.kind != kindText || o.Part > 0 && o.state == partPending && b.shownBefore(ctx, o) {
		return nil
	}
	return b.checkClaim(ctx, o)
}

// shownBefore reports whether a part of the same reply is shown already: the
// others follow, whoever holds the claim now.
func (b *Bridge) shownBefore(ctx context.Context, o *outgoing) bool {
	var n int
	err := b.db.QueryRowContext(ctx, `SELECT count(*) FROM sends WHERE reply = ? AND kind = 'text' AND state IN ('sent','unknown')`, o.Reply).Scan(&n)
	return err == nil && n > 0
}

// mark notes, durably, that the request is about to leave: should the bridge die
// before the answer, the outcome is unknown.
func (b *Bridge) mark(ctx context.Context, o *outgoing) error {
	return exec(ctx, b.db, `UPDATE sends SET state = 'sending', begun_at = ?, telegram_chat = ? WHERE reply = ? AND part = ?`,
		now(), o.chat.telegram, o.Reply, o.Part)
}

// perform makes the calls of one part and returns the message that it made.
func (b *Bridge) perform(ctx context.Context, o *outgoing) (*models.Message, error) {
	switch o.kind {
	case kindSignal:
		return b.react(ctx, o)
	case kindCallback:
		err := b.call(ctx, "answerCallbackQuery", map[string]any{"callback_query_id": o.body}, nil)
		if botapi.Code(err) == 400 {
			return nil, nil // it was pressed too long ago
		}
		return nil, o.idempotent(err)
	}
	var t markdown.Text
	if err := json.Unmarshal([]byte(o.body), &t); err != nil {
		return nil, permanent(fmt.Errorf("part %d cannot be read: %w", o.Part, err))
	}
	return b.sendText(ctx, o, t)
}

// sendText sends one message. Telegram may refuse the formatting, or the topic
// may be gone: then it is sent without.
func (b *Bridge) sendText(ctx context.Context, o *outgoing, t markdown.Text) (*models.Message, error) {
	params := map[string]any{"chat_id": o.chat.telegram, "text": t.Text}
	if len(t.Entities) > 0 {
		params["entities"] = t.Entities
	}
	if thread := b.threadFor(ctx, o); thread > generalThread {
		params["message_thread_id"] = thread
	}
	if quoted := b.quoteFor(ctx, o); quoted != 0 {
		params["reply_parameters"] = map[string]any{"message_id": quoted, "allow_sending_without_reply": true}
	}
	for {
		var m models.Message
		err := b.call(ctx, "sendMessage", params, &m)
		var refused *botapi.Error
		if err == nil || !errors.As(err, &refused) || refused.Code != 400 {
			return &m, err
		}
		_, formatted := params["entities"]
		_, inTopic := params["message_thread_id"]
		switch {
		case refused.MigrateTo != 0 && params["chat_id"] != refused.MigrateTo:
			if err := b.movedTo(ctx, o.chat, refused.MigrateTo); err != nil {
				return nil, err
			}
			params["chat_id"] = refused.MigrateTo
			delete(params, "reply_parameters")
		case formatted && (refused.Says("entit") || refused.Says("parse")):
			b.log.Warn().Err(err).Str("topic", string(topicOf(o.chat.key))).Msg("Telegram refused the formatting; sending plain text")
			delete(params, "entities")
		case inTopic && (refused.Says("thread not found") || refused.Says("TOPIC_DELETED")):
			delete(params, "message_thread_id")
		default:
			return nil, err
		}
	}
}

// movedTo notes that a group has another id, which a refusal told.
func (b *Bridge) movedTo(ctx context.Context, c *chat, to int64) error {
	err := inTx(ctx, b.db, func(tx *sql.Tx) error { return b.moveChat(ctx, tx, c.key, to) })
	if err == nil {
		c.telegram = to
	}
	return err
}

// threadFor returns the topic that a reply belongs to: the one that it names,
// else the one of the message that it answers.
func (b *Bridge) threadFor(ctx context.Context, o *outgoing) int {
	if n, err := strconv.Atoi(o.content.ThreadID); err == nil {
		return n
	}
	var thread int
	err := b.db.QueryRowContext(ctx, `SELECT thread FROM events WHERE source_id = ? ORDER BY id DESC LIMIT 1`, o.content.InReplyTo).Scan(&thread)
	if err != nil {
		return 0
	}
	return thread
}

// quoteFor returns the number of the message that a reply is shown as an answer
// to: the one that it names, or, in a group, the one that it answers. Only the
// first part quotes, and only what is in the same chat.
func (b *Bridge) quoteFor(ctx context.Context, o *outgoing) int {
	var first int
	err := b.db.QueryRowContext(ctx, `SELECT min(part) FROM sends WHERE reply = ? AND kind = 'text'`, o.Reply).Scan(&first)
	if err != nil || o.Part != first {
		return 0
	}
	source := o.content.ReplyTo
	if source == "" && o.chat.group() {
		source = o.content.InReplyTo
	}
	if n, err := strconv.Atoi(source); err == nil && n > 0 {
		return n // a bare number is a message of this chat
	}
	_, telegramChat, message, ok := parseSource(source)
	if !ok || telegramChat != o.chat.telegram {
		return 0
	}
	return message
}

// afterSend notes what became of a call and says what follows from it.
func (b *Bridge) afterSend(ctx context.Context, o *outgoing, sent *models.Message, err error) error {
	if err == nil {
		var number int
		if sent != nil {
			number = sent.ID
		}
		return b.keepTrying(ctx, func(ctx context.Context) error {
			return exec(ctx, b.db, `UPDATE sends SET state = 'sent', telegram_chat = ?, message = ? WHERE reply = ? AND part = ?`,
				o.chat.telegram, number, o.Reply, o.Part)
		})
	}
	verdict := b.judge(ctx, o, err)
	if isUnknown(verdict) && !b.opts.ResendUnknown {
		return verdict
	}
	// The call had no effect, or may be repeated.
	err = exec(context.WithoutCancel(ctx), b.db, `UPDATE sends SET state = 'pending' WHERE reply = ? AND part = ? AND state = 'sending'`, o.Reply, o.Part)
	if isUnknown(verdict) {
		verdict = fmt.Errorf("sending again, though it may have arrived: %s", verdict) // no longer unknown to the outbox
	}
	if err != nil {
		return errors.Join(verdict, err)
	}
	return verdict
}

// keepTrying stores what must not be forgotten: that a message was sent.
func (b *Bridge) keepTrying(ctx context.Context, f func(context.Context) error) error {
	for failures := 1; ; failures++ {
		err := f(context.WithoutCancel(ctx))
		if err == nil {
			return nil
		}
		b.log.Error().Err(err).Msg("that a message was sent cannot be stored; trying again")
		if !sleep(ctx, backoff(failures)) {
			return outbox.Unknown(fmt.Errorf("it was sent, but that could not be stored: %w", err))
		}
	}
}

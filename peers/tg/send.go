package tg

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
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

// An outgoing is one part of a reply with what is needed to send it.
type outgoing struct {
	sendItem
	chat    *chat
	agent   string
	busID   protocol.MessageID
	kind    string
	body    string
	content protocol.ChatReply
	message int64 // that it made; 0 unless an older bridge sent it

	destination string // of its item
	attempt     int
}

// send makes one attempt at one part of a reply.
func (out *outbound) send(ctx context.Context, item outbox.Item) error {
	o, err := out.outgoing(ctx, out.db, &item)
	if err != nil {
		return err
	}
	if o.message > 0 { // an older bridge noted so, and died before it had settled it
		out.shown.Store(item.ID, o.message)
		return nil
	}
	if err := out.mayShow(ctx, o); err != nil {
		return out.delayed(ctx, o, err)
	}
	if wait := out.pace(ctx, o); wait > 0 {
		return out.delayed(ctx, o, outbox.Retry(wait, errPaced))
	}
	if err := out.mark(ctx, o); err != nil {
		return err
	}
	out.crash("sending")
	sent, err := out.perform(ctx, o)
	out.crash("sent")
	if err != nil {
		return out.delayed(ctx, o, out.judge(ctx, o, err))
	}
	if sent != nil {
		out.shown.Store(item.ID, int64(sent.ID))
	}
	return nil
}

var errPaced = errors.New("waiting for Telegram's limits")

// outgoing reads what is needed to send an item.
func (out *outbound) outgoing(ctx context.Context, q store.Querier, item *outbox.Item) (*outgoing, error) {
	o := outgoing{destination: item.Destination, attempt: item.Attempt}
	if err := json.Unmarshal(item.Body, &o.sendItem); err != nil {
		return nil, outbox.Permanent(fmt.Errorf("the item cannot be read: %w", err))
	}
	var key int64
	var content []byte
	err := q.QueryRowContext(ctx, `SELECT s.kind, s.body, s.message, s.chat, r.agent, r.bus_id, r.content
		FROM sends s JOIN replies r ON r.id = s.reply WHERE s.reply = ? AND s.part = ?`, o.Reply, o.Part).
		Scan(&o.kind, &o.body, &o.message, &key, &o.agent, &o.busID, &content)
	if err != nil {
		return nil, fmt.Errorf("reading reply %d: %w", o.Reply, err)
	}
	if err := json.Unmarshal(content, &o.content); err != nil {
		return nil, outbox.Permanent(fmt.Errorf("reply %d cannot be read: %w", o.Reply, err))
	}
	o.chat, err = out.load(ctx, q, key)
	return &o, err
}

// mayShow returns why a reply must not be shown now, or nil: because of the chat, or
// because another agent holds the claim on what it answers.
func (out *outbound) mayShow(ctx context.Context, o *outgoing) error {
	if !o.chat.present {
		return outbox.Permanent(errors.New("the bot is no longer in this chat"))
	}
	if o.agent == "" {
		return nil
	}
	if v := o.content.Visibility; o.chat.group() && (v == "dm" || v == "ephemeral") {
		return outbox.Permanent(fmt.Errorf("a reply with the visibility %q would be seen by everybody in this group; send it to the person's direct chat", v))
	}
	if o.chat.stopped {
		return outbox.Permanent(errors.New("the user stopped this chat; /start goes on"))
	}
	admitted, err := out.admitsTopic(ctx, out.db, o.chat.key)
	if err != nil {
		return err
	}
	if !admitted {
		return outbox.Permanent(errors.New("this chat is no longer admitted"))
	}
	if o.kind != kindText {
		return nil
	}
	if o.Part > 0 {
		if shown, err := out.shownBefore(ctx, o); err != nil || shown {
			return err
		}
	}
	return out.surface.MayShow(ctx, protocol.PeerID(o.agent), &o.content)
}

// A sentPart is a part of a reply with what became of it.
type sentPart struct {
	kind   string
	state  outbox.State
	reason string
}

// partsOf returns the parts of a reply in order. What the outbox has forgotten was
// sent long ago.
func (out *outbound) partsOf(ctx context.Context, q store.Querier, reply int64, destination string) ([]sentPart, error) {
	items, err := out.telegram.Group(ctx, q, destination, fmt.Sprintf("%d.", reply))
	if err != nil {
		return nil, err
	}
	known := map[string]*outbox.Item{}
	for i := range items {
		known[items[i].Key] = &items[i]
	}
	kinds, err := store.All(ctx, q, store.Column[string], `SELECT kind FROM sends WHERE reply = ? ORDER BY part`, reply)
	parts := make([]sentPart, len(kinds))
	for i, kind := range kinds {
		parts[i] = sentPart{kind: kind, state: outbox.StateSent}
		if item := known[fmt.Sprintf("%d.%d", reply, i)]; item != nil {
			parts[i].state, parts[i].reason = item.State, item.Error
		}
	}
	return parts, err
}

// shownBefore reports whether a part of the same reply is shown already: the
// others follow, whoever holds the claim now.
func (out *outbound) shownBefore(ctx context.Context, o *outgoing) (bool, error) {
	parts, err := out.partsOf(ctx, out.db, o.Reply, o.destination)
	for _, p := range parts {
		if p.kind == kindText && (p.state == outbox.StateSent || p.state == outbox.StateUnknown) {
			return true, err
		}
	}
	return false, err
}

// mark notes, durably, that the request is about to leave in this attempt: if that
// is cut off, the outcome is unknown.
func (out *outbound) mark(ctx context.Context, o *outgoing) error {
	return store.Exec(ctx, out.db, `UPDATE sends SET attempt = ?, begun_at = ?, telegram_chat = ? WHERE reply = ? AND part = ?`,
		o.attempt, now(), o.chat.telegram, o.Reply, o.Part)
}

// began reports whether the request of an interrupted attempt may have left.
func (out *outbound) began(item outbox.Item) bool {
	var s sendItem
	if json.Unmarshal(item.Body, &s) != nil {
		return true
	}
	attempt, _, err := store.One(context.Background(), out.db, store.Column[int], `SELECT attempt FROM sends WHERE reply = ? AND part = ?`, s.Reply, s.Part)
	return err != nil || attempt == item.Attempt
}

// perform makes the calls of one part and returns the message that it made.
func (out *outbound) perform(ctx context.Context, o *outgoing) (*models.Message, error) {
	switch o.kind {
	case kindSignal:
		return out.react(ctx, o)
	case kindCallback:
		err := out.call(ctx, "answerCallbackQuery", map[string]any{"callback_query_id": o.body}, nil)
		if botapi.Code(err) == 400 {
			return nil, nil // it was pressed too long ago
		}
		return nil, o.idempotent(err)
	}
	var t markdown.Text
	if err := json.Unmarshal([]byte(o.body), &t); err != nil {
		return nil, outbox.Permanent(fmt.Errorf("part %d cannot be read: %w", o.Part, err))
	}
	return out.sendText(ctx, o, t)
}

// sendText sends one message. Telegram may refuse the formatting, or the topic
// may be gone: then it is sent without.
func (out *outbound) sendText(ctx context.Context, o *outgoing, t markdown.Text) (*models.Message, error) {
	params := map[string]any{"chat_id": o.chat.telegram, "text": t.Text}
	if len(t.Entities) > 0 {
		params["entities"] = t.Entities
	}
	if thread := out.threadFor(ctx, o); thread > generalThread {
		params["message_thread_id"] = thread
	}
	if quoted := out.quoteFor(ctx, o); quoted != 0 {
		params["reply_parameters"] = map[string]any{"message_id": quoted, "allow_sending_without_reply": true}
	}
	for {
		var m models.Message
		err := out.call(ctx, "sendMessage", params, &m)
		var refused *botapi.Error
		if err == nil || !errors.As(err, &refused) || refused.Code != 400 {
			return &m, err
		}
		_, formatted := params["entities"]
		_, inTopic := params["message_thread_id"]
		switch {
		case refused.MigrateTo != 0 && params["chat_id"] != refused.MigrateTo:
			if err := out.movedTo(ctx, o.chat, refused.MigrateTo); err != nil {
				return nil, err
			}
			params["chat_id"] = refused.MigrateTo
			delete(params, "reply_parameters")
		case formatted && (refused.Says("entit") || refused.Says("parse")):
			out.log.Warn().Err(err).Str("topic", string(topicOf(o.chat.key))).Msg("formatting refused by Telegram; sending plain text")
			delete(params, "entities")
		case inTopic && (refused.Says("thread not found") || refused.Says("TOPIC_DELETED")):
			delete(params, "message_thread_id")
		default:
			return nil, err
		}
	}
}

// threadFor returns the topic that a reply belongs to: the one that it names,
// else the one of the message that it answers.
func (out *outbound) threadFor(ctx context.Context, o *outgoing) int {
	if n, err := strconv.Atoi(o.content.ThreadID); err == nil {
		return n
	}
	thread, _, err := store.One(ctx, out.db, store.Column[int], `SELECT thread FROM events WHERE source_id = ? ORDER BY id DESC LIMIT 1`, o.content.InReplyTo)
	if err != nil {
		return 0
	}
	return thread
}

// quoteFor returns the number of the message that a reply is shown as an answer
// to: the one that it names, or, in a group, the one that it answers. Only the
// first part quotes, and only what is in the same chat.
func (out *outbound) quoteFor(ctx context.Context, o *outgoing) int {
	first, _, err := store.One(ctx, out.db, store.Column[int], `SELECT min(part) FROM sends WHERE reply = ? AND kind = 'text'`, o.Reply)
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

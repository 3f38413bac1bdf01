package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/tg/markdown"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// A reply is what shall be shown in a chat: an agent's tg_reply, or a notice of
// the bridge itself, which has no agent.
type reply struct {
	chat     int64
	agent    string
	key      string // once per agent
	busID    protocol.MessageID
	trace    string
	content  protocol.ChatReply
	callback string // a callback query to answer instead
}

// The kinds of a reply's parts.
const (
	kindText     = "text"
	kindSignal   = "signal"
	kindCallback = "callback"
)

// takeReply is a tg_reply: it is on disk when nil is returned. What can never be
// shown because it makes no sense is rejected; what cannot be shown because of
// the chat's state is stored, and its failure reported by delivery_status.
func (b *Bridge) takeReply(ctx context.Context, d *peer.Delivery) error {
	key, err := chatOf(d.Topic)
	if err != nil {
		return peer.Reject(err.Error())
	}
	r := reply{chat: key, agent: string(d.Message.From), busID: d.Message.MessageID, trace: d.Message.TraceParent}
	if err := d.Decode(&r.content); err != nil {
		return peer.Reject("the content of this tg_reply cannot be read: " + err.Error())
	}
	if err := b.checkReply(&r.content); err != nil {
		return peer.Reject(err.Error())
	}
	c, err := b.chatForReply(ctx, key)
	if err != nil {
		return err
	}
	if err := b.nameSources(ctx, &r.content, d.Message.InReplyTo); err != nil {
		return err
	}
	r.chat = c.key
	if r.content.Text == "" && r.content.Signal == "" {
		b.typing.set(c, &r)
		return nil
	}
	if r.key = r.content.IdempotencyKey; r.key == "" {
		r.key = string(r.busID)
	}
	b.crash("reply received")
	var fresh bool
	err = inTx(ctx, b.db, func(tx *sql.Tx) error {
		fresh, err = b.storeReply(ctx, tx, &r)
		return err
	})
	switch {
	case errors.Is(err, outbox.ErrFull):
		return errors.New("too many answers wait for Telegram in this chat; try again later")
	case err != nil:
		return err
	}
	b.crash("reply stored")
	if fresh {
		b.typing.clear(c.key, r.agent)
		b.telegram.Wake()
	}
	return nil
}

// checkReply says what makes a reply senseless.
func (b *Bridge) checkReply(content *protocol.ChatReply) error {
	shown := strings.TrimFunc(content.Text, unicode.IsSpace)
	if shown == "" && content.Text != "" && content.Signal == "" {
		return errors.New("the text is nothing but white space, which Telegram does not show")
	}
	content.Text = shown
	if len(content.Text) > maxReplyText {
		return fmt.Errorf("the text has %d bytes; at most %d are allowed", len(content.Text), maxReplyText)
	}
	if _, known := reactionOf[content.Signal]; content.Signal != "" && !known {
		return fmt.Errorf("unknown signal %q; the signals are seen, agree, working, queued, claimed, done, declined, blocked, unclear", content.Signal)
	}
	if content.Signal != "" && content.InReplyTo == "" {
		return errors.New("a signal needs inReplyTo, the sourceId of the message that it is about")
	}
	for _, source := range []string{content.InReplyTo, content.ReplyTo} {
		if bot, _, _, ok := parseSource(source); ok && bot != b.bot {
			return fmt.Errorf("%s is a message of another bot", source)
		}
	}
	if content.ThreadID != "" {
		if n, err := strconv.Atoi(content.ThreadID); err != nil || n < 0 {
			return fmt.Errorf("threadId %q is not a number", content.ThreadID)
		}
	}
	return nil
}

// nameSources turns the messageId of a tg_message, by which an agent may name what
// it answers, into the sourceId.
func (b *Bridge) nameSources(ctx context.Context, content *protocol.ChatReply, inReplyTo protocol.MessageID) error {
	if content.InReplyTo == "" {
		content.InReplyTo = string(inReplyTo)
	}
	for _, name := range []*string{&content.InReplyTo, &content.ReplyTo} {
		if _, _, _, ok := parseSource(*name); ok || *name == "" {
			continue
		}
		var source string
		err := b.db.QueryRowContext(ctx, `SELECT source_id FROM events WHERE bus_id = ?`, eventOf(*name)).Scan(&source)
		switch {
		case err == nil:
			*name = source
		case !errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("looking up what is answered: %w", err)
		}
	}
	return nil
}

// parseSource takes a sourceId of a Telegram message apart. What follows the
// message's number, as for a reaction, is passed over.
func parseSource(source string) (bot, telegramChat int64, message int, ok bool) {
	parts := strings.SplitN(source, ":", 5)
	if len(parts) < 4 || parts[0] != "tg" {
		return 0, 0, 0, false
	}
	bot, err1 := strconv.ParseInt(parts[1], 10, 64)
	telegramChat, err2 := strconv.ParseInt(parts[2], 10, 64)
	message, err3 := strconv.Atoi(parts[3])
	return bot, telegramChat, message, errors.Join(err1, err2, err3) == nil && message > 0
}

// chatForReply finds the chat, also one that never said anything but is admitted.
func (b *Bridge) chatForReply(ctx context.Context, key int64) (*chat, error) {
	c, err := b.loadChat(ctx, b.db, key)
	if err == nil || !errors.Is(err, errNoChat) {
		return c, err
	}
	if key == b.bot {
		return nil, peer.Reject("this is the bot itself; address a chat as tg:<chat id>")
	}
	admitted, err := b.admitsTopic(ctx, b.db, key)
	if err != nil {
		return nil, err
	}
	if !admitted {
		return nil, peer.Reject(fmt.Sprintf("this bot has no chat %d", key))
	}
	kind := models.ChatTypePrivate
	if key < 0 {
		kind = models.ChatTypeSupergroup
	}
	err = inTx(ctx, b.db, func(tx *sql.Tx) error {
		c, err = b.meetChat(ctx, tx, &models.Chat{ID: key, Type: kind})
		return err
	})
	return c, err
}

// storeReply stores a reply with its parts and queues them; false when the agent
// gave this key before.
func (b *Bridge) storeReply(ctx context.Context, tx *sql.Tx, r *reply) (bool, error) {
	content, err := json.Marshal(r.content)
	if err != nil {
		return false, err
	}
	result, err := tx.ExecContext(ctx, `INSERT OR IGNORE INTO replies (bot, chat, agent, key, bus_id, content, received_at)
		VALUES (?, ?, ?, ?, ?, ?, ?)`, b.bot, r.chat, r.agent, r.key, string(r.busID), string(content), now())
	if err != nil {
		return false, fmt.Errorf("storing a reply: %w", err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return false, err
	}
	number, err := result.LastInsertId()
	if err != nil {
		return false, err
	}
	destination := b.destination(r.chat)
	if r.callback != "" {
		destination += " buttons" // a button must not wait for what the chat waits for
	}
	for i, p := range b.parts(r) {
		err := exec(ctx, tx, `INSERT INTO sends (reply, part, bot, chat, kind, body) VALUES (?, ?, ?, ?, ?, ?)`,
			number, i, b.bot, r.chat, p.kind, p.body)
		if err == nil {
			content, err = json.Marshal(sendItem{Reply: number, Part: i, Trace: r.trace})
		}
		if err == nil {
			_, err = b.telegram.EnqueueTx(ctx, tx, destination, fmt.Sprintf("%d.%d", number, i), content)
		}
		if err != nil {
			return false, fmt.Errorf("queueing a reply: %w", err)
		}
	}
	return true, nil
}

type part struct{ kind, body string }

// parts cuts a reply into what Telegram takes, one call each.
func (b *Bridge) parts(r *reply) []part {
	var out []part
	if r.callback != "" {
		return []part{{kindCallback, r.callback}}
	}
	if r.content.Signal != "" {
		out = append(out, part{kindSignal, r.content.Signal})
	}
	texts := markdown.Split(markdown.Render(r.content.Text), markdown.MaxUnits)
	if len(texts) == 0 && r.content.Text != "" { // Markdown that shows nothing, such as a lone comment
		texts = markdown.Split(markdown.Plain(r.content.Text), markdown.MaxUnits)
	}
	for _, t := range texts {
		raw, err := json.Marshal(t)
		if err != nil {
			panic(err) // texts and numbers always marshal
		}
		out = append(out, part{kindText, string(raw)})
	}
	return out
}

// answerCallback queues the answer to a pressed button, which else goes on
// turning.
func (b *Bridge) answerCallback(ctx context.Context, tx *sql.Tx, c *chat, h *happening) error {
	_, err := b.storeReply(ctx, tx, &reply{chat: c.key, key: "callback:" + h.callback, callback: h.callback})
	if errorsIsFull(err) {
		return nil
	}
	return err
}

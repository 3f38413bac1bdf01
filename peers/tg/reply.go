package tg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/peers/tg/markdown"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
	"golang.org/x/time/rate"
)

// An outbound is the way from the bus to Telegram: what shall be shown waits in the
// queue "telegram".
type outbound struct {
	*chats
	telegram *outbox.Outbox
	limiter  *rate.Limiter
	typing   *typing
	shown    sync.Map // the number of the message that an item made, until it is settled
}

func newOutbound(cs *chats) *outbound {
	out := &outbound{chats: cs, limiter: rate.NewLimiter(rate.Inf, 1)}
	if n := cs.opts.BotPerSecond; n > 0 {
		out.limiter = rate.NewLimiter(rate.Limit(n), max(1, n/10))
	}
	out.typing = newTyping(out)
	interrupted := outbox.GiveUpUnknown
	if cs.opts.ResendUnknown {
		interrupted = outbox.Resend
	}
	out.telegram = outbox.New(cs.db, out.send, &outbox.Options{
		Name: cs.queue(queueTelegram), Poll: outboxPoll, MaxAge: maxAge, MaxPending: cs.opts.MaxPending, Parallel: 32,
		AttemptTimeout: time.Minute, StopTimeout: stopGrace, OnInterrupted: interrupted, Began: out.began,
		OnSettled: out.settled, Log: &cs.log,
		AfterSettled: func(item outbox.Item, _ outbox.State, _ error) {
			out.shown.Delete(item.ID)
			cs.crash("recorded")
			cs.surface.Wake()
		},
	})
	return out
}

// A reply is to be shown in a chat: an agent's tg_reply, or a notice of the bridge
// itself, which has no agent.
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

// takeReply handles a tg_reply: it is on disk when nil is returned. A reply that can
// never be shown is rejected; one that cannot be shown because of the chat's state is
// stored, and a delivery_status reports that it failed.
func (out *outbound) takeReply(ctx context.Context, d *peer.Delivery) error {
	key, err := chatOf(d.Topic)
	if err != nil {
		return peer.Reject(err.Error())
	}
	r := reply{chat: key, agent: string(d.Message.From), busID: d.Message.MessageID, trace: d.Message.TraceParent}
	if err := d.Decode(&r.content); err != nil {
		return peer.Reject("the content of this tg_reply cannot be read: " + err.Error())
	}
	if err := out.checkReply(&r.content); err != nil {
		return peer.Reject(err.Error())
	}
	c, err := out.chatForReply(ctx, key)
	if err != nil {
		return err
	}
	if err := out.nameSources(ctx, &r.content, d.Message.InReplyTo); err != nil {
		return err
	}
	r.chat = c.key
	if r.content.Text == "" && r.content.Signal == "" {
		out.typing.set(c, &r)
		return nil
	}
	if r.key = r.content.IdempotencyKey; r.key == "" {
		r.key = string(r.busID)
	}
	out.crash("reply received")
	var fresh bool
	err = store.InTx(ctx, out.db, func(tx *sql.Tx) error {
		fresh, err = out.storeReply(ctx, tx, &r)
		return err
	})
	switch {
	case errors.Is(err, outbox.ErrFull):
		return errors.New("too many answers wait for Telegram in this chat; try again later")
	case err != nil:
		return err
	}
	out.crash("reply stored")
	if fresh {
		out.typing.clear(c.key, r.agent)
		out.telegram.Wake()
	}
	return nil
}

// checkReply returns why a reply can never be shown, or nil.
func (out *outbound) checkReply(content *protocol.ChatReply) error {
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
		if bot, _, _, ok := parseSource(source); ok && bot != out.bot {
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
func (out *outbound) nameSources(ctx context.Context, content *protocol.ChatReply, inReplyTo protocol.MessageID) error {
	if content.InReplyTo == "" {
		content.InReplyTo = string(inReplyTo)
	}
	for _, name := range []*string{&content.InReplyTo, &content.ReplyTo} {
		if _, _, _, ok := parseSource(*name); ok || *name == "" {
			continue
		}
		source, found, err := store.One(ctx, out.db, store.Column[string], `SELECT source_id FROM events WHERE bus_id = ?`, eventOf(*name))
		if err != nil {
			return err
		}
		if found {
			*name = source
		}
	}
	return nil
}

// chatForReply returns the chat, also if nothing was ever said there but it is
// admitted.
func (out *outbound) chatForReply(ctx context.Context, key int64) (*chat, error) {
	c, err := out.load(ctx, out.db, key)
	if err == nil || !errors.Is(err, errNoChat) {
		return c, err
	}
	if key == out.bot {
		return nil, peer.Reject("this is the bot itself; address a chat as tg:<chat id>")
	}
	admitted, err := out.admitsTopic(ctx, out.db, key)
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
	err = store.InTx(ctx, out.db, func(tx *sql.Tx) error {
		c, err = out.meet(ctx, tx, &models.Chat{ID: key, Type: kind})
		return err
	})
	return c, err
}

// storeReply stores a reply with its parts and queues them. It reports false if the
// agent used this key before.
func (out *outbound) storeReply(ctx context.Context, tx *sql.Tx, r *reply) (bool, error) {
	content, err := json.Marshal(r.content)
	if err != nil {
		return false, err
	}
	number, fresh, err := store.One(ctx, tx, store.Column[int64], `INSERT OR IGNORE INTO replies (bot, chat, agent, key, bus_id, content, received_at)
		VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id`, out.bot, r.chat, r.agent, r.key, string(r.busID), string(content), now())
	if err != nil || !fresh {
		return false, err
	}
	destination := string(topicOf(r.chat))
	if r.callback != "" {
		destination += " buttons" // a button must not wait for what the chat waits for
	}
	for i, p := range cut(r) {
		err := store.Exec(ctx, tx, `INSERT INTO sends (reply, part, bot, chat, kind, body) VALUES (?, ?, ?, ?, ?, ?)`,
			number, i, out.bot, r.chat, p.kind, p.body)
		if err == nil {
			content, err = json.Marshal(sendItem{Reply: number, Part: i, Trace: r.trace})
		}
		if err == nil {
			_, err = out.telegram.EnqueueTx(ctx, tx, destination, fmt.Sprintf("%d.%d", number, i), content)
		}
		if err != nil {
			return false, fmt.Errorf("queueing a reply: %w", err)
		}
	}
	return true, nil
}

type part struct{ kind, body string }

// cut splits a reply into parts, one call to Telegram each.
func cut(r *reply) []part {
	var parts []part
	if r.callback != "" {
		return []part{{kindCallback, r.callback}}
	}
	if r.content.Signal != "" {
		parts = append(parts, part{kindSignal, r.content.Signal})
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
		parts = append(parts, part{kindText, string(raw)})
	}
	return parts
}

// notice queues a text of the bridge's own to a chat, once per key.
func (out *outbound) notice(ctx context.Context, tx *sql.Tx, c *chat, thread int, key, text string) error {
	content := protocol.ChatReply{Text: text}
	if thread != 0 {
		content.ThreadID = id(int64(thread))
	}
	return out.own(ctx, tx, &reply{chat: c.key, key: key, content: content})
}

// answerCallback queues the answer to a pressed button, which spins until then.
func (out *outbound) answerCallback(ctx context.Context, tx *sql.Tx, c *chat, h *happening) error {
	return out.own(ctx, tx, &reply{chat: c.key, key: "callback:" + h.callback, callback: h.callback})
}

// own queues what the bridge itself has to say, unless too much waits already.
func (out *outbound) own(ctx context.Context, tx *sql.Tx, r *reply) error {
	_, err := out.storeReply(ctx, tx, r)
	if errors.Is(err, outbox.ErrFull) {
		return nil
	}
	return err
}

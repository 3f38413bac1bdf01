package tg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/notify"

	"github.com/go-telegram/bot/models"
	"golang.org/x/time/rate"
)

// An outbound sends replies to Telegram through the queue "telegram".
type outbound struct {
	*account
	telegram *outbox.Outbox
	limiter  *rate.Limiter
	typing   *typingIndicator
	shown    sync.Map    // message numbers of sent items, until they are settled
	plain    atomic.Bool // rich messages are disabled, or not supported by the server
}

func newOutbound(a *account) *outbound {
	out := &outbound{account: a, limiter: rate.NewLimiter(rate.Inf, 1)}
	if n := a.opts.BotPerSecond; n > 0 {
		out.limiter = rate.NewLimiter(rate.Limit(n), max(1, n/10))
	}
	out.plain.Store(a.opts.NoRich)
	out.typing = &typingIndicator{out: out, wake: notify.New(), busy: map[typingKey]typingSpan{},
		shown: map[typingPlace]time.Time{}, draftless: map[typingPlace]bool{}}
	interrupted := outbox.SettleUnknown
	if a.opts.ResendUnknown {
		interrupted = outbox.Resend
	}
	out.telegram = outbox.New(a.db, out.send, &outbox.Options{
		Name: queueTelegram + ":" + id(a.bot), Poll: outboxPoll, MaxAge: maxAge, MaxPending: a.opts.MaxPending,
		Parallel:       32,
		AttemptTimeout: time.Minute, StopTimeout: stopTimeout, OnInterrupted: interrupted, MayHaveSent: out.mayHaveSent,
		OnSettled: out.onSettled, Log: a.log,
		AfterSettled: func(item outbox.Item, _ outbox.State, _ error) {
			out.shown.Delete(item.ID)
			a.crash("recorded")
		},
	})
	return out
}

// A reply is a tg_reply of an agent, or a notice of the bridge.
type reply struct {
	chat     int64
	agent    string
	key      string // unique per agent
	busID    protocol.MessageID
	trace    string
	content  protocol.ChatReply
	callback string // the ID of a callback query that the reply answers
}

// The kinds of parts.
const (
	kindText     = "text"
	kindSignal   = "signal"
	kindCallback = "callback"
)

// takeReply handles a tg_reply. When it returns nil, the reply is on disk. It rejects a reply
// that can never be shown. A reply that the state of the chat prevents is stored, and its
// delivery_status reports the failure.
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
	var c *chat
	var refusal string
	err = store.Autocommit(ctx, out.db, func(tx *store.Tx) {
		c, refusal = out.chatForReply(tx, key)
		bridge.ResolveSourceIDs(tx, &r.content, d.Message.InReplyTo, func(name string) bool {
			_, _, _, ok := parseSource(name)
			return ok
		})
	})
	switch {
	case err != nil:
		return err
	case refusal != "":
		return peer.Reject(refusal)
	}
	r.chat = c.key
	if r.content.Text == "" && r.content.Signal == "" && r.content.File == nil {
		out.typing.set(ctx, c, &r)
		return nil
	}
	r.key = cmp.Or(r.content.IdempotencyKey, string(r.busID))
	out.crash("reply received")
	var fresh bool
	err = store.InTx(ctx, out.db, func(tx *store.Tx) {
		fresh, err = out.storeReply(tx, &r)
		tx.Fail(err)
	})
	switch {
	case errors.Is(err, outbox.ErrFull):
		return errors.New("too many replies are waiting for Telegram; try again later")
	case err != nil:
		return err
	}
	out.crash("reply stored")
	if fresh && r.content.Text != "" {
		out.typing.clear(c.key, r.agent)
	}
	return nil
}

// checkReply returns why a reply can never be shown, or nil.
func (out *outbound) checkReply(content *protocol.ChatReply) error {
	if err := bridge.CheckReply(content, markdown.Units); err != nil {
		return err
	}
	if err := checkButtons(content); err != nil {
		return err
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

// Limits for the buttons of a reply. Telegram limits the value.
const (
	maxButtons     = 12
	maxButtonText  = 100 // bytes
	maxButtonValue = 64
)

func checkButtons(content *protocol.ChatReply) error {
	switch {
	case len(content.Buttons) == 0 && content.Edits == "":
		return nil
	case content.Text == "":
		return errors.New("buttons and an edit need a text")
	case len(content.Buttons) > maxButtons:
		return fmt.Errorf("there are %d buttons; at most %d are allowed", len(content.Buttons), maxButtons)
	}
	for _, b := range content.Buttons {
		if b.Text == "" || len(b.Text) > maxButtonText || b.Value == "" || len(b.Value) > maxButtonValue {
			return fmt.Errorf("a button needs a text of 1 to %d bytes and a value of 1 to %d", maxButtonText,
				maxButtonValue)
		}
	}
	return nil
}

// chatForReply returns the chat with a key, also an admitted one without messages; or why there
// is none.
func (out *outbound) chatForReply(tx *store.Tx, key int64) (c *chat, refusal string) {
	c, known := out.load(tx, key)
	switch {
	case known:
		return c, ""
	case key == out.bot:
		return nil, "this is the bot itself; the address of a chat is tg:<chat id>"
	case !out.admitsTopic(tx, key):
		return nil, fmt.Sprintf("this bot has no chat %d", key)
	}
	kind := models.ChatTypePrivate
	if key < 0 {
		kind = models.ChatTypeSupergroup
	}
	return out.ensureChat(tx, &models.Chat{ID: key, Type: kind}), ""
}

// storeReply stores a reply and queues its parts. It reports false if the agent has used the key
// before, or tx has an error. The queue's refusal is returned and does not fail tx.
func (out *outbound) storeReply(tx *store.Tx, r *reply) (bool, error) {
	number, fresh := store.One(tx, store.Scalar[int64],
		`INSERT OR IGNORE INTO replies (bot, chat, agent, key, bus_id, content, received_at)
		VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id`, out.bot, r.chat, r.agent, r.key, string(r.busID),
		string(mustJSON(r.content)), nowMicros())
	if !fresh {
		return false, nil
	}
	destination := string(topicOf(r.chat))
	if r.callback != "" {
		destination += " buttons" // an answer to a press does not wait behind the chat's replies
	}
	for i, p := range splitParts(r) {
		tx.Exec(`INSERT INTO sends (reply, part, bot, chat, kind, body) VALUES (?, ?, ?, ?, ?, ?)`, number, i,
			out.bot, r.chat, p.kind, p.body)
		_, err := out.telegram.EnqueueTx(tx, destination, fmt.Sprintf("%d.%d", number, i),
			mustJSON(sendItem{Reply: number, Part: i, Trace: r.trace}))
		if err != nil {
			return false, fmt.Errorf("queueing a reply: %w", err)
		}
	}
	return true, nil
}

type part struct{ kind, body string }

// splitParts splits a reply into parts, each of which needs one call to Telegram.
func splitParts(r *reply) (parts []part) {
	if r.callback != "" {
		return []part{{kindCallback, r.callback}}
	}
	if r.content.Signal != "" {
		parts = append(parts, part{kindSignal, r.content.Signal})
	}
	if r.content.File != nil {
		return append(parts, part{kindText, string(mustJSON(captionOf(r.content.Text)))})
	}
	texts := markdown.Split(markdown.Render(r.content.Text), markdown.MaxUnits)
	if len(texts) == 0 && r.content.Text != "" { // the Markdown renders to nothing, such as a lone comment
		texts = markdown.Split(markdown.Plain(r.content.Text), markdown.MaxUnits)
	}
	for _, t := range texts {
		parts = append(parts, part{kindText, string(mustJSON(t))})
	}
	return parts
}

// notice queues a text of the bridge itself to a chat, once per key.
func (out *outbound) notice(tx *store.Tx, c *chat, thread int, key, text string) {
	content := protocol.ChatReply{Text: text}
	if thread != 0 {
		content.ThreadID = id(int64(thread))
	}
	out.enqueueReply(tx, &reply{chat: c.key, key: key, content: content})
}

// enqueueReply queues a reply of the bridge itself, unless the queue is full.
func (out *outbound) enqueueReply(tx *store.Tx, r *reply) {
	if _, err := out.storeReply(tx, r); !errors.Is(err, outbox.ErrFull) {
		tx.Fail(err)
	}
}

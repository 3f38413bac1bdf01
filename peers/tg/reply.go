package tg

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"
	"hubbub/peers/outbox"
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

// A reply is a tg_reply of an agent, or a notice from the bridge.
type reply struct {
	bridge.Reply
	chat     int64
	callback string // the ID of a callback query that the reply answers
}

// The kinds of parts.
const (
	kindText     = "text"
	kindSignal   = "signal"
	kindCallback = "callback"
)

// replies returns how the bridge takes replies.
func (out *outbound) replies() *bridge.ReplyTaker[*chat] {
	return &bridge.ReplyTaker[*chat]{
		System: "Telegram",
		InTx:   store.InTxAhead,
		Check:  out.checkReply,
		IsSource: func(name string) bool {
			_, _, _, ok := parseSource(name)
			return ok
		},
		Typing: out.typing.set,
		Find:   out.chatForReply,
		Store: func(tx *store.Tx, c *chat, r *bridge.Reply) (bool, error) {
			return out.storeReply(tx, &reply{Reply: *r, chat: c.key})
		},
	}
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

// chatForReply returns the chat that a topic names, which may be an admitted one without
// messages, or why there is none.
func (out *outbound) chatForReply(tx *store.Tx, topic protocol.Topic) (c *chat, refusal string) {
	key, err := chatOf(topic)
	if err != nil {
		return nil, err.Error()
	}
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
		VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id`, out.bot, r.chat, r.Agent, r.Key, string(r.BusID),
		string(mustJSON(r.Content)), nowMicros())
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
			mustJSON(sendItem{Reply: number, Part: i, Trace: r.Trace}))
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
	if r.Content.Signal != "" {
		parts = append(parts, part{kindSignal, r.Content.Signal})
	}
	if r.Content.File != nil {
		return append(parts, part{kindText, string(mustJSON(captionOf(r.Content.Text)))})
	}
	limit := markdown.MaxUnits - markdown.Units(choices(r.Content.Buttons))
	texts := markdown.Split(markdown.Render(r.Content.Text), limit)
	if len(texts) == 0 && r.Content.Text != "" { // the Markdown renders to nothing, such as a lone comment
		texts = markdown.Split(markdown.Plain(r.Content.Text), limit)
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
	out.enqueueReply(tx, &reply{chat: c.key, Reply: bridge.Reply{Key: key, Content: content}})
}

// enqueueReply queues a reply from the bridge itself, unless the queue is full.
func (out *outbound) enqueueReply(tx *store.Tx, r *reply) {
	if _, err := out.storeReply(tx, r); !errors.Is(err, outbox.ErrFull) {
		tx.Fail(err)
	}
}

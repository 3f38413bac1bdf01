package mx

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// queueMatrix is the name of the queue of requests to the homeserver.
const queueMatrix = "matrix"

// An outbound sends replies to Matrix through the queue "matrix".
type outbound struct {
	*account
	matrix *outbox.Outbox
	typing *typingList // agents
}

func newOutbound(a *account) *outbound {
	out := &outbound{account: a}
	out.typing = newTypingList(typingRefresh, out.showTyping)
	out.matrix = outbox.New(a.db, out.send, &outbox.Options{
		Name: queueMatrix, Poll: 5 * time.Second, MaxAge: maxAge, MaxPending: a.opts.MaxPending, Parallel: 16,
		AttemptTimeout: time.Minute, StopTimeout: 6 * time.Second, OnInterrupted: outbox.Resend,
		OnSettled: out.onSettled, Log: a.log,
		AfterSettled: func(outbox.Item, outbox.State, error) { a.crash("recorded") },
	})
	return out
}

// The kinds of parts.
const (
	kindText   = "text"
	kindFile   = "file"
	kindSignal = "signal"
)

// replies returns how the bridge takes replies.
func (out *outbound) replies() *bridge.ReplyTaker[*chat] {
	return &bridge.ReplyTaker[*chat]{
		System:   "Matrix",
		InTx:     store.InTx,
		Check:    func(content *protocol.ChatReply) error { return bridge.CheckReply(content, utf8.RuneCountInString) },
		IsSource: func(name string) bool { return eventOf(name) != "" },
		Typing:   out.setTyping,
		Find:     out.find,
		Store:    out.storeReply,
	}
}

type part struct{ kind, body string }

// splitParts splits a reply into parts, each of which is one event.
func splitParts(r *bridge.Reply) (parts []part) {
	if r.Content.Signal != "" {
		parts = append(parts, part{kindSignal, r.Content.Signal})
	}
	texts := markdown.Messages(r.Content.Text, maxText)
	if len(texts) == 0 && r.Content.Text != "" { // the Markdown renders to nothing, such as a lone comment
		texts = []markdown.Message{{Text: r.Content.Text}}
	}
	if r.Content.File != nil {
		caption := markdown.Message{}
		if len(texts) > 0 {
			caption = texts[0]
		}
		return append(parts, part{kindFile, mustJSON(caption)})
	}
	for _, t := range texts {
		parts = append(parts, part{kindText, mustJSON(t)})
	}
	return parts
}

// An item is the body of an item in the queue "matrix": a part of a reply, or an act of the bridge.
type item struct {
	Reply int64  `json:"reply,omitempty"`
	Part  int    `json:"part,omitempty"`
	Trace string `json:"traceparent,omitempty"` // of the chat_reply
	Act   *act   `json:"act,omitempty"`
}

// storeReply stores a reply and queues its parts. It reports false if the agent has used the key
// before, or tx has an error. The queue's refusal is returned and does not fail tx. The transaction
// ID of a part depends on the agent and its key alone.
func (out *outbound) storeReply(tx *store.Tx, c *chat, r *bridge.Reply) (bool, error) {
	number, fresh := store.One(tx, store.Scalar[int64], `INSERT OR IGNORE INTO replies
		(chat, agent, key, bus_id, content, received_at) VALUES (?, ?, ?, ?, ?, ?) RETURNING id`,
		c.key, r.Agent, r.Key, string(r.BusID), mustJSON(r.Content), nowMicros())
	if !fresh {
		return false, nil
	}
	for i, p := range splitParts(r) {
		tx.Exec(`INSERT INTO sends (reply, part, kind, body, txn) VALUES (?, ?, ?, ?, ?)`, number, i, p.kind, p.body,
			"hubbub-"+digest(c.key, r.Agent, r.Key, fmt.Sprint(i)))
		_, err := out.matrix.EnqueueTx(tx, string(peerOf(c.key)), fmt.Sprintf("%d.%d", number, i),
			[]byte(mustJSON(item{Reply: number, Part: i, Trace: r.Trace})))
		if err != nil {
			return false, fmt.Errorf("queueing a reply: %w", err)
		}
	}
	return true, nil
}

// notice queues a text of the bridge itself to a chat, once per key, unless the queue is full.
func (out *outbound) notice(tx *store.Tx, c *chat, thread, key, words string) {
	r := bridge.Reply{Key: key, Content: protocol.ChatReply{Text: words, ThreadID: thread}}
	if _, err := out.storeReply(tx, c, &r); !errors.Is(err, outbox.ErrFull) {
		tx.Fail(err)
	}
}

// An act is a request from the bridge itself about a room.
type act struct {
	Kind   string   `json:"kind"`
	Room   string   `json:"room"`
	Via    []string `json:"via,omitempty"` // servers that know the room
	Reason string   `json:"reason,omitempty"`
}

// The kinds of acts.
const (
	actJoin  = "join"
	actLeave = "leave"
)

// enqueueAct queues an act. Repeating one has no effect.
func (out *outbound) enqueueAct(tx *store.Tx, a *act) {
	_, err := out.matrix.EnqueueTx(tx, a.Room, fmt.Sprintf("%s:%d", a.Kind, nowMicros()), []byte(mustJSON(item{Act: a})))
	tx.Fail(err)
}

// outgoing is one part of a reply with everything needed to send it.
type outgoing struct {
	item
	of    *outbox.Item
	chat  *chat
	agent string
	busID protocol.MessageID
	part
	content protocol.ChatReply
	txn     string
	event   string // its ID in Matrix, if it is known
}

// outgoing loads what is needed to send an item.
func (out *outbound) outgoing(tx *store.Tx, of *outbox.Item) (*outgoing, error) {
	var body item
	if err := json.Unmarshal(of.Body, &body); err != nil {
		return nil, outbox.Permanent(fmt.Errorf("the item cannot be read: %w", err))
	}
	if body.Act != nil {
		return &outgoing{item: body, of: of}, nil
	}
	var room string
	var content []byte
	o, found := store.One(tx, func(o *outgoing) []any {
		return []any{&o.kind, &o.body, &o.txn, &o.event, &room, &o.agent, &o.busID, &content}
	}, `SELECT s.kind, s.body, s.txn, s.event, r.chat, r.agent, r.bus_id, r.content
		FROM sends s JOIN replies r ON r.id = s.reply WHERE s.reply = ? AND s.part = ?`, body.Reply, body.Part)
	if !found {
		return nil, cmp.Or(tx.Err(), outbox.Permanent(fmt.Errorf("reply %d is no longer stored", body.Reply)))
	}
	o.item, o.of = body, of
	if err := json.Unmarshal(content, &o.content); err != nil {
		return nil, outbox.Permanent(fmt.Errorf("reply %d cannot be read: %w", o.Reply, err))
	}
	if o.chat, found = out.load(tx, room); !found {
		return nil, cmp.Or(tx.Err(), outbox.Permanent(errNotJoined))
	}
	return &o, nil
}

package mx

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
	"unicode/utf8"

	"hubbub/peers/bridge"
	"hubbub/peers/markdown"
	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/notify"
)

// queueMatrix is the name of the queue of requests to the homeserver.
const queueMatrix = "matrix"

// An outbound sends replies to Matrix through the queue "matrix".
type outbound struct {
	*account
	matrix *outbox.Outbox
	typing *typingIndicator
	sent   sync.Map // IDs in Matrix of sent items, until they are settled
}

func newOutbound(a *account) *outbound {
	out := &outbound{account: a}
	out.typing = &typingIndicator{out: out, wake: notify.New(), busy: map[typingKey]time.Time{},
		shown: map[string]time.Time{}}
	out.matrix = outbox.New(a.db, out.send, &outbox.Options{
		Name: queueMatrix, Poll: 5 * time.Second, MaxAge: maxAge, MaxPending: a.opts.MaxPending, Parallel: 16,
		AttemptTimeout: time.Minute, StopTimeout: 6 * time.Second, OnInterrupted: outbox.Resend,
		OnSettled: out.onSettled, Log: a.log,
		AfterSettled: func(item outbox.Item, _ outbox.State, _ error) {
			out.sent.Delete(item.ID)
			a.crash("recorded")
		},
	})
	return out
}

// A reply is a chat_reply of an agent, or a notice of the bridge, which has no agent.
type reply struct {
	chat    string
	agent   string
	key     string // unique per agent
	busID   protocol.MessageID
	trace   string
	content protocol.ChatReply
}

// The kinds of parts.
const (
	kindText   = "text"
	kindFile   = "file"
	kindSignal = "signal"
)

// takeReply handles a chat_reply. When it returns nil, the reply is on disk. It rejects a reply
// that can never be shown. A reply that the state of the chat prevents is stored, and its
// delivery_status reports the failure.
func (out *outbound) takeReply(ctx context.Context, d *peer.Delivery) error {
	r := reply{agent: string(d.Message.From), busID: d.Message.MessageID, trace: d.Message.TraceParent}
	if err := d.Decode(&r.content); err != nil {
		return peer.Reject("the content of this chat_reply cannot be read: " + err.Error())
	}
	if err := bridge.CheckReply(&r.content, utf8.RuneCountInString); err != nil {
		return peer.Reject(err.Error())
	}
	var c *chat
	var refusal string
	err := store.Autocommit(ctx, out.db, func(tx *store.Tx) {
		if c, refusal = out.find(tx, d.Topic); refusal == "" {
			bridge.ResolveSourceIDs(tx, &r.content, d.Message.InReplyTo,
				func(name string) bool { return eventOf(name) != "" })
		}
	})
	switch {
	case err != nil:
		return err
	case refusal != "":
		return peer.Reject(refusal)
	}
	r.chat = c.key
	if r.content.Text == "" && r.content.Signal == "" && r.content.File == nil {
		out.typing.set(c, &r)
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
		return errors.New("too many replies are waiting for Matrix; try again later")
	case err != nil:
		return err
	}
	out.crash("reply stored")
	if fresh && r.content.Signal == "" {
		out.typing.clear(c.room, r.agent)
	}
	return nil
}

type part struct{ kind, body string }

// splitParts splits a reply into parts, each of which is one event.
func splitParts(r *reply) (parts []part) {
	if r.content.Signal != "" {
		parts = append(parts, part{kindSignal, r.content.Signal})
	}
	texts := markdown.Messages(r.content.Text, maxText)
	if len(texts) == 0 && r.content.Text != "" { // the Markdown renders to nothing, such as a lone comment
		texts = []markdown.Message{{Text: r.content.Text}}
	}
	if r.content.File != nil {
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
func (out *outbound) storeReply(tx *store.Tx, r *reply) (bool, error) {
	number, fresh := store.One(tx, store.Scalar[int64], `INSERT OR IGNORE INTO replies
		(chat, agent, key, bus_id, content, received_at) VALUES (?, ?, ?, ?, ?, ?) RETURNING id`,
		r.chat, r.agent, r.key, string(r.busID), mustJSON(r.content), nowMicros())
	if !fresh {
		return false, nil
	}
	for i, p := range splitParts(r) {
		tx.Exec(`INSERT INTO sends (reply, part, kind, body, txn) VALUES (?, ?, ?, ?, ?)`, number, i, p.kind, p.body,
			"hubbub-"+digest(r.chat, r.agent, r.key, fmt.Sprint(i)))
		_, err := out.matrix.EnqueueTx(tx, string(peerOf(r.chat)), fmt.Sprintf("%d.%d", number, i),
			[]byte(mustJSON(item{Reply: number, Part: i, Trace: r.trace})))
		if err != nil {
			return false, fmt.Errorf("queueing a reply: %w", err)
		}
	}
	return true, nil
}

// notice queues a text of the bridge itself to a chat, once per key, unless the queue is full.
func (out *outbound) notice(tx *store.Tx, c *chat, thread, key, words string) {
	r := reply{chat: c.key, key: key, content: protocol.ChatReply{Text: words, ThreadID: thread}}
	if _, err := out.storeReply(tx, &r); !errors.Is(err, outbox.ErrFull) {
		tx.Fail(err)
	}
}

// An act is a request of the bridge itself about a room.
type act struct {
	Kind   string `json:"kind"`
	Room   string `json:"room"`
	Via    string `json:"via,omitempty"` // a server that knows the room
	Reason string `json:"reason,omitempty"`
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

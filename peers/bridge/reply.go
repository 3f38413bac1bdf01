package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A Reply is a reply from an agent, or a notice from the bridge, which has no agent.
type Reply struct {
	Agent   string
	Key     string // unique per agent
	BusID   protocol.MessageID
	Trace   string // traceparent
	Content protocol.ChatReply
}

// A ReplyTaker takes the replies from agents for a bridge, whose chats are Cs.
type ReplyTaker[C any] struct {
	System   string                           // the chat system, for people
	Check    func(*protocol.ChatReply) error  // returns why a reply can never be shown, or nil
	IsSource func(name string) bool           // recognizes the sourceId of a message of the system
	Typing   func(context.Context, C, *Reply) // shows that the agent is typing, or ends that

	// InTx is store.InTx, or store.InTxAhead if each attempt to send a reply is synced before its request
	// leaves.
	InTx func(context.Context, *store.DB, func(*store.Tx)) error
	// Find returns the chat that a topic names, or a refusal.
	Find func(tx *store.Tx, topic protocol.Topic) (chat C, refusal string)
	// Store queues a reply. It reports false if the agent has used the key before, or tx has an error.
	// The queue's refusal is returned and does not fail tx.
	Store func(tx *store.Tx, chat C, r *Reply) (fresh bool, err error)
}

// Take returns a handler of replies. When it returns nil, the reply is on disk. It rejects a reply that
// can never be shown. A reply that the state of the chat prevents is stored, and its delivery_status
// reports the failure.
func (t *ReplyTaker[C]) Take(router *Router) peer.Handler {
	return func(ctx context.Context, d *peer.Delivery) error {
		m := &d.Message
		r := &Reply{Agent: string(m.From), BusID: m.MessageID, Trace: m.TraceParent}
		if err := d.Decode(&r.Content); err != nil {
			return peer.Reject(fmt.Sprintf("the content of this %s cannot be read: %s", m.Type, err))
		}
		if err := t.Check(&r.Content); err != nil {
			return peer.Reject(err.Error())
		}
		var chat C
		var refusal string
		err := store.Autocommit(ctx, router.db, func(tx *store.Tx) {
			if chat, refusal = t.Find(tx, d.Topic); refusal == "" {
				resolveSourceIDs(tx, &r.Content, m.InReplyTo, t.IsSource)
			}
		})
		switch c := &r.Content; {
		case err != nil:
			return err
		case refusal != "":
			return peer.Reject(refusal)
		case c.Text == "" && c.Signal == "" && c.File == nil:
			t.Typing(ctx, chat, r)
			return nil
		}
		r.Key = cmp.Or(r.Content.IdempotencyKey, string(r.BusID))
		router.opts.Crash("reply received")
		var fresh bool
		err = t.InTx(ctx, router.db, func(tx *store.Tx) {
			fresh, err = t.Store(tx, chat, r)
			tx.Fail(err)
		})
		switch {
		case errors.Is(err, outbox.ErrFull):
			return fmt.Errorf("too many replies are waiting for %s; try again later", t.System)
		case err != nil:
			return err
		}
		router.opts.Crash("reply stored")
		if fresh && (r.Content.Text != "" || r.Content.File != nil) {
			r.Content.Typing = false // what the agent was typing is here
			t.Typing(ctx, chat, r)
		}
		return nil
	}
}

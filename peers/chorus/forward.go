package chorus

import (
	"context"
	"database/sql"
	"fmt"

	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/peers/surface"
	"hubbub/protocol"
)

// channels are the channels of inboxes as chats of a surface, and its host.
type channels struct{ g *Gateway }

// Find returns the channel that a topic names.
func (c channels) Find(ctx context.Context, q store.Querier, topic protocol.Topic) (protocol.PeerID, string, error) {
	peer, found, err := store.One(ctx, q, store.Column[protocol.PeerID], `SELECT peer FROM channel WHERE peer = ?`, topic)
	if !found {
		return "", "there is no such channel here", err
	}
	return peer, "", nil
}

// Message returns the chat_message of what a service POSTed. Every attempt has the
// same messageId and sourceId, by which the agent knows it.
func (c channels) Message(ctx context.Context, e *surface.Event) (protocol.Message, error) {
	in, found, err := store.One(ctx, c.g.store.db, func(row store.Row) (in inbound, err error) {
		err = row.Scan(&in.messageID, (*[]byte)(&in.content))
		return in, err
	}, `SELECT message_id, content FROM inbound WHERE seq = ?`, e.ID)
	if err == nil && !found {
		err = outbox.Permanent(errForgotten)
	}
	in.channel = e.Chat
	return in.message(), err
}

// Tell tells the callback of the oldest waiting message, once, that there is no
// agent. The messages stay.
func (c channels) Tell(ctx context.Context, tx *sql.Tx, n *surface.Notice) error {
	why := "no agent could be reached yet; the message is kept"
	if n.Kind == surface.NoticeFailed || n.Kind == surface.NoticeGivenUp {
		why = "no agent could be started; the message is kept"
	}
	seq, found, err := store.One(ctx, tx, store.Column[int64],
		`SELECT seq FROM inbound WHERE channel = ? AND forwarded_at = 0 ORDER BY seq LIMIT 1`, n.Chat)
	if err != nil || !found {
		return err
	}
	return c.g.enqueueError(ctx, tx, n.Chat, seq, "no-agent", why, "no_agent")
}

// Settled records that a message is with its agent, or tells its callback that no
// agent will take it.
func (c channels) Settled(ctx context.Context, tx *sql.Tx, e *surface.Event, outcome outbox.State, cause error) error {
	err := store.Exec(ctx, tx, `UPDATE inbound SET forwarded_at = ? WHERE seq = ?`, micros(c.g.store.now()), e.ID)
	if err != nil || outcome == outbox.StateSent {
		return err
	}
	c.g.log.Warn().Str("peer", string(e.Chat)).Int64("message", e.ID).Err(cause).Msg("message given up; its callback is told")
	return c.g.enqueueError(ctx, tx, e.Chat, e.ID, "given-up", fmt.Sprintf("no agent took the message: %v", cause), "not_delivered")
}

// Wake makes the queue towards callbacks look again.
func (c channels) Wake() { c.g.callbacks.Wake() }

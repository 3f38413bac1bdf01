package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/retry"
	"hubbub/protocol/text"
)

// maxReason bounds, in characters, the reasons that are stored and told.
const maxReason = 300

// errNoRoute is why a step is repeated whose request was taken: the taker may have
// died with it.
var errNoRoute = errors.New("the request was taken; no agent is assigned yet")

// runStep makes the next step of a chat that is on its way: it asks for an agent, or
// hands on what could not be handed on before. Nil means that there is none left.
func (r *Router) runStep(ctx context.Context, item outbox.Item) error {
	id := protocol.PeerID(item.Destination)
	tx := store.On(ctx, r.db)
	c := r.load(tx, id)
	if tx.Err() == nil && c.state != Asking {
		return r.dispatchLater(ctx, id)
	}
	_, refusal := r.adapter.FindChat(tx, id.Topic())
	switch {
	case tx.Err() != nil:
		return tx.Err()
	case refusal != "": // an agent would be started for it, and its route refused
		r.log.Warn().Str("topic", string(id)).Str("reason", refusal).Msg("chat no longer asks for an agent")
		return store.InTx(ctx, r.db, func(tx *store.Tx) { r.cancelRequest(tx, id) })
	case !c.notified && r.opts.Now().Sub(c.askedAt) >= r.opts.SlowAfter:
		if err := r.notifySlow(ctx, id); err != nil {
			return err
		}
	}
	return r.requestAgent(ctx, c, item.Attempt)
}

// restoreSteps gives a step to every chat that needs one and, as it was stored by an
// older program or given up by an operator, has none.
func (r *Router) restoreSteps(tx *store.Tx) {
	type due struct {
		chat protocol.PeerID
		key  string
	}
	for _, d := range store.All(tx, func(d *due) []any { return []any{&d.chat, &d.key} }, `SELECT chat, request FROM bridge_chats WHERE bridge = ?1 AND state = 'asking' UNION ALL
		SELECT e.chat, min(e.event) FROM bridge_events e JOIN bridge_agents a ON a.bridge = e.bridge AND a.chat = e.chat
		WHERE e.bridge = ?1 AND e.agents = '' GROUP BY e.chat`, r.opts.Name) {
		r.enqueueStep(tx, d.chat, d.key)
	}
}

// requestAgent sends a chat's spawn request. It is repeated, under the same id, until the
// chat has an agent.
func (r *Router) requestAgent(ctx context.Context, c *chatState, attempt int) error {
	sending, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	m := protocol.NewMessage(protocol.TypeSpawnRequest, c.id, protocol.SpawnRequest{Topic: c.id.Topic(), RequestID: c.request})
	result, err := r.peer.Send(sending, protocol.TopicSpawn, m)
	err = peer.ClassifyAny(protocol.TopicSpawn, result, err)
	r.opts.Crash("asked")
	trouble := ""
	switch peer.OutcomeOf(err) {
	case peer.Received:
		err = errNoRoute
	case peer.Absent:
		trouble = "nobody on the bus starts agents; is hubbub-system running?"
	default:
		trouble = "the bus did not take the request for an agent: " + err.Error()
	}
	if trouble != "" {
		r.log.Warn().Str("topic", string(c.id)).Int("attempt", attempt).Msg(trouble)
	}
	if stored := r.setProblem(ctx, c, trouble); stored != nil {
		return stored
	}
	delay := time.Duration(0)
	if trouble == "" {
		delay = retry.Backoff{Min: 5 * time.Second, Max: maxBackoff}.After(attempt)
	}
	if left := r.opts.SlowAfter - r.opts.Now().Sub(c.askedAt); !c.notified && left > 0 && left < maxBackoff {
		delay = min(left, max(delay, time.Second)) // to tell it in time
	}
	return outbox.Later(delay, fmt.Errorf("asking for an agent: %w", err))
}

// setProblem notes why a chat has no agent yet, unless it has moved on.
func (r *Router) setProblem(ctx context.Context, c *chatState, trouble string) error {
	if trouble = text.Clip(trouble, maxReason); trouble == c.problem {
		return nil
	}
	tx := store.On(ctx, r.db)
	tx.Exec(`UPDATE bridge_chats SET problem = ? WHERE bridge = ? AND chat = ? AND request = ?`, trouble, r.opts.Name, c.id, c.request)
	return tx.Err()
}

// notifySlow tells a chat that its agent takes long.
func (r *Router) notifySlow(ctx context.Context, id protocol.PeerID) error {
	return store.InTx(ctx, r.db, func(tx *store.Tx) {
		if c := r.load(tx, id); c.state == Asking {
			r.notifyOnce(tx, c, NoticeSlow, "")
		}
	})
}

// notifyOnce tells a chat that no agent comes, once until one came.
func (r *Router) notifyOnce(tx *store.Tx, c *chatState, kind NoticeKind, why string) {
	if c.notified {
		return
	}
	c.notified = true
	r.save(tx, c)
	r.notify(tx, &Notice{Kind: kind, Chat: c.id, Reason: why, Key: c.request})
}

// notify completes a notice and gives it to the host.
func (r *Router) notify(tx *store.Tx, n *Notice) {
	n.Reason = text.Clip(n.Reason, maxReason)
	n.Event = r.oldestWaiting(tx, n.Chat)
	r.adapter.Notify(tx, n)
}

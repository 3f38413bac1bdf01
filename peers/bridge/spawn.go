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

// errNoRoute makes the outbox repeat a request that was accepted: the peer that accepted it
// may have died before it could assign an agent.
var errNoRoute = errors.New("the request was accepted; no agent is assigned yet")

// runStep takes the next step for a chat: it requests an agent, or dispatches events that
// could not be dispatched before. It returns nil when no step is left.
func (r *Router) runStep(ctx context.Context, item outbox.Item) error {
	id := protocol.PeerID(item.Destination)
	var c *chatState
	refusal, err := store.Read(ctx, r.db, func(tx *store.Tx) string {
		c = r.table.load(tx, id)
		_, refusal := r.adapter.FindChat(tx, id.Topic())
		return refusal
	})
	switch {
	case err != nil:
		return err
	case c.state != Asking:
		return r.dispatchLater(ctx, id)
	case refusal != "": // a started agent would be useless: its route would be rejected
		r.log.Warn().Str("topic", string(id)).Str("reason", refusal).Msg("chat no longer requests an agent")
		return store.InTx(ctx, r.db, func(tx *store.Tx) { r.cancelRequest(tx, id) })
	case !c.notified && r.opts.Now().Sub(c.askedAt) >= r.opts.SlowAfter:
		if err := r.notifySlow(ctx, id); err != nil {
			return err
		}
	}
	return r.requestAgent(ctx, c, item.Attempt)
}

// restoreSteps queues a step for every chat that needs one and has none, for example
// because an operator dropped it.
func (r *Router) restoreSteps(tx *store.Tx) {
	type due struct {
		chat protocol.PeerID
		key  string
	}
	for _, d := range store.All(tx, func(d *due) []any { return []any{&d.chat, &d.key} },
		`SELECT chat, request FROM bridge_chats WHERE bridge = ?1 AND state = 'asking' UNION ALL
		SELECT e.chat, min(e.event) FROM bridge_events e JOIN bridge_agents a ON a.bridge = e.bridge AND a.chat = e.chat
		WHERE e.bridge = ?1 AND e.agents = '' GROUP BY e.chat`, r.opts.Name) {
		r.enqueueStep(tx, d.chat, d.key)
	}
}

// requestAgent sends a chat's spawn request. It is repeated under the same ID until the
// chat has an agent.
func (r *Router) requestAgent(ctx context.Context, c *chatState, attempt int) error {
	sending, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	m := protocol.NewMessage(protocol.TypeSpawnRequest, c.id,
		protocol.SpawnRequest{Topic: c.id.Topic(), RequestID: c.request})
	result, err := r.peer.Send(sending, protocol.TopicSpawn, m)
	err = peer.ClassifyAny(protocol.TopicSpawn, result, err)
	r.opts.Crash("asked")
	problem := ""
	switch peer.OutcomeOf(err) {
	case peer.Received:
		err = errNoRoute
	case peer.Absent:
		problem = "no peer on the bus starts agents; is hubbub-system running?"
	default:
		problem = "the bus did not accept the request for an agent: " + err.Error()
	}
	if problem != "" {
		r.log.Warn().Str("topic", string(c.id)).Int("attempt", attempt).Msg(problem)
	}
	if stored := r.setProblem(ctx, c, problem); stored != nil {
		return stored
	}
	delay := time.Duration(0)
	if problem == "" {
		delay = retry.Backoff{Min: 5 * time.Second, Max: maxBackoff}.After(attempt)
	}
	if left := r.opts.SlowAfter - r.opts.Now().Sub(c.askedAt); !c.notified && left > 0 && left < maxBackoff {
		delay = min(left, max(delay, time.Second)) // in time for NoticeSlow
	}
	return outbox.Later(delay, fmt.Errorf("requesting an agent: %w", err))
}

// setProblem stores why a chat has no agent yet, unless its request is no longer open.
func (r *Router) setProblem(ctx context.Context, c *chatState, problem string) error {
	if problem = text.Clip(problem, MaxReason); problem == c.problem {
		return nil
	}
	return store.Exec(ctx, r.db,
		`UPDATE bridge_chats SET problem = ? WHERE bridge = ? AND chat = ? AND request = ?`,
		problem, r.opts.Name, c.id, c.request)
}

// notifySlow notifies a chat that its agent takes long to start.
func (r *Router) notifySlow(ctx context.Context, id protocol.PeerID) error {
	return store.InTx(ctx, r.db, func(tx *store.Tx) {
		if c := r.table.load(tx, id); c.state == Asking {
			r.notifyOnce(tx, c, NoticeSlow, "")
		}
	})
}

// notifyOnce notifies a chat that it has no agent, once until an agent is assigned.
func (r *Router) notifyOnce(tx *store.Tx, c *chatState, kind NoticeKind, reason string) {
	if c.notified {
		return
	}
	c.notified = true
	r.table.save(tx, c)
	r.notify(tx, &Notice{Kind: kind, Chat: c.id, Reason: reason, Key: c.request})
}

// notify completes a notice and passes it on.
func (r *Router) notify(tx *store.Tx, n *Notice) {
	n.Reason = text.Clip(n.Reason, MaxReason)
	r.opts.OnNotice(tx, n)
}

// postNotice shows a notice in its chat, if the chat is open.
func (r *Router) postNotice(tx *store.Tx, n *Notice) {
	key, words := n.text()
	if words == "" || r.table.load(tx, n.Chat).closed {
		return
	}
	thread := ""
	if n.Kind == NoticeSlow || n.Kind == NoticeStartFailed {
		thread = store.Value[string](tx, `SELECT thread FROM events WHERE id = ?`, r.table.oldestWaiting(tx, n.Chat))
	}
	r.opts.Commands.Post(tx, n.Chat, thread, key, words)
}

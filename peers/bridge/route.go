package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// onRouteAssigned handles a route_assigned, which gives the chat an agent. A route that
// answers a spawn request must answer a request of this chat. A route without a request
// comes from an operator and adds an agent.
func (r *Router) onRouteAssigned(ctx context.Context, d *peer.Delivery) error {
	var route protocol.RouteAssigned
	if err := d.Decode(&route); err != nil {
		return peer.Reject("the content of this route_assigned cannot be read: " + err.Error())
	}
	if route.Topic != "" && route.Topic != d.Topic {
		return peer.Reject(fmt.Sprintf("a route for %s was sent to %s", route.Topic, d.Topic))
	}
	if err := protocol.CheckPeerID(string(route.Agent)); err != nil || !text.IsCleanName(route.RequestID) {
		return peer.Reject("agent and requestId must be " + text.NameRule)
	}
	if protocol.RoleOf(route.Agent) != protocol.RoleAgent {
		return peer.Reject(fmt.Sprintf("%q is not an agent, so a chat cannot be assigned to it", route.Agent))
	}
	var id protocol.PeerID
	err := store.InTx(ctx, r.db, func(tx *store.Tx) {
		var refusal string
		if id, refusal = r.adapter.FindChat(tx, d.Topic); refusal != "" {
			tx.Fail(peer.Reject(refusal))
			return
		}
		r.assign(tx, id, &route, d.Message.From)
	})
	if err != nil {
		return err
	}
	r.opts.Crash("assigned")
	retried := errors.Join( // the agent is online, so what waits for it need not wait any longer
		r.deliveries.RetryNow(ctx, haltDestination(id, route.Agent)),
		r.deliveries.RetryNow(ctx, agentDestination(id, route.Agent)),
		r.steps.RetryNow(ctx, string(id)),
	)
	if retried != nil {
		r.log.Warn().Err(retried).Str("topic", string(id)).
			Msg("queue of an agent not retried at once; it waits for its backoff")
	}
	return nil
}

// assign records an agent, and queues its configure message and the waiting events.
func (r *Router) assign(tx *store.Tx, id protocol.PeerID, route *protocol.RouteAssigned, from protocol.PeerID) {
	c := r.table.load(tx, id)
	spawned := r.answersRequest(tx, c, route, from)
	if spawned || r.opts.OneAgent {
		r.replaceAgents(tx, c, route.Agent)
	}
	tx.Exec(`INSERT INTO bridge_agents (bridge, chat, agent, spawned, at) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (bridge, chat, agent) DO UPDATE SET configured = 0, spawned = max(spawned, ?4)`,
		r.opts.Name, id, route.Agent, spawned, r.now())
	r.transition(tx, c, triggerRoute)
	tx.Fail(r.enqueue(tx, id, route.Agent, fmt.Sprintf("configure:%d", r.now()), agentItem{}))
	r.dispatch(tx, id)
	tx.OnCommit(func() {
		r.log.Info().Str("topic", string(id)).Str("peer", string(route.Agent)).Bool("spawned", spawned).
			Msg("agent assigned to chat")
	})
}

// answersRequest distinguishes a spawner's answer from an operator's assignment. It
// rejects an answer to another chat's request, and one that comes too late.
func (r *Router) answersRequest(
	tx *store.Tx, c *chatState, route *protocol.RouteAssigned, from protocol.PeerID,
) bool {
	if route.RequestID == "" {
		return from == protocol.PeerSystem && c.state != Assigned
	}
	asker := store.Value[protocol.PeerID](tx, `SELECT chat FROM bridge_requests WHERE request = ? AND bridge = ?`,
		route.RequestID, r.opts.Name)
	// A spawner may repeat its answer, or announce the agent again after a restart. That
	// must not add a second agent beside an operator's.
	known := func(a Assignment) bool { return a.Spawned || a.Agent == route.Agent }
	switch {
	case asker == "":
		tx.Fail(peer.Reject(fmt.Sprintf("%s never made the request %q", c.id, route.RequestID)))
	case asker != c.id:
		tx.Fail(peer.Reject(fmt.Sprintf("the request %q belongs to another chat", route.RequestID)))
	case c.state == Assigned && !slices.ContainsFunc(r.Agents(tx, c.id), known):
		tx.Fail(peer.Reject(fmt.Sprintf("%s has been given another agent in the meantime", c.id)))
	}
	return true
}

// replaceAgents removes the spawned agent of a chat, or every agent if there may be only
// one, in favor of a new agent, which receives what the old ones did not.
func (r *Router) replaceAgents(tx *store.Tx, c *chatState, agent protocol.PeerID) {
	for _, old := range r.Agents(tx, c.id) {
		if old.Agent == agent || !old.Spawned && !r.opts.OneAgent {
			continue
		}
		tx.Exec(`DELETE FROM bridge_agents WHERE bridge = ? AND chat = ? AND agent = ?`, r.opts.Name, c.id, old.Agent)
		for _, item := range r.deliveries.ListByPrefix(tx, agentDestination(c.id, old.Agent), "event:") {
			if item.State == outbox.StatePending {
				r.table.readdress(tx, parseEventID(item.Body), old.Agent, agent)
			}
		}
		r.deliveries.Move(tx, agentDestination(c.id, old.Agent), agentDestination(c.id, agent))
		r.deliveries.Move(tx, haltDestination(c.id, old.Agent), haltDestination(c.id, agent))
		tx.OnCommit(func() {
			r.log.Warn().Str("topic", string(c.id)).Str("peer", string(old.Agent)).Str("by", string(agent)).
				Msg("agent of chat replaced")
		})
	}
}

// errReplaced is the cause of a dropped item that another agent gets.
var errReplaced = errors.New("the agent is no longer assigned to this chat")

// handOver gives the agent that replaced the one of an item what Move left because it was being delivered.
func (r *Router) handOver(ctx context.Context, item *outbox.Item, e *Event, agents []Assignment) error {
	i := slices.IndexFunc(agents, func(a Assignment) bool { return a.Spawned || r.opts.OneAgent })
	var body agentItem
	if err := json.Unmarshal(item.Body, &body); err != nil || i < 0 {
		return outbox.Permanent(errors.Join(errReplaced, err))
	}
	err := store.InTx(ctx, r.db, func(tx *store.Tx) {
		r.table.readdress(tx, e.ID, e.Agent, agents[i].Agent)
		tx.Fail(r.enqueue(tx, e.Chat, agents[i].Agent, item.Key, body))
	})
	return cmp.Or(err, outbox.Drop(errReplaced))
}

// onSpawnResult handles a spawn_result. Only a failure matters, since a success is followed by a
// route. The request decides which chat it is for, not the topic. A result without a request
// answers none: it says that an agent failed permanently or, if it names no agent, that the
// topic's chat gets none.
func (r *Router) onSpawnResult(ctx context.Context, d *peer.Delivery) error {
	var result protocol.SpawnResult
	if err := d.Decode(&result); err != nil {
		return peer.Reject("the content of this spawn_result cannot be read: " + err.Error())
	}
	if result.Status != protocol.SpawnFailed {
		return nil
	}
	return store.InTx(ctx, r.db, func(tx *store.Tx) {
		if result.RequestID == "" {
			r.onAgentFailed(tx, d.Topic, &result)
			return
		}
		id, found := store.One(tx, store.Scalar[protocol.PeerID], `SELECT chat FROM bridge_chats
			WHERE bridge = ? AND request = ? AND state = 'asking'`, r.opts.Name, result.RequestID)
		if found { // else the request is closed, or another bridge's
			r.onSpawnFailed(tx, id, result.Error)
		}
	})
}

// onAgentFailed notifies a chat that its own agent ended permanently. It changes nothing else:
// the next event requests the agent again, and that request gets its own answer.
func (r *Router) onAgentFailed(tx *store.Tx, topic protocol.Topic, result *protocol.SpawnResult) {
	id, refusal := r.adapter.FindChat(tx, topic)
	if refusal != "" { // the chat of another bridge
		return
	}
	if result.Agent == "" {
		r.onSpawnFailed(tx, id, result.Error)
		return
	}
	for _, a := range r.Agents(tx, id) {
		if a.Spawned && a.Agent == result.Agent {
			r.log.Error().Str("topic", string(id)).Str("peer", string(a.Agent)).Str("error", result.Error).
				Msg("agent of chat failed; its spawner no longer restarts it")
			r.notify(tx, &Notice{Kind: NoticeAgentFailed, Chat: id, Agent: a.Agent, Reason: result.Error})
		}
	}
}

// onSpawnFailed notifies the chat once and requests an agent again under a new ID.
func (r *Router) onSpawnFailed(tx *store.Tx, id protocol.PeerID, reason string) {
	c := r.table.load(tx, id)
	if c.state != Asking {
		return
	}
	c.problem = cmp.Or(reason, "no reason was given")
	r.log.Error().Str("topic", string(id)).Str("error", c.problem).Msg("agent not started; requesting it again")
	r.notifyOnce(tx, c, NoticeStartFailed, c.problem)
	r.transition(tx, c, triggerSpawnFailed)
}

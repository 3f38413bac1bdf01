package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// onRouteAssigned is a route_assigned: the chat has an agent now. One that answers a
// spawn request must answer one of this chat's own; one without a request is an
// operator's, and adds an agent.
func (r *Router) onRouteAssigned(ctx context.Context, d *peer.Delivery) error {
	var route protocol.RouteAssigned
	if err := d.Decode(&route); err != nil {
		return peer.Reject("the content of this route_assigned cannot be read: " + err.Error())
	}
	if route.Topic != "" && route.Topic != d.Topic {
		return peer.Reject(fmt.Sprintf("a route for %s was sent to %s", route.Topic, d.Topic))
	}
	if protocol.RoleOf(route.Agent) != protocol.RoleAgent {
		return peer.Reject(fmt.Sprintf("%q is no agent that a chat can talk to", route.Agent))
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
	// The agent is there: what waits for it waits no longer.
	hurried := errors.Join(r.deliveries.RetryNow(ctx, haltDestination(id, route.Agent)), r.deliveries.RetryNow(ctx, agentDestination(id, route.Agent)), r.steps.RetryNow(ctx, string(id)))
	if hurried != nil {
		r.log.Warn().Err(hurried).Str("topic", string(id)).Msg("agent queue not woken; it waits for its backoff")
	}
	return nil
}

// assign records an agent and queues its configure message and what waits.
func (r *Router) assign(tx *store.Tx, id protocol.PeerID, route *protocol.RouteAssigned, from protocol.PeerID) {
	c := r.load(tx, id)
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
		r.log.Info().Str("topic", string(id)).Str("peer", string(route.Agent)).Bool("spawned", spawned).Msg("chat has an agent")
	})
}

// answersRequest tells a spawner's answer from an operator's assignment, and
// refuses answers to what another chat asked, or to what is no longer wanted.
func (r *Router) answersRequest(tx *store.Tx, c *chatState, route *protocol.RouteAssigned, from protocol.PeerID) bool {
	if route.RequestID == "" {
		return from == protocol.PeerSystem && c.state != Assigned
	}
	asker := store.Value[protocol.PeerID](tx, `SELECT chat FROM bridge_requests WHERE request = ? AND bridge = ?`, route.RequestID, r.opts.Name)
	// The spawner may repeat itself, or announce the agent anew after a restart; it
	// must not add a second one to an operator's.
	known := func(a Assignment) bool { return a.Spawned || a.Agent == route.Agent }
	switch {
	case asker == "":
		tx.Fail(peer.Reject(fmt.Sprintf("%s never made the request %q", c.id, route.RequestID)))
	case asker != c.id:
		tx.Fail(peer.Reject(fmt.Sprintf("the request %q is another chat's", route.RequestID)))
	case c.state == Assigned && !slices.ContainsFunc(r.Agents(tx, c.id), known):
		tx.Fail(peer.Reject(fmt.Sprintf("%s was given another agent meanwhile", c.id)))
	}
	return true
}

// replaceAgents lets an agent take the place of the one that was spawned before, or of
// any: a chat never has two by accident. What the old one did not get goes to the
// new.
func (r *Router) replaceAgents(tx *store.Tx, c *chatState, agent protocol.PeerID) {
	for _, old := range r.Agents(tx, c.id) {
		if old.Agent == agent || !old.Spawned && !r.opts.OneAgent {
			continue
		}
		tx.Exec(`DELETE FROM bridge_agents WHERE bridge = ? AND chat = ? AND agent = ?`, r.opts.Name, c.id, old.Agent)
		r.deliveries.Move(tx, agentDestination(c.id, old.Agent), agentDestination(c.id, agent))
		r.deliveries.Move(tx, haltDestination(c.id, old.Agent), haltDestination(c.id, agent))
		tx.OnCommit(func() {
			r.log.Warn().Str("topic", string(c.id)).Str("peer", string(old.Agent)).Str("by", string(agent)).Msg("chat's agent replaced")
		})
	}
}

// onSpawnResult is a spawn_result. Only a failure matters here: success is
// followed by the route. It is matched by its request, whatever its topic says. One
// without a request answers none: it tells that an agent was given up, or, if it
// names no agent either, that the topic's chat gets none.
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
		if found { // else an old request, or another surface's
			r.onSpawnFailed(tx, id, result.Error)
		}
	})
}

// onAgentFailed tells the chat that its own agent ended for good. It changes nothing
// else: the agent is asked for again when there is something to pass on, and that
// request has an answer of its own.
func (r *Router) onAgentFailed(tx *store.Tx, topic protocol.Topic, result *protocol.SpawnResult) {
	id, refusal := r.adapter.FindChat(tx, topic)
	if refusal != "" { // another surface's
		return
	}
	if result.Agent == "" {
		r.onSpawnFailed(tx, id, result.Error)
		return
	}
	for _, a := range r.Agents(tx, id) {
		if a.Spawned && a.Agent == result.Agent {
			r.log.Error().Str("topic", string(id)).Str("peer", string(a.Agent)).Str("error", result.Error).Msg("chat's agent given up by its spawner")
			r.notify(tx, &Notice{Kind: NoticeAgentFailed, Chat: id, Agent: a.Agent, Reason: result.Error})
		}
	}
}

// onSpawnFailed tells the chat once and asks again later, under a new request.
func (r *Router) onSpawnFailed(tx *store.Tx, id protocol.PeerID, why string) {
	c := r.load(tx, id)
	if c.state != Asking {
		return
	}
	c.problem = cmp.Or(why, "no reason was given")
	r.log.Error().Str("topic", string(id)).Str("error", c.problem).Msg("agent not started; asking again")
	r.notifyOnce(tx, c, NoticeStartFailed, c.problem)
	r.transition(tx, c, triggerSpawnFailed)
}

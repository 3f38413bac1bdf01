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
func (s *Router) onRouteAssigned(ctx context.Context, d *peer.Delivery) error {
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
	err := store.InTx(ctx, s.db, func(tx *store.Tx) {
		var refusal string
		if id, refusal = s.adapter.FindChat(tx, d.Topic); refusal != "" {
			tx.Fail(peer.Reject(refusal))
			return
		}
		s.assign(tx, id, &route, d.Message.From)
	})
	if err != nil {
		return err
	}
	s.opts.Crash("assigned")
	// The agent is there: what waits for it waits no longer.
	hurried := errors.Join(s.deliveries.Hurry(ctx, haltDestination(id, route.Agent)), s.deliveries.Hurry(ctx, agentDestination(id, route.Agent)), s.steps.Hurry(ctx, string(id)))
	if hurried != nil {
		s.log.Warn().Err(hurried).Str("topic", string(id)).Msg("agent queue not woken; it waits for its backoff")
	}
	return nil
}

// assign records an agent and queues its configure message and what waits.
func (s *Router) assign(tx *store.Tx, id protocol.PeerID, route *protocol.RouteAssigned, from protocol.PeerID) {
	c := s.load(tx, id)
	spawned := s.answersRequest(tx, c, route, from)
	if spawned || s.opts.OneAgent {
		s.replaceAgents(tx, c, route.Agent)
	}
	tx.Exec(`INSERT INTO surface_agents (surface, chat, agent, spawned, at) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (surface, chat, agent) DO UPDATE SET configured = 0, spawned = max(spawned, ?4)`,
		s.opts.Name, id, route.Agent, spawned, s.now())
	s.transition(tx, c, triggerRoute)
	tx.Fail(s.enqueue(tx, id, route.Agent, fmt.Sprintf("configure:%d", s.now()), agentItem{}))
	s.dispatch(tx, id)
	tx.After(func() {
		s.log.Info().Str("topic", string(id)).Str("peer", string(route.Agent)).Bool("spawned", spawned).Msg("chat has an agent")
	})
}

// answersRequest tells a spawner's answer from an operator's assignment, and
// refuses answers to what another chat asked, or to what is no longer wanted.
func (s *Router) answersRequest(tx *store.Tx, c *chatState, route *protocol.RouteAssigned, from protocol.PeerID) bool {
	if route.RequestID == "" {
		return from == protocol.PeerSystem && c.state != Assigned
	}
	asker := store.Value[protocol.PeerID](tx, `SELECT chat FROM surface_requests WHERE request = ? AND surface = ?`, route.RequestID, s.opts.Name)
	// The spawner may repeat itself, or announce the agent anew after a restart; it
	// must not add a second one to an operator's.
	known := func(a Assignment) bool { return a.Spawned || a.Agent == route.Agent }
	switch {
	case asker == "":
		tx.Fail(peer.Reject(fmt.Sprintf("%s never made the request %q", c.id, route.RequestID)))
	case asker != c.id:
		tx.Fail(peer.Reject(fmt.Sprintf("the request %q is another chat's", route.RequestID)))
	case c.state == Assigned && !slices.ContainsFunc(s.Agents(tx, c.id), known):
		tx.Fail(peer.Reject(fmt.Sprintf("%s was given another agent meanwhile", c.id)))
	}
	return true
}

// replaceAgents lets an agent take the place of the one that was spawned before, or of
// any: a chat never has two by accident. What the old one did not get goes to the
// new.
func (s *Router) replaceAgents(tx *store.Tx, c *chatState, agent protocol.PeerID) {
	for _, old := range s.Agents(tx, c.id) {
		if old.Agent == agent || !old.Spawned && !s.opts.OneAgent {
			continue
		}
		tx.Exec(`DELETE FROM surface_agents WHERE surface = ? AND chat = ? AND agent = ?`, s.opts.Name, c.id, old.Agent)
		s.deliveries.Move(tx, agentDestination(c.id, old.Agent), agentDestination(c.id, agent))
		s.deliveries.Move(tx, haltDestination(c.id, old.Agent), haltDestination(c.id, agent))
		tx.After(func() {
			s.log.Warn().Str("topic", string(c.id)).Str("peer", string(old.Agent)).Str("by", string(agent)).Msg("chat's agent replaced")
		})
	}
}

// onSpawnResult is a spawn_result. Only a failure matters here: success is
// followed by the route. It is matched by its request, whatever its topic says. One
// without a request answers none: it tells that an agent was given up, or, if it
// names no agent either, that the topic's chat gets none.
func (s *Router) onSpawnResult(ctx context.Context, d *peer.Delivery) error {
	var result protocol.SpawnResult
	if err := d.Decode(&result); err != nil {
		return peer.Reject("the content of this spawn_result cannot be read: " + err.Error())
	}
	if result.Status != protocol.SpawnFailed {
		return nil
	}
	return store.InTx(ctx, s.db, func(tx *store.Tx) {
		if result.RequestID == "" {
			s.onAgentFailed(tx, d.Topic, &result)
			return
		}
		id, found := store.One(tx, store.Itself[protocol.PeerID], `SELECT chat FROM surface_chats
			WHERE surface = ? AND request = ? AND state = 'asking'`, s.opts.Name, result.RequestID)
		if found { // else an old request, or another surface's
			s.onSpawnFailed(tx, id, result.Error)
		}
	})
}

// onAgentFailed tells the chat that its own agent ended for good. It changes nothing
// else: the agent is asked for again when there is something to pass on, and that
// request has an answer of its own.
func (s *Router) onAgentFailed(tx *store.Tx, topic protocol.Topic, result *protocol.SpawnResult) {
	id, refusal := s.adapter.FindChat(tx, topic)
	if refusal != "" { // another surface's
		return
	}
	if result.Agent == "" {
		s.onSpawnFailed(tx, id, result.Error)
		return
	}
	for _, a := range s.Agents(tx, id) {
		if a.Spawned && a.Agent == result.Agent {
			s.log.Error().Str("topic", string(id)).Str("peer", string(a.Agent)).Str("error", result.Error).Msg("chat's agent given up by its spawner")
			s.notify(tx, &Notice{Kind: NoticeAgentFailed, Chat: id, Agent: a.Agent, Reason: result.Error})
		}
	}
}

// onSpawnFailed tells the chat once and asks again later, under a new request.
func (s *Router) onSpawnFailed(tx *store.Tx, id protocol.PeerID, why string) {
	c := s.load(tx, id)
	if c.state != Asking {
		return
	}
	c.problem = cmp.Or(why, "no reason was given")
	s.log.Error().Str("topic", string(id)).Str("error", c.problem).Msg("agent not started; asking again")
	s.notifyOnce(tx, c, NoticeStartFailed, c.problem)
	s.transition(tx, c, triggerSpawnFailed)
}

package surface

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// takeRoute is a route_assigned: the chat has an agent now. One that answers a
// spawn request must answer one of this chat's own; one without a request is an
// operator's, and adds an agent.
func (s *Surface) takeRoute(ctx context.Context, d *peer.Delivery) error {
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
	err := store.InTx(ctx, s.db, func(tx *sql.Tx) (err error) {
		var refusal string
		if id, refusal, err = s.host.Find(ctx, tx, d.Topic); err != nil {
			return err
		}
		if refusal != "" {
			return peer.Reject(refusal)
		}
		return s.assign(ctx, tx, id, &route, d.Message.From)
	})
	if err != nil {
		return err
	}
	s.opts.Crash("assigned")
	// The agent is there: what waits for it waits no longer.
	hurried := errors.Join(s.agents.Hurry(ctx, agentDestination(id, route.Agent)), s.chats.Hurry(ctx, string(id)))
	if hurried != nil {
		s.log.Warn().Err(hurried).Str("topic", string(id)).Msg("agent queue not woken; it waits for its backoff")
	}
	return nil
}

// assign records an agent and queues its configure message and what waits.
func (s *Surface) assign(ctx context.Context, tx *sql.Tx, id protocol.PeerID, route *protocol.RouteAssigned, from protocol.PeerID) error {
	c, err := s.load(ctx, tx, id)
	if err != nil {
		return err
	}
	spawned, err := s.answersRequest(ctx, tx, c, route, from)
	if err != nil {
		return err
	}
	if spawned || s.opts.OneAgent {
		if err := s.replace(ctx, tx, c, route.Agent); err != nil {
			return err
		}
	}
	err = store.Exec(ctx, tx, `INSERT INTO surface_agents (surface, chat, agent, spawned, at) VALUES (?1, ?2, ?3, ?4, ?5)
		ON CONFLICT (surface, chat, agent) DO UPDATE SET configured = 0, spawned = max(spawned, ?4)`,
		s.opts.Name, id, route.Agent, spawned, s.now())
	if err == nil {
		_, err = s.move(ctx, tx, c, routed)
	}
	if err == nil {
		err = s.enqueue(ctx, tx, id, route.Agent, fmt.Sprintf("configure:%d", s.now()), item{})
	}
	if err != nil {
		return err
	}
	s.log.Info().Str("topic", string(id)).Str("peer", string(route.Agent)).Bool("spawned", spawned).Msg("chat has an agent")
	_, err = s.handOn(ctx, tx, id)
	return err
}

// answersRequest tells a spawner's answer from an operator's assignment, and
// refuses answers to what another chat asked, or to what is no longer wanted.
func (s *Surface) answersRequest(ctx context.Context, tx *sql.Tx, c *chat, route *protocol.RouteAssigned, from protocol.PeerID) (bool, error) {
	if route.RequestID == "" {
		return from == protocol.PeerSystem && c.state != Assigned, nil
	}
	asker, found, err := store.One(ctx, tx, store.Column[protocol.PeerID], `SELECT chat FROM surface_requests WHERE request = ? AND surface = ?`,
		route.RequestID, s.opts.Name)
	switch {
	case err != nil:
		return false, err
	case !found:
		return false, peer.Reject(fmt.Sprintf("%s never made the request %q", c.id, route.RequestID))
	case asker != c.id:
		return false, peer.Reject(fmt.Sprintf("the request %q is another chat's", route.RequestID))
	case c.state != Assigned:
		return true, nil
	}
	// The spawner may repeat itself, or announce the agent anew after a restart; it
	// must not add a second one to an operator's.
	agents, err := s.Agents(ctx, tx, c.id)
	if err != nil {
		return false, err
	}
	for _, a := range agents {
		if a.Spawned || a.Agent == route.Agent {
			return true, nil
		}
	}
	return false, peer.Reject(fmt.Sprintf("%s was given another agent meanwhile", c.id))
}

// replace lets an agent take the place of the one that was spawned before, or of
// any: a chat never has two by accident. What the old one did not get goes to the
// new.
func (s *Surface) replace(ctx context.Context, tx *sql.Tx, c *chat, agent protocol.PeerID) error {
	agents, err := s.Agents(ctx, tx, c.id)
	if err != nil {
		return err
	}
	for _, old := range agents {
		if old.Agent == agent || !old.Spawned && !s.opts.OneAgent {
			continue
		}
		s.log.Warn().Str("topic", string(c.id)).Str("peer", string(old.Agent)).Str("by", string(agent)).Msg("chat's agent replaced")
		err := errors.Join(
			store.Exec(ctx, tx, `DELETE FROM surface_agents WHERE surface = ? AND chat = ? AND agent = ?`, s.opts.Name, c.id, old.Agent),
			s.agents.Move(ctx, tx, agentDestination(c.id, old.Agent), agentDestination(c.id, agent)))
		if err != nil {
			return err
		}
	}
	return nil
}

// takeSpawnResult is a spawn_result. Only a failure matters here: success is
// followed by the route. It is matched by its request, whatever its topic says. One
// without a request answers none: it tells that an agent was given up, or, if it
// names no agent either, that the topic's chat gets none.
func (s *Surface) takeSpawnResult(ctx context.Context, d *peer.Delivery) error {
	var result protocol.SpawnResult
	if err := d.Decode(&result); err != nil {
		return peer.Reject("the content of this spawn_result cannot be read: " + err.Error())
	}
	if result.Status != protocol.SpawnFailed {
		return nil
	}
	err := store.InTx(ctx, s.db, func(tx *sql.Tx) error {
		if result.RequestID == "" {
			return s.takeGivenUp(ctx, tx, d.Topic, &result)
		}
		id, found, err := store.One(ctx, tx, store.Column[protocol.PeerID], `SELECT chat FROM surface_chats
			WHERE surface = ? AND request = ? AND state = 'asking'`, s.opts.Name, result.RequestID)
		if err != nil || !found { // an old request, or another surface's
			return err
		}
		return s.spawnFailed(ctx, tx, id, result.Error)
	})
	s.host.Wake()
	return err
}

// takeGivenUp tells the chat that its own agent ended for good. It changes nothing
// else: the agent is asked for again when there is something to pass on, and that
// request has an answer of its own.
func (s *Surface) takeGivenUp(ctx context.Context, tx *sql.Tx, topic protocol.Topic, result *protocol.SpawnResult) error {
	id, refusal, err := s.host.Find(ctx, tx, topic)
	if err != nil || refusal != "" { // another surface's
		return err
	}
	if result.Agent == "" {
		return s.spawnFailed(ctx, tx, id, result.Error)
	}
	agents, err := s.Agents(ctx, tx, id)
	if err != nil {
		return err
	}
	for _, a := range agents {
		if a.Spawned && a.Agent == result.Agent {
			s.log.Error().Str("topic", string(id)).Str("peer", string(a.Agent)).Str("error", result.Error).Msg("chat's agent given up by its spawner")
			return s.tell(ctx, tx, &Notice{Kind: NoticeGivenUp, Chat: id, Agent: a.Agent, Why: result.Error})
		}
	}
	return nil
}

// spawnFailed tells the chat once and asks again later, under a new request.
func (s *Surface) spawnFailed(ctx context.Context, tx *sql.Tx, id protocol.PeerID, why string) error {
	if why == "" {
		why = "no reason was given"
	}
	c, err := s.load(ctx, tx, id)
	if err != nil || c.state != Asking {
		return err
	}
	s.log.Error().Str("topic", string(id)).Str("error", why).Msg("agent not started; asking again")
	c.trouble = why
	if err := s.tellOnce(ctx, tx, c, NoticeFailed, why); err != nil {
		return err
	}
	_, err = s.move(ctx, tx, c, failed)
	return err
}

package system

import (
	"context"
	"fmt"
	"slices"
	"time"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
)

// A request is a spawn_request.
type request struct {
	requester protocol.PeerID
	id        string // names the request among the requester's
	requestID string // its requestId, as it came
	message   protocol.MessageID
	trace     string // its traceparent
	topic     protocol.Topic
	agent     string // the name asked for; empty for the topic's own agent
	profile   string
}

// maxTopics bounds the chats of one agent: its credential lists them.
const maxTopics = 200

// parseRequest reads a spawn_request. Its error is for the sender.
func parseRequest(d *peer.Delivery) (request, error) {
	var c protocol.SpawnRequest
	if err := d.Decode(&c); err != nil {
		return request{}, fmt.Errorf("the content of this spawn_request cannot be read: %w", err)
	}
	r := request{
		requester: d.Message.From, id: c.RequestID, requestID: c.RequestID, message: d.Message.MessageID,
		trace: d.Message.TraceParent, topic: c.Topic, agent: c.Agent, profile: c.Profile,
	}
	if r.id == "" {
		r.id = string(r.message)
	}
	if r.topic == "" {
		r.topic = r.requester.Topic()
	}
	if len(r.id) > protocol.MaxMessageID {
		return r, fmt.Errorf("the requestId is %d bytes long; at most %d are allowed", len(r.id), protocol.MaxMessageID)
	}
	return r, nil
}

// handleSpawnRequest stores a request, with its answer where there is one
// already, before it is acknowledged.
func (s *Spawner) handleSpawnRequest(ctx context.Context, d *peer.Delivery) error {
	if d.Topic != protocol.TopicSpawn {
		return peer.Reject("spawn requests go to " + string(protocol.TopicSpawn))
	}
	r, err := parseRequest(d)
	if err != nil {
		return peer.Reject(err.Error())
	}
	s.opts.failpoint("request received")
	var agent AgentName
	var woken bool
	err = store.InTx(ctx, s.db, func(tx *store.Tx) { agent, woken = s.admit(tx, r) })
	if err != nil {
		return fmt.Errorf("storing the request: %w", err)
	}
	s.opts.failpoint("request stored")
	if agent != "" {
		s.supervise(agent, woken)
		if k := s.supervisor(agent); k != nil {
			k.touch()
			k.changed.Notify()
			k.wanted.Notify()
		}
	}
	// The requester is on the bus now, so its answers need not wait for their backoff.
	if err := s.outbox.RetryNow(ctx, string(r.requester)); err != nil {
		s.log.Warn().Err(err).Msg("answers not hurried; they wait for their backoff")
	}
	return nil
}

// admit decides on a request and stores what follows: a wanted agent and the request
// that waits for it, an immediate answer, or a refusal. woken reports whether the
// agent was not wanted before.
func (s *Spawner) admit(tx *store.Tx, r request) (agent AgentName, woken bool) {
	if answering(tx, r) > 0 {
		return "", false // it came before, and its answer is on the way
	}
	agent, refusal := s.chooseAgent(tx, r)
	if refusal == nil {
		woken, refusal = s.wantAgent(tx, agent, r)
	}
	if tx.Err() != nil {
		return "", false
	}
	if refusal != nil {
		s.log.Warn().Str("peer", string(r.requester)).Str("topic", string(r.topic)).Err(refusal).Msg("spawn request refused")
		s.answer(tx, r, "", refusal)
		return "", false
	}
	storeRequest(tx, r, agent, 0)
	if findAgent(tx, agent).online {
		s.answer(tx, r, agent, nil)
	}
	return agent, woken
}

// chooseAgent finds or names the agent that a request is about. refusal is the reason
// that the requester is told.
func (s *Spawner) chooseAgent(tx *store.Tx, r request) (agent AgentName, refusal error) {
	if err := checkTopic(r.topic, r.requester); err != nil {
		return "", err
	}
	if r.agent != "" {
		return AgentName(r.agent), CheckName(r.agent)
	}
	if agent := ownAgent(tx, r.topic); agent != "" {
		return agent, nil
	}
	for _, name := range deriveNames(r.topic) {
		if findAgent(tx, name).state == "" {
			return name, nil
		}
	}
	return "", fmt.Errorf("every name for an agent of %s is taken; ask for one by name", r.topic)
}

// wantAgent makes sure that an agent exists, is wanted, and talks to the topic.
func (s *Spawner) wantAgent(tx *store.Tx, agent AgentName, r request) (woken bool, refusal error) {
	if _, ok := s.opts.Profiles[r.profile]; r.profile != "" && !ok {
		return false, fmt.Errorf("there is no profile %.60q", r.profile)
	}
	a := findAgent(tx, agent)
	if a.state == "" {
		a.profile = r.profile
		if r.agent == "" {
			a.derived = r.topic
		}
	}
	if woken = a.state != stateWanted; woken {
		if err := s.checkBounds(tx); err != nil {
			return false, err
		}
		tx.Exec(toWanted, a.name, a.profile, a.derived, time.Now().UnixMicro())
	}
	topics := topicsOf(tx, agent)
	switch {
	case slices.Contains(topics, r.topic):
	case len(topics) >= maxTopics:
		return false, fmt.Errorf("%s talks to %d chats already", agent.PeerID(), len(topics))
	default: // another chat needs a wider credential, and so a new start
		assign(tx, agent, r.topic, s.opts.Credentials)
	}
	return woken, nil
}

// checkBounds enforces the bounds on agents and on waiting requests.
func (s *Spawner) checkBounds(tx *store.Tx) (refusal error) {
	type counts struct{ agents, requests int }
	n, _ := store.One(tx, func(c *counts) []any { return []any{&c.agents, &c.requests} },
		`SELECT (SELECT count(*) FROM agents WHERE state = 'wanted'), (SELECT count(*) FROM requests)`)
	switch {
	case n.agents >= s.opts.MaxAgents:
		return fmt.Errorf("%d agents run already, and no more may (--max-agents)", n.agents)
	case n.requests >= s.opts.MaxRequests:
		return fmt.Errorf("%d requests wait already; try again later", n.requests)
	}
	return nil
}

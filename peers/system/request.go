package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hubbub/peers/peer"
	"hubbub/peers/store"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// A request is a spawn_request.
type request struct {
	requester protocol.PeerID
	id        string // unique per requester
	requestID string // as received
	message   protocol.MessageID
	trace     string // its traceparent
	topic     protocol.Topic
	agent     string // requested name; empty for the topic's own agent
	profile   string
}

// maxTopics bounds the chats of one agent, since its credential lists them.
const maxTopics = 200

// parseRequest decodes a spawn_request. Its error is shown to the requester.
func parseRequest(d *peer.Delivery) (request, error) {
	var c protocol.SpawnRequest
	if err := d.Decode(&c); err != nil {
		return request{}, fmt.Errorf("the content of this spawn_request cannot be decoded: %w", err)
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
	if !text.IsCleanName(r.requestID) {
		return r, errors.New("the requestId must be " + text.NameRule)
	}
	if len(r.id) > protocol.MaxMessageID {
		return r, fmt.Errorf("the requestId is %d bytes long; at most %d are allowed", len(r.id), protocol.MaxMessageID)
	}
	return r, nil
}

// handleSpawnRequest stores a request, and its answer if there already is one, before it is
// acknowledged.
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
	// The requester is on the bus now, so its answers can be sent at once.
	if err := s.outbox.RetryNow(ctx, string(r.requester)); err != nil {
		s.opts.Log.Warn().Err(err).Msg("answers not sent at once; their backoff continues")
	}
	return nil
}

// admit decides on a request. It stores a wanted agent and the waiting request, an immediate
// answer, or a refusal. woken reports whether the agent was not wanted before.
func (s *Spawner) admit(tx *store.Tx, r request) (agent AgentName, woken bool) {
	if answering(tx, r) > 0 {
		return "", false // a repetition; its answer is queued
	}
	agent, refusal := s.chooseAgent(tx, r)
	if refusal == nil {
		woken, refusal = s.wantAgent(tx, agent, r)
	}
	if tx.Err() != nil {
		return "", false
	}
	if refusal != nil {
		s.opts.Log.Warn().Str("peer", string(r.requester)).Str("topic",
			string(r.topic)).Err(refusal).Msg("spawn request refused")
		s.answer(tx, r, "", refusal)
		return "", false
	}
	storeRequest(tx, r, agent, 0)
	if findAgent(tx, agent).online {
		s.answer(tx, r, agent, nil)
	}
	return agent, woken
}

// chooseAgent returns the agent for a request, or a new name for it. refusal is the reason for
// the requester.
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
	return "", fmt.Errorf("every name for an agent of %s is taken; request one by name", r.topic)
}

// wantAgent makes sure that an agent is stored, wanted, and assigned to the topic.
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
		return false, fmt.Errorf("%s already has %d chats, which is the limit", agent.PeerID(), len(topics))
	default: // another chat needs a wider credential, and therefore a restart
		assign(tx, agent, r.topic, s.hasToken())
	}
	return woken, nil
}

// checkBounds enforces the bounds on agents and waiting requests.
func (s *Spawner) checkBounds(tx *store.Tx) (refusal error) {
	type counts struct{ agents, requests int }
	n, _ := store.One(tx, func(c *counts) []any { return []any{&c.agents, &c.requests} },
		`SELECT (SELECT count(*) FROM agents WHERE state = 'wanted'), (SELECT count(*) FROM requests)`)
	switch {
	case n.agents >= s.opts.MaxAgents:
		return fmt.Errorf("%d agents are running, which is the limit (--max-agents)", n.agents)
	case n.requests >= s.opts.MaxRequests:
		return fmt.Errorf("%d requests are waiting, which is the limit; try again later", n.requests)
	}
	return nil
}

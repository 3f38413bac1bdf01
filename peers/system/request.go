package system

import (
	"context"
	"database/sql"
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
	echo      string // its requestId, as it came
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
		requester: d.Message.From, id: c.RequestID, echo: c.RequestID, message: d.Message.MessageID,
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

// takeSpawnRequest stores a request, with its answer where there is one
// already, before it is acknowledged.
func (s *Spawner) takeSpawnRequest(ctx context.Context, d *peer.Delivery) error {
	if d.Topic != protocol.TopicSpawn {
		return peer.Reject("spawn requests go to " + string(protocol.TopicSpawn))
	}
	r, err := parseRequest(d)
	if err != nil {
		return peer.Reject(err.Error())
	}
	s.opts.crash("request received")
	var agent AgentName
	var woken bool
	err = store.InTx(ctx, s.db, func(tx *sql.Tx) (err error) {
		agent, woken, err = s.admit(ctx, tx, r)
		return err
	})
	if err != nil {
		return fmt.Errorf("storing the request: %w", err)
	}
	s.opts.crash("request stored")
	s.box.Wake()
	if agent != "" {
		s.keep(agent, woken)
		if k := s.keeper(agent); k != nil {
			k.touch()
			signal(k.changed)
			signal(k.asking)
		}
	}
	// The requester is on the bus now, so its answers need not wait for their backoff.
	if err := s.box.Hurry(ctx, string(r.requester)); err != nil {
		s.log.Warn().Err(err).Msg("answers not hurried; they wait for their backoff")
	}
	return nil
}

// admit decides on a request and stores what follows: a wanted agent and the request
// that waits for it, an immediate answer, or a refusal. woken reports whether the
// agent was not wanted before.
func (s *Spawner) admit(ctx context.Context, tx *sql.Tx, r request) (agent AgentName, woken bool, err error) {
	if n, err := answering(ctx, tx, r); err != nil || n > 0 {
		return "", false, err // it came before, and its answer is on the way
	}
	agent, refusal, err := s.choose(ctx, tx, r)
	if err == nil && refusal == nil {
		woken, refusal, err = s.want(ctx, tx, agent, r)
	}
	if err != nil {
		return "", false, err
	}
	if refusal != nil {
		s.log.Warn().Str("peer", string(r.requester)).Str("topic", string(r.topic)).Err(refusal).Msg("spawn request refused")
		return "", false, s.answer(ctx, tx, r, "", refusal)
	}
	if err := storeRequest(ctx, tx, r, agent, 0); err != nil {
		return "", false, err
	}
	a, err := findAgent(ctx, tx, agent)
	if err == nil && a.online {
		err = s.answer(ctx, tx, r, agent, nil)
	}
	return agent, woken, err
}

// choose finds or names the agent that a request is about. refusal is the reason
// that the requester is told.
func (s *Spawner) choose(ctx context.Context, tx *sql.Tx, r request) (agent AgentName, refusal, err error) {
	if err := checkTopic(r.topic, r.requester); err != nil {
		return "", err, nil
	}
	if r.agent != "" {
		if err := CheckName(r.agent); err != nil {
			return "", err, nil
		}
		return AgentName(r.agent), nil, nil
	}
	agent, err = ownAgent(ctx, tx, r.topic)
	if err != nil || agent != "" {
		return agent, nil, err
	}
	for _, name := range deriveNames(r.topic) {
		if a, err := findAgent(ctx, tx, name); err != nil || a.state == "" {
			return name, nil, err
		}
	}
	return "", fmt.Errorf("every name for an agent of %s is taken; ask for one by name", r.topic), nil
}

// want makes sure that an agent exists, is wanted, and talks to the topic.
func (s *Spawner) want(ctx context.Context, tx *sql.Tx, agent AgentName, r request) (woken bool, refusal, err error) {
	if _, ok := s.opts.Profiles[r.profile]; r.profile != "" && !ok {
		return false, fmt.Errorf("there is no profile %.60q", r.profile), nil
	}
	a, err := findAgent(ctx, tx, agent)
	if err != nil {
		return false, nil, err
	}
	if a.state == "" {
		a.profile = r.profile
		if r.agent == "" {
			a.derived = r.topic
		}
	}
	if woken = a.state != stateWanted; woken {
		refusal, err := s.checkRoom(ctx, tx)
		if refusal == nil && err == nil {
			err = store.Exec(ctx, tx, toWanted, a.name, a.profile, a.derived, time.Now().UnixMicro())
		}
		if refusal != nil || err != nil {
			return false, refusal, err
		}
	}
	topics, err := topicsOf(ctx, tx, agent)
	switch {
	case err != nil || slices.Contains(topics, r.topic):
		return woken, nil, err
	case len(topics) >= maxTopics:
		return false, fmt.Errorf("%s talks to %d chats already", agent.PeerID(), len(topics)), nil
	}
	// Another chat needs a wider credential, and so a new start.
	return woken, nil, assign(ctx, tx, agent, r.topic, s.opts.Credentials)
}

// checkRoom enforces the bounds on agents and on waiting requests.
func (s *Spawner) checkRoom(ctx context.Context, tx *sql.Tx) (refusal, err error) {
	var agents, requests int
	err = tx.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM agents WHERE state = 'wanted'),
		(SELECT count(*) FROM requests)`).Scan(&agents, &requests)
	switch {
	case err != nil:
		return nil, fmt.Errorf("counting agents: %w", err)
	case agents >= s.opts.MaxAgents:
		return fmt.Errorf("%d agents run already, and no more may (--max-agents)", agents), nil
	case requests >= s.opts.MaxRequests:
		return fmt.Errorf("%d requests wait already; try again later", requests), nil
	}
	return nil, nil
}
